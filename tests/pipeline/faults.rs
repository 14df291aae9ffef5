//! What goes wrong, and that the app starts all the same.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::processes::launch_told;
use crate::set_up;
use common::drop_caches;
use common::root::{Root, content, our_lines};

/// Runs the app and checks that it does its work, and that we say one line about `what`.
fn runs_with_one_line(root: &Root, cmd: &[&str], what: &str) -> Output {
    let output = root.paralfetch(&["run"], cmd).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = our_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(what), "{lines:?}");
    output
}

const READ_ONE: [&str; 3] = ["/bin/sh", "-c", "cat /data/1"];

#[test]
fn without_a_profile() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let output = runs_with_one_line(&root, &READ_ONE, "no profile of /bin/sh");
    assert_eq!(output.stdout, content(1, 16));
}

#[test]
fn with_a_corrupt_profile() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &READ_ONE);
    let file = root.profile_file();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&file, bytes).unwrap();
    let output = runs_with_one_line(&root, &READ_ONE, "learn it again");
    assert_eq!(output.stdout, content(1, 16));
}

#[test]
fn with_replaced_truncated_and_removed_files() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    // An app that ends when it is told to: `run` ends with its app, and what the prefetch has come to
    // know by then is a matter of time.
    mkfifoat(CWD, root.path().join("end"), Mode::RWXU).unwrap();
    let cmd = ["/bin/sh", "-c", "cat /data/*; read word < /end"];
    let launch = |command: &[&str]| our_lines(&launch_told(&root, command, &cmd, "end"));
    launch(&["learn"]);
    let data = root.path().join("data");
    fs::write(data.join("new"), content(9, 16)).unwrap();
    fs::rename(data.join("new"), data.join("1")).unwrap();
    fs::remove_file(data.join("2")).unwrap();
    File::options()
        .write(true)
        .open(data.join("3"))
        .unwrap()
        .set_len(4096)
        .unwrap();
    drop_caches();
    let lines = launch(&["run"]);
    assert!(
        lines.len() == 1 && lines[0].contains("3 files of the profile were"),
        "{lines:?}"
    );
    assert_eq!(root.show("sh")["obsolete"], 3);

    drop_caches();
    let again = launch(&["run"]);
    assert!(again.is_empty(), "one warning is enough: {again:?}");

    drop_caches();
    let text = launch(&["run", "-v"]).join("\n");
    assert!(text.contains("file gone or replaced"), "{text}");
    assert!(text.contains("file truncated"), "{text}");
}

#[test]
fn with_nowhere_to_write_messages() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let full = File::options().write(true).open("/dev/full").unwrap();
    let cmd = ["/bin/sh", "-c", "cat /data/1; exit 7"];
    let output = root
        .paralfetch(&["run"], &cmd)
        .stderr(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{:?}", output.status);
    assert_eq!(output.stdout, content(1, 16));
}

#[test]
fn with_another_file_system_in_the_place_of_the_learned_one() {
    let Some((mut root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &READ_ONE);
    root.replace();
    drop_caches();
    let output = runs_with_one_line(&root, &READ_ONE, "not mounted");
    assert_eq!(output.stdout, content(1, 16));
}

#[test]
fn with_a_device_that_is_gone() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let extra = common::LoopExt4::new(64, &[]);
    fs::write(extra.mount_point().join("file"), content(5, 16)).unwrap();
    let inside = root.path().join("extra");
    fs::create_dir(&inside).unwrap();
    let bound = common::Mounted::bind(extra.mount_point(), &inside);
    let cmd = ["/bin/sh", "-c", "cat /extra/file; cat /data/1"];
    root.learn(&[], &cmd);
    drop(bound);
    drop(extra);
    drop_caches();
    let output = runs_with_one_line(&root, &cmd, "not mounted");
    assert_eq!(output.stdout, content(1, 16));
}

#[test]
fn commands_that_cannot_be_run_are_refused() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    for command in ["learn", "run", "bench"] {
        for (cmd, code, words) in [
            ("/bin/nothing", 127, "command not found"),
            ("nothing", 127, "command not found"),
            ("/data/1", 126, "cannot execute"),
            ("/data", 126, "cannot execute"),
        ] {
            let output = root.paralfetch(&[command], &[cmd]).output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{command} {cmd}: {output:?}"
            );
            let lines = our_lines(&output);
            assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
        }
    }
}

#[test]
fn without_root_learning_is_refused_and_running_is_not() {
    let Some((_root, _turn)) = set_up() else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    // The build directory may be closed to others.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("paralfetch");
    common::copy_program(common::program(), &program);
    let as_nobody = |command: &str| {
        Command::new(&program)
            .arg("--state-dir")
            .arg(state.path())
            .args([command, "--", "/bin/echo", "here"])
            .current_dir(Path::new("/"))
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap()
    };
    let learn = as_nobody("learn");
    assert_eq!(learn.status.code(), Some(125), "{learn:?}");
    assert!(our_lines(&learn)[0].contains("needs root"), "{learn:?}");
    let run = as_nobody("run");
    assert!(run.status.success(), "{run:?}");
    assert_eq!(run.stdout, b"here\n");
    assert_eq!(our_lines(&run).len(), 1, "{run:?}");
}

#[test]
fn what_tracing_lacks_is_named() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let learn = root.paralfetch(&["learn"], &READ_ONE);
    let arguments: Vec<_> = learn.get_args().collect();
    let refusal = |wrapper: &[&str]| {
        let output = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .arg(learn.get_program())
            .args(&arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(
            output.stdout.is_empty(),
            "the app is not started: {output:?}"
        );
        our_lines(&output).join("\n")
    };
    let no_capabilities = [
        "setpriv",
        "--bounding-set",
        "-perfmon,-bpf,-sys_admin",
        "--",
    ];
    let text = refusal(&no_capabilities);
    assert!(text.contains("lacks CAP_PERFMON and CAP_BPF"), "{text}");

    let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let no_btf = ["unshare", "--mount", "sh", "-c", hide, "sh"];
    let text = refusal(&no_btf);
    assert!(
        text.contains("no BTF") && text.contains("CONFIG_DEBUG_INFO_BTF"),
        "{text}"
    );
}
