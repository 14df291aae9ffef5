//! What only root can do: other users and other root directories.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Test;
use crate::behaviour::script;
use crate::roles::run;
use common::is_root;

pub const TESTS: &[Test] = &[
    ("privileged::invoking_user", invoking_user),
    ("privileged::root_directory", root_directory),
    ("privileged::no_privilege_to_chroot", no_privilege_to_chroot),
];

fn text(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().into()
}

fn invoking_user() {
    if !is_root() {
        return;
    }
    let id = |option: &str| text(Command::new("id").args([option, "nobody"]));
    let (uid, gid, groups) = (id("-u"), id("-g"), id("-G"));
    let sh = |script: &str| {
        let mut command = run(&["--sudo"], "sh");
        command.args(["-c", script]).current_dir("/");
        command.env("SUDO_UID", &uid).env("SUDO_GID", &gid);
        command.env("HOME", "/root").env("USER", "root");
        text(&mut command)
    };
    let status = sh("grep -E '^(Uid|Gid|Groups|CapEff|CapPrm):' /proc/self/status");
    let expected = format!(
        "Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\nGroups:\t{groups} \n\
         CapPrm:\t0000000000000000\nCapEff:\t0000000000000000"
    );
    assert_eq!(status, expected);
    assert_eq!(
        sh("echo $USER $LOGNAME ${SUDO_UID-none}"),
        "nobody nobody none"
    );
    assert_ne!(sh("echo $HOME"), "/root");

    // What only root may execute is found, but refused before it is started.
    let directory = tempfile::tempdir().unwrap();
    let path = script(directory.path(), "#!/bin/sh\n");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&path, private).unwrap();
    let mut command = run(&["--sudo"], &path);
    let output = command.env("SUDO_UID", &uid).output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{output:?}");
}

/// Copies a program with the libraries that ldd(1) lists into `root`, under their own paths.
fn copy_program(root: &Path, program: &str) {
    let libraries = text(Command::new("ldd").arg(program));
    let paths = libraries
        .split_ascii_whitespace()
        .filter(|word| word.starts_with('/'));
    for path in paths.chain([program]) {
        let copy = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        common::copy_program(path, copy);
    }
}

fn root_directory() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    copy_program(root, "/bin/sh");
    std::os::unix::fs::symlink("/bin/sh", root.join("bin/shell")).unwrap();
    fs::write(root.join("mark"), "inside\n").unwrap();
    let option = root.to_str().unwrap();
    for program in ["sh", "/bin/shell", "bin/sh"] {
        let mut command = run(&["--root", option], program);
        command.env("PATH", "/bin");
        command.args(["-c", "read mark </mark; echo $mark $0; pwd"]);
        assert_eq!(text(&mut command), format!("inside {program}\n/"));
    }
    let output = run(&["--root", option], "/bin/grep").output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
}

fn no_privilege_to_chroot() {
    let mut command = if rustix::process::geteuid().is_root() {
        run(&["--drop-root", "--root", "/"], "sh")
    } else {
        run(&["--root", "/"], "sh")
    };
    let output = command.args(["-c", "exit 0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("CAP_SYS_CHROOT"), "{error}");
    assert_eq!(error.lines().count(), 1);
}
