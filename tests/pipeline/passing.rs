//! Everything passes through: exit status, signals, streams; and profiles come and go.

use std::os::unix::process::ExitStatusExt;

use crate::set_up;
use common::root::Root;

#[test]
fn exit_status_and_signals_are_the_apps() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    for command in ["learn", "run"] {
        let exit = |script: &str| {
            let cmd = ["/bin/sh", "-c", script];
            root.paralfetch(&[command], &cmd).output().unwrap()
        };
        assert_eq!(exit("cat /data/1; exit 7").status.code(), Some(7));
        assert_eq!(exit("kill -TERM $$").status.signal(), Some(15));
        let output = exit("echo out; echo err >&2");
        assert_eq!(output.stdout, b"out\n");
        assert!(String::from_utf8_lossy(&output.stderr).contains("err\n"));
    }
}

#[test]
fn profiles_are_listed_shown_and_forgotten() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    let output = |args: &[&str]| root.paralfetch(args, &[]).output().unwrap();
    let list = String::from_utf8(output(&["list"]).stdout).unwrap();
    assert!(list.contains(" /bin/sh (in "), "{list}");
    let json: serde_json::Value =
        serde_json::from_slice(&output(&["list", "--json"]).stdout).unwrap();
    assert_eq!(json[0]["path"], "/bin/sh");

    let text = String::from_utf8(output(&["show", "--entries", "sh"]).stdout).unwrap();
    assert!(text.contains("/data/1\n"), "{text}");
    let text = String::from_utf8(output(&["show", "sh"]).stdout).unwrap();
    let of_file = text.lines().find(|line| line.ends_with("/data/1"));
    assert!(of_file.is_some_and(|line| line.starts_with("[█")), "{text}");
    assert!(text.contains("metadata shift 64 KiB"), "{text}");

    assert!(output(&["forget", "sh"]).status.success());
    for args in [["show", "sh"], ["forget", "sh"]] {
        let refused = output(&args);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("no profile of sh"));
    }
}
