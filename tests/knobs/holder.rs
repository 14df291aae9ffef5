//! A process that changes knobs and is killed. It stops where a test wants it to by means of a knob that is a FIFO:
//! each read and each write of it waits until the test takes part.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use paralfetch::drive::{Knobs, Setting};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use common::until;

/// The knobs to change, a line each: `PATH VALUE`.
pub const VARIABLE: &str = "PARALFETCH_TEST_KNOBS";

const RUN_DIR: &str = "PARALFETCH_TEST_RUN_DIR";
const KEEPER: &str = "PARALFETCH_TEST_KEEPER";

/// The role: changes the knobs, says so, and undoes the last change for each line that it reads.
pub fn hold() -> ExitCode {
    let run_dir = PathBuf::from(std::env::var_os(RUN_DIR).unwrap());
    let keeper = std::env::var_os(KEEPER).map(|_| keeper(&run_dir, 600));
    let mut knobs = Knobs::acquire(&run_dir, keeper).unwrap();
    let settings = std::env::var(VARIABLE).unwrap();
    let mut ids = Vec::new();
    for line in settings.lines() {
        ids.push(knobs.change(parse(line)).unwrap().unwrap());
    }
    println!("held");
    for _ in std::io::stdin().lines() {
        knobs.undo(ids.pop().unwrap()).unwrap();
        println!("undone");
    }
    ExitCode::SUCCESS
}

fn parse(line: &str) -> Setting {
    let (path, value) = line.split_once(' ').unwrap();
    Setting {
        path: path.into(),
        value: value.to_owned(),
    }
}

/// The product's keeper.
pub fn keeper(run_dir: &Path, limit_s: u64) -> Command {
    let mut keeper = Command::new(common::program());
    keeper
        .args(["keep-knobs", &limit_s.to_string(), "--run-dir"])
        .arg(run_dir);
    keeper
}

/// A running holder; killed with this value.
pub struct Holder {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Holder {
    pub fn start(run_dir: &Path, settings: &[String], has_keeper: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(VARIABLE, settings.join("\n"))
            .env(RUN_DIR, run_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if has_keeper {
            command.env(KEEPER, "1");
        }
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Holder { process, lines }
    }

    /// Waits until it says this.
    pub fn says(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    /// Has it undo its latest change.
    pub fn undo(&mut self) {
        let stdin = self.process.stdin.as_mut().unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    /// SIGSTOP: it is where it is, and goes no further.
    pub fn stop(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have been killed by the test; a panic here would hide the test's.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A knob that is a FIFO.
pub struct SlowKnob(pub PathBuf);

impl SlowKnob {
    pub fn new(path: PathBuf) -> Self {
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        SlowKnob(path)
    }

    /// Waits until it is read, and answers this.
    pub fn answer(&self, text: &str) {
        let mut fifo = None;
        until("the knob is read", || {
            fifo = match self.open(OpenOptions::new().write(true)) {
                // Nobody has it open for reading.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => None,
                opened => Some(opened.unwrap()),
            };
            fifo.is_some()
        });
        fifo.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits until it is written, and returns what.
    pub fn written(&self) -> String {
        let mut fifo = self.open(OpenOptions::new().read(true)).unwrap();
        let mut text = Vec::new();
        until("the knob is written", || {
            let mut some = [0; 64];
            match fifo.read(&mut some) {
                // The writer has closed it, or nobody writes yet.
                Ok(0) => !text.is_empty(),
                Ok(bytes) => {
                    text.extend(&some[..bytes]);
                    false
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    false
                }
            }
        });
        String::from_utf8(text).unwrap()
    }

    /// From now on, a plain file with this text.
    pub fn becomes(&self, text: &str) {
        let plain = self.0.with_extension("plain");
        fs::write(&plain, text).unwrap();
        fs::rename(&plain, &self.0).unwrap();
    }

    fn open(&self, options: &mut OpenOptions) -> std::io::Result<File> {
        options.custom_flags(libc::O_NONBLOCK).open(&self.0)
    }
}
