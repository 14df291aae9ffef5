//! What this program does when a test executes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, exit};
use std::time::Duration;

use paralfetch::process::{self, AppStatus, Spawn, Subreaper, Supervisor, User};
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, Rlimit};

/// Says which role to play.
pub const VARIABLE: &str = "PARALFETCH_TEST_ROLE";

/// This program in the given role.
pub fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(VARIABLE, name);
    command
}

/// `program` under supervision. Further arguments are the program's.
pub fn run(options: &[&str], program: impl AsRef<OsStr>) -> Command {
    let mut command = role("run");
    command.args(options).arg("--").arg(program);
    command
}

/// [`target`] under supervision.
pub fn run_target() -> Command {
    let mut command = run(&["--target"], std::env::current_exe().unwrap());
    command.stdout(std::process::Stdio::piped());
    command
}

/// Read end and write end of a pipe that no program inherits by accident.
pub fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

pub fn play(role: &OsStr) -> ! {
    match role.to_str() {
        Some("run") => supervise(),
        Some("target") => target(),
        Some("tree") => tree(),
        _ => panic!("no such role: {role:?}"),
    }
}

fn fail(code: i32, error: impl std::fmt::Display) -> ! {
    eprintln!("{error}");
    exit(code)
}

/// A small `paralfetch run`.
fn supervise() -> ! {
    let mut supervisor = Supervisor::new().unwrap();
    // SAFETY: there is only one thread.
    unsafe { std::env::remove_var(VARIABLE) };
    let mut args = std::env::args_os().skip(1);
    let (mut root, mut user, mut new_session) = (None, None, false);
    let (mut open_files, mut hook, mut drop_root) = (None, None, false);
    while let Some(option) = args.next().filter(|arg| arg != "--") {
        match option.to_str().unwrap() {
            "--root" => root = args.next().map(PathBuf::from),
            "--sudo" => user = User::invoking(),
            "--session" => new_session = true,
            "--drop-root" => drop_root = true,
            // SAFETY: as above.
            "--target" => unsafe { std::env::set_var(VARIABLE, "target") },
            "--lower-limit" => {
                let before = rustix::process::getrlimit(Resource::Nofile);
                let lower = Rlimit {
                    current: Some(100),
                    ..before
                };
                rustix::process::setrlimit(Resource::Nofile, lower).unwrap();
                open_files = Some(before);
            }
            "--hook" => hook = args.next().map(|path| File::create(path).unwrap()),
            option => panic!("no such option: {option}"),
        }
    }
    let argv: Vec<OsString> = args.collect();
    let command = process::Command::find(&argv, root.as_deref())
        .unwrap_or_else(|error| fail(error.exit_code(), error));
    if drop_root {
        let nobody = rustix::fs::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
    }
    let mut spawn = Spawn::new(command);
    spawn.user = user;
    spawn.new_session = new_session;
    spawn.open_files = open_files;
    spawn.before_exec = hook.map(|mut file| -> process::BeforeExec {
        Box::new(move || {
            let _ = file.write_all(b"called\n");
        })
    });
    if let Err(error) = supervisor.start(spawn) {
        fail(error.exit_code(), error);
    }
    supervisor.wait().unwrap().finish()
}

/// Says `ready PID`, then the number of each signal that comes, and ends after SIGTERM. With
/// `--signal-group` it sends SIGUSR1 to its process group first.
fn target() -> ! {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set before anyone reads it.
    let set = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        set.assume_init()
    };
    println!("ready {}", std::process::id());
    if std::env::args().any(|arg| arg == "--signal-group") {
        rustix::process::kill_current_process_group(rustix::process::Signal::USR1).unwrap();
    }
    loop {
        let mut signal = 0;
        // SAFETY: both pointers are to live locals.
        assert_eq!(unsafe { libc::sigwait(&set, &mut signal) }, 0);
        println!("{signal}");
        if signal == libc::SIGTERM {
            exit(0);
        }
    }
}

/// Starts a tree that tries to get away, ends it, and checks that nothing is left of it, and that
/// what was there before lives on.
fn tree() -> ! {
    let mut supervisor = Supervisor::new().unwrap();
    let mut spared = Command::new("sleep").arg("1000").spawn().unwrap();
    let reaper = Subreaper::new().unwrap();
    let (reader, writer) = pipe().unwrap();
    let mut reader = File::from(reader);
    let stdout = rustix::io::dup(rustix::stdio::stdout()).unwrap();
    rustix::stdio::dup2_stdout(&writer).unwrap();
    drop(writer);
    let script = r#"
        (trap "" TERM; echo stubborn; while :; do sleep 1000; done) &
        (setsid sh -c "echo daemon; sleep 1000; echo woke" &)
        sh -c 'echo stopped; kill -STOP $$' &
        echo leader
        exec sleep 1000
    "#;
    let argv = ["sh", "-c", script].map(OsString::from);
    let command = process::Command::find(&argv, None).unwrap();
    let started = supervisor.start(Spawn::new(command)).unwrap();
    rustix::stdio::dup2_stdout(&stdout).unwrap();
    let mut said: Vec<String> = BufReader::new(&mut reader)
        .lines()
        .take(4)
        .map(Result::unwrap)
        .collect();
    said.sort();
    assert_eq!(said, ["daemon", "leader", "stopped", "stubborn"]);

    let grace = Duration::from_millis(300);
    reaper.terminate(Some(started.pid), grace).unwrap();
    let exit_of_leader = supervisor.wait().unwrap();
    assert_eq!(exit_of_leader.status, AppStatus::Signal(libc::SIGTERM));
    // All writers are gone, and none said more.
    assert_eq!(BufReader::new(&mut reader).lines().count(), 0);
    assert!(spared.try_wait().unwrap().is_none());
    spared.kill().unwrap();
    spared.wait().unwrap();
    let nobody = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    assert_eq!(nobody.unwrap_err(), rustix::io::Errno::CHILD);
    exit(0)
}
