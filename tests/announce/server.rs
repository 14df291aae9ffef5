//! Fork servers and other processes that announce, and a directory that they can reach.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use paralfetch::service::announce::{AnnounceError, AnnouncedLaunch, FILE, Refusal, SOCKET};
use tempfile::TempDir;

/// "nobody", who has no processes but those of the tests.
pub const NOBODY: u32 = 65534;

/// A directory in which every user can reach what is in `run`.
pub struct Dir(TempDir);

impl Dir {
    pub fn new() -> Dir {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Dir(dir)
    }

    pub fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }

    pub fn socket(&self) -> PathBuf {
        self.run().join(SOCKET)
    }

    pub fn file(&self) -> PathBuf {
        self.run().join(FILE)
    }

    /// Sends a datagram from this very process.
    pub fn send(&self, text: impl AsRef<[u8]>) {
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(text.as_ref(), self.socket()).unwrap();
    }
}

pub fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Why an announcement was refused.
pub fn refusal(received: Result<Option<AnnouncedLaunch>, AnnounceError>) -> Refusal {
    match received {
        Err(AnnounceError::Refused(refusal)) => refusal,
        received => panic!("not refused: {received:?}"),
    }
}

/// Checks what was received.
pub fn expect(announced: Option<AnnouncedLaunch>, pid: i32, uid: u32, identity: &str) {
    let announced = announced.expect("an announcement that holds");
    assert_eq!(announced.pid.as_raw_nonzero().get(), pid);
    assert_eq!(announced.uid, uid);
    assert_eq!(announced.user_app().id, identity);
}

/// tests/common/fork_server.py, and its end with this value.
pub struct Server {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// As it sees itself.
    pub own_pid: i32,
}

impl Server {
    /// As a user.
    pub fn of(uid: u32, place: &Path) -> Server {
        let mut command = Command::new("/usr/bin/python3");
        command.uid(uid).gid(uid);
        Server::start(command, place)
    }

    /// As process 1 of a pid namespace.
    pub fn nested(place: &Path) -> Server {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "/usr/bin/python3"]);
        Server::start(command, place)
    }

    /// As a user, in a user namespace of his own.
    pub fn in_own_namespace(uid: u32, place: &Path) -> Server {
        let mut command = Command::new("unshare");
        command.args(["--user", "/usr/bin/python3"]);
        command.uid(uid).gid(uid);
        Server::start(command, place)
    }

    fn start(mut python: Command, place: &Path) -> Server {
        // As text, because other users may not reach the file.
        python.args(["-c", include_str!("../common/fork_server.py")]);
        python.arg(place).current_dir("/");
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut server = Server {
            requests: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            own_pid: 0,
        };
        server.own_pid = server.answer("ready");
        server
    }

    /// As the test sees it.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Forks an app, which announces itself. Its process id as the server sees it.
    pub fn launch(&mut self, name: &str) -> i32 {
        self.request(&format!("launch {name} /etc/passwd"));
        let pid = self.answer("launched");
        assert_eq!(self.answer("read"), pid);
        pid
    }

    /// Announces whatever process.
    pub fn announce(&mut self, pid: i32, name: &str) {
        self.request(&format!("announce {pid} {name}"));
        assert_eq!(self.answer("announced"), pid);
    }

    /// Lets an app exit.
    pub fn end(&mut self, pid: i32) {
        self.request(&format!("end {pid}"));
        assert_eq!(self.answer("ended"), pid);
    }

    fn request(&mut self, line: &str) {
        writeln!(self.requests.as_ref().unwrap(), "{line}").unwrap();
    }

    /// The number in the next line, which must begin with `word`.
    fn answer(&mut self, word: &str) -> i32 {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(word), "{line:?}");
        words.next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.requests.take());
        self.child.wait().unwrap();
    }
}
