//! The app behaves as if we were not there.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use paralfetch::process::{self, AppStatus, Spawn, Supervisor};

use crate::Test;
use crate::roles::{pipe, run};

pub const TESTS: &[Test] = &[
    ("behaviour::exit_status", exit_status),
    ("behaviour::death_by_signal", death_by_signal),
    ("behaviour::streams", streams),
    ("behaviour::names", names),
    ("behaviour::what_cannot_run", what_cannot_run),
    ("behaviour::inherited_signals", inherited_signals),
    ("behaviour::open_files", open_files),
    ("behaviour::session", session),
    ("behaviour::hook", hook),
    ("behaviour::usage", usage),
];

pub fn script(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("script");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn exit_status() {
    for code in [0, 1, 7, 126, 127, 255] {
        let mut command = run(&[], "sh");
        command.args(["-c", &format!("exit {code}")]);
        assert_eq!(command.status().unwrap().code(), Some(code));
    }
}

fn death_by_signal() {
    for signal in [
        libc::SIGTERM,
        libc::SIGSEGV,
        libc::SIGKILL,
        libc::SIGPIPE,
        libc::SIGHUP,
        libc::SIGUSR2,
    ] {
        let mut command = run(&[], "sh");
        command.args(["-c", &format!("kill -{signal} $$")]);
        ignore_only(&mut command, &[]);
        let status = command.status().unwrap();
        assert_eq!(status.signal(), Some(signal));
        assert!(!status.core_dumped());
    }
}

fn streams() {
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bytes");
    fs::write(&file, &bytes).unwrap();
    let output = run(&[], "cat")
        .stdin(File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(output.stdout == bytes && output.stderr.is_empty());
    let output = run(&[], "sh")
        .args(["-c", "cat >&2"])
        .stdin(File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(output.stderr == bytes && output.stdout.is_empty());
}

/// The app sees the names that it was called by, and the working directory.
fn names() {
    let directory = tempfile::tempdir().unwrap();
    script(directory.path(), "#!/bin/sh\necho \"$0 $1\"; pwd -P\n");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", directory.path().display());
    let both = |program: &str, argument: &str| {
        let arrange = |mut command: Command| {
            command.arg(argument).current_dir(directory.path());
            command.env("PATH", &path).output().unwrap()
        };
        let direct = arrange(Command::new(program));
        let ours = arrange(run(&[], program));
        assert_eq!(ours, direct, "{program}");
        ours
    };
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    assert!(text(both("./script", "x")).starts_with("./script x\n"));
    assert!(text(both("script", "x")).contains("/script x\n"));
    assert_eq!(
        text(both("cat", "/proc/self/cmdline")),
        "cat\0/proc/self/cmdline\0"
    );
}

fn what_cannot_run() {
    let directory = tempfile::tempdir().unwrap();
    let failure = |program: &Path| {
        let output = run(&[], program).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        (output.status.code().unwrap(), text)
    };
    let (code, text) = failure(Path::new("no-such-command"));
    assert_eq!(
        (code, text.trim_end()),
        (127, "command not found: no-such-command")
    );
    assert_eq!(failure(directory.path()).0, 126);
    let (code, text) = failure(&script(directory.path(), "#!/no/such/interpreter\n"));
    assert_eq!(code, 127);
    assert!(text.contains("interpreter"), "{text}");
    // An executable text without "#!" goes to the shell, as with execvp.
    let plain = script(directory.path(), "exit 5\n");
    assert_eq!(run(&[], plain).status().unwrap().code(), Some(5));
}

/// Has the command ignore these of the [`TRIED`] signals and no other, whatever is ignored here: HUP is
/// under nohup(1).
fn ignore_only(command: &mut Command, signals: &'static [i32]) {
    let set = move || {
        for signal in TRIED {
            let ignored = signals.contains(&signal);
            let disposition = if ignored {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            };
            // SAFETY: signal(2) is async-signal-safe, and neither disposition has conditions.
            unsafe { libc::signal(signal, disposition) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(set) };
}

/// Signals that programs are started with ignored, now and then.
const TRIED: [i32; 4] = [libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD, libc::SIGTSTP];

/// Masks and dispositions are what a direct execution would give.
fn inherited_signals() {
    let ignoring = |mut command: Command, signals: &'static [i32]| {
        ignore_only(&mut command, signals);
        command.args(["^Sig\\(Blk\\|Ign\\|Cgt\\)", "/proc/self/status"]);
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let sets: [&[i32]; 5] = [
        &[],
        &[libc::SIGHUP],
        &[libc::SIGPIPE],
        &[libc::SIGCHLD],
        &[libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD, libc::SIGTSTP],
    ];
    for set in sets {
        let ours = ignoring(run(&[], "grep"), set);
        assert_eq!(ours, ignoring(Command::new("grep"), set), "{set:?}");
        let line = ours.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
        let ignored = u64::from_str_radix(line.unwrap(), 16).unwrap();
        for signal in TRIED {
            let bit = ignored >> (signal - 1) & 1;
            assert_eq!(bit == 1, set.contains(&signal), "{signal} of {set:?}");
        }
    }
}

fn open_files() {
    let limit = |mut command: Command| {
        let output = command.args(["-c", "ulimit -Sn; ulimit -Hn"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let direct = limit(Command::new("sh"));
    assert_ne!(direct.lines().next(), Some("100"));
    assert_eq!(limit(run(&["--lower-limit"], "sh")), direct);
}

fn session() {
    let session = |options: &[&str]| {
        let mut command = run(options, "sh");
        command.args(["-c", "echo $$; cut -d ' ' -f 5,6 /proc/$$/stat"]);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (pid, ids) = text.split_once('\n').unwrap();
        ids.trim_end() == format!("{pid} {pid}")
    };
    assert!(session(&["--session"]));
    assert!(!session(&[]));
}

fn hook() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hook");
    // The app sees what the hook has written.
    let output = run(&["--hook", file.to_str().unwrap()], "cat")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"called\n");
}

/// One supervisor for several apps, in an event loop, with their resource usage.
fn usage() {
    let find = |argv: &[&str]| {
        let argv: Vec<_> = argv.iter().map(Into::into).collect();
        process::Command::find(&argv, None).unwrap()
    };
    let mut supervisor = Supervisor::new().unwrap();
    assert!(supervisor.wait().is_err());
    assert!(supervisor.on_signals().unwrap().is_none());
    for code in [3, 4] {
        let (reader, writer) = pipe().unwrap();
        let stdin = rustix::io::dup(rustix::stdio::stdin()).unwrap();
        rustix::stdio::dup2_stdin(&reader).unwrap();
        let script = format!("read line; exit {code}");
        let started = supervisor.start(Spawn::new(find(&["sh", "-c", &script])));
        rustix::stdio::dup2_stdin(&stdin).unwrap();
        assert!(started.unwrap().time_ns > 0);
        assert!(supervisor.on_signals().unwrap().is_none());
        let again = supervisor.start(Spawn::new(find(&["true"])));
        assert_eq!(again.unwrap_err().exit_code(), 125);
        drop(writer);
        let exit = supervisor.wait().unwrap();
        assert_eq!(exit.status, AppStatus::Code(code));
        assert!(!(exit.usage.user + exit.usage.system).is_zero());
        assert_eq!(File::from(reader).read(&mut [0]).unwrap(), 0);
    }
    let mut quiet = Spawn::new(find(&["sh", "-c", "test ! -t 0 && cat && echo lost"]));
    quiet.stdio = process::Stdio::Null;
    supervisor.start(quiet).unwrap();
    assert_eq!(supervisor.wait().unwrap().status, AppStatus::Code(0));
    drop(supervisor);
    // Others' children are theirs again, and so are their signals.
    let status = Command::new("true").stdout(Stdio::null()).status();
    assert!(status.unwrap().success());
    let own = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(own.contains("SigBlk:\t0000000000000000"), "{own}");
}
