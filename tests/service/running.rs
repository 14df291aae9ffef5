//! A running service, and what it says.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use common::root::{Root, fill, write_script};
use common::{drop_caches, succeed, until};

/// The setting of how many launches of an app are learned, and what it is unless a test sets it: the second launch is
/// only prefetched.
const LEARNED_LAUNCHES: &str = "prefetch.max_learned_launches";
const ONCE: &str = "prefetch.max_learned_launches = 1\n";

/// The setting of whether drives are measured, and what it is unless a test sets it: what is measured in one test may
/// change the schedules of another.
const PROBE: &str = "prefetch.probe";
const NO_PROBE: &str = "prefetch.probe = false\n";

/// The setting of whether prefetching is withheld to measure its gain, and what it is unless a test sets it: on the drives of
/// these tests it gains little or nothing, and tests count on its being done.
const WITHHOLD: &str = "prefetch.withhold";
const NO_WITHHOLD: &str = "prefetch.withhold = false\n";

/// Name and text of the app.
const APP: (&str, &str) = ("app", "cat /data/*");

/// How long to wait for something that is sure to come, unless it is broken.
pub const LIMIT: Duration = Duration::from_secs(180);

/// What a script of an app ends with that goes on until [`Image::let_end`], or for three minutes of naps: a
/// test that fails leaves no app behind.
pub const WAIT: &str =
    "naps=0; until [ -e /go ] || [ $naps -ge 18000 ]; do sleep 0.01; naps=$((naps + 1)); done";

/// The image, with an app that reads all of its data: a script, as many apps are.
pub struct Image {
    pub root: Root,
    /// Whether the service is to see launches when execve is called, and not only when it has succeeded.
    pub early: bool,
    /// Configuration and run directories.
    places: tempfile::TempDir,
}

impl Image {
    pub fn new() -> Self {
        Image::of(Root::new())
    }

    /// The same on this root.
    pub fn of(root: Root) -> Self {
        let image = Image::with(root);
        image.script(APP.0, APP.1);
        image
    }

    /// The same on an image of this type that cannot be written.
    pub fn read_only(fs_type: &'static str, mkfs_args: &[&str]) -> Self {
        Image::with(Root::read_only(fs_type, mkfs_args, fill_with_app))
    }

    fn with(root: Root) -> Self {
        Image {
            root,
            early: true,
            places: tempfile::tempdir().unwrap(),
        }
    }

    /// Puts an executable script on the image.
    pub fn script(&self, name: &str, text: &str) {
        write_script(self.root.path(), name, text);
    }

    /// Puts one on the image that reads what it needs and then goes on, until it is let end.
    pub fn script_that_goes_on(&self, name: &str) {
        self.script(name, &format!("cat /data/*; {WAIT}"));
    }

    /// From now on, apps that go on do so until they are let end again.
    pub fn hold(&self) {
        let _ = fs::remove_file(self.root.path().join("go"));
    }

    /// Lets apps that go on end.
    pub fn let_end(&self) {
        fs::write(self.root.path().join("go"), "").unwrap();
    }

    /// The id under which an app of the image is managed.
    pub fn id(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    /// `paralfetch ARGS` for the state directory; there is no bus.
    pub fn paralfetch(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.root.paralfetch(args, &[]);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
        command
    }

    pub fn enable(&self, name: &str) {
        let output = self.paralfetch(&["enable", &self.id(name)]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Writes config.toml. Without it, everything is as it comes, but for the mode, since the machine's own
    /// apps are no part of these tests, and [`ONCE`], [`NO_PROBE`] and [`NO_WITHHOLD`].
    pub fn configure(&self, text: &str) {
        let (dir, early) = (self.config_dir(), self.early);
        let learned = match text.contains(LEARNED_LAUNCHES) {
            true => "",
            false => ONCE,
        };
        let probe = match text.contains(PROBE) {
            true => "",
            false => NO_PROBE,
        };
        let withhold = match text.contains(WITHHOLD) {
            true => "",
            false => NO_WITHHOLD,
        };
        fs::create_dir_all(&dir).unwrap();
        fs::write(
            dir.join("config.toml"),
            format!(
                "mode = \"manual\"\nlog.level = \"debug\"\nwatch.early = {early}\n{learned}{probe}{withhold}{text}"
            ),
        )
        .unwrap();
    }

    pub fn config_dir(&self) -> PathBuf {
        self.places.path().join("etc")
    }

    pub fn run_dir(&self) -> PathBuf {
        self.places.path().join("run")
    }

    /// Starts the service and waits until it is ready.
    pub fn start(&self) -> Running {
        self.start_command(self.service()).ready()
    }

    /// What starts the service.
    pub fn service(&self) -> Command {
        let mut command = self.command(&["service", "--no-bus", "--config-dir"]);
        command
            .arg(self.config_dir())
            .arg("--run-dir")
            .arg(self.run_dir());
        command
    }

    /// Starts the service; it is not ready yet.
    pub fn start_command(&self, mut command: Command) -> Starting {
        if !self.config_dir().exists() {
            self.configure("");
        }
        let (notify, systemd) = self.systemd();
        let mut child = command
            .env("NOTIFY_SOCKET", &notify)
            .env_remove("JOURNAL_STREAM")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                eprintln!("service: {line}");
                if send.send(line).is_err() {
                    // Somebody has to empty the pipe all the same.
                    continue;
                }
            }
        });
        Starting {
            running: Running {
                child,
                lines,
                said: Vec::new(),
                listened: 0,
            },
            systemd,
        }
    }

    /// Starts the service with this for its standard error, and waits until it is ready. It is killed when this is dropped.
    pub fn start_unheard(&self, log: Stdio) -> Launched {
        let (notify, systemd) = self.systemd();
        let child = self
            .service()
            .env("NOTIFY_SOCKET", notify)
            .env_remove("JOURNAL_STREAM")
            .stderr(log)
            .spawn()
            .unwrap();
        let launched = Launched(child);
        until_ready(&systemd);
        launched
    }

    /// Where the service says that it is ready, in place of systemd.
    fn systemd(&self) -> (PathBuf, UnixDatagram) {
        let notify = self.places.path().join("notify");
        // Of a service before.
        let _ = fs::remove_file(&notify);
        let systemd = UnixDatagram::bind(&notify).unwrap();
        systemd.set_read_timeout(Some(LIMIT)).unwrap();
        (notify, systemd)
    }

    /// Launches an app of the image, plainly, and waits for its end.
    pub fn launch(&self, name: &str) {
        let output = self.launcher(name).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Launches an app of the image and does not wait.
    pub fn spawn(&self, name: &str) -> Launched {
        let mut launcher = self.launcher(name);
        launcher.stdout(Stdio::null()).stderr(Stdio::null());
        Launched(launcher.spawn().unwrap())
    }

    /// What launches an app of the image.
    pub fn launcher(&self, name: &str) -> Command {
        let mut command = Command::new("chroot");
        command
            .arg(self.root.path())
            .arg(format!("/{name}"))
            .stdin(Stdio::null())
            // It prints the files that it reads.
            .stdout(Stdio::null());
        command
    }

    /// Launches the app and sees it learned, once the service has loaded what it needs for that.
    pub fn learn(&self, running: &mut Running, name: &str) {
        running.ready_to_learn();
        self.launch(name);
        let line = running.launch_of(&self.id(name));
        assert!(line.contains("kind=Learned"), "{line}");
    }

    /// The same where another thread may still be learning, or loading what it needs.
    pub fn learn_in_the_end(&self, running: &mut Running, name: &str) {
        until("it is learned", || {
            self.launch(name);
            let line = running.launch_of(&self.id(name));
            line.contains("kind=Learned")
        });
    }

    /// Launches from empty caches until that is prefetched. An app that is as fast as its prefetching is
    /// learned again now and then, as chance decides.
    pub fn prefetch_in_the_end(&self, running: &mut Running, name: &str) {
        prefetched_in_the_end(|| self.launch_cold(running, name));
    }

    /// Waits until a profile of an app is stored.
    pub fn until_stored(&self, name: &str) {
        let start = format!("{name}-");
        until("the profile is stored", || {
            let names = files_in(self.root.state.path());
            names
                .iter()
                .any(|name| name.starts_with(&start) && name.ends_with(".pf"))
        });
    }

    /// Waits until the first launch of an app is in the history. Another thread writes what was learned of it
    /// ([`Image::until_stored`]).
    pub fn until_recorded(&self, name: &str) {
        let id = self.id(name);
        until("the launch is in the history", || {
            let output = self.paralfetch(&["stats", "--json", &id]);
            let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            !stats["launches"].as_array().unwrap().is_empty()
        });
    }

    /// Launches from empty caches; returns what the service says of it.
    pub fn launch_cold(&self, running: &mut Running, name: &str) -> String {
        drop_caches();
        self.launch(name);
        running.launch_of(&self.id(name))
    }
}

/// Fills the root directory of an image with the app.
pub fn fill_with_app(root: &Path) {
    fill(root);
    write_script(root, APP.0, APP.1);
}

/// Makes a pipe that an app reads a line from. It is open for both sides: nobody waits for the other to open it, which may
/// have failed.
pub fn make_pipe(path: &Path) -> File {
    succeed(Command::new("mkfifo").arg(path));
    File::options().read(true).write(true).open(path).unwrap()
}

/// An app that was launched; killed when this is dropped.
pub struct Launched(pub Child);

impl Launched {
    /// Waits for its end, which must be a good one.
    pub fn succeed(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service that is not ready yet.
pub struct Starting {
    pub running: Running,
    systemd: UnixDatagram,
}

impl Starting {
    /// Waits until it is ready.
    pub fn ready(self) -> Running {
        until_ready(&self.systemd);
        self.running
    }
}

fn until_ready(systemd: &UnixDatagram) {
    let mut text = [0; 256];
    let length = systemd
        .recv(&mut text)
        .expect("the service says that it is ready");
    // The assignments of a notification are separated, or ended, by newlines (sd_notify(3)).
    assert_eq!(text[..length].trim_ascii_end(), b"READY=1");
}

/// A service; killed when this is dropped.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
    /// Those that were received.
    said: Vec<String>,
    /// How many of them were listened to.
    listened: usize,
}

impl Running {
    /// The next line in which all of `words` are.
    pub fn line(&mut self, words: &[&str]) -> String {
        let limit = Instant::now() + LIMIT;
        loop {
            while let Some(line) = self.said.get(self.listened).cloned() {
                self.listened += 1;
                if are_in(words, &line) {
                    return line;
                }
            }
            self.receive(words, limit);
        }
    }

    /// Waits until the service has said another line.
    fn receive(&mut self, words: &[&str], limit: Instant) {
        let left = limit.saturating_duration_since(Instant::now());
        let line = self.lines.recv_timeout(left).unwrap_or_else(|error| {
            let last = self.said.len().saturating_sub(20);
            let last = self.said[last..].join("\n");
            panic!("no line with {words:?}: {error}; the last ones are\n{last}")
        });
        self.said.push(line);
    }

    /// Waits until the next launch of an app that is to be learned would be recorded from its beginning: a recorder was made
    /// ready since a launch took the one before. No line is passed over by that.
    pub fn ready_to_learn(&mut self) {
        let limit = Instant::now() + LIMIT;
        self.said.extend(self.lines.try_iter());
        let words = ["ready to learn"];
        let last = |said: &[String], words: &[&str]| said.iter().rposition(|it| are_in(words, it));
        while last(&self.said, &words) <= last(&self.said, &["the recorder is taken"]) {
            self.receive(&words, limit);
        }
    }

    /// Waits until there is a line in which all of `words` are, if none was heard yet.
    pub fn until_said(&mut self, words: &[&str]) {
        if self.heard(words).is_empty() {
            self.line(words);
        }
    }

    /// Waits until the service has found the executables of apps so many times since it was started.
    pub fn until_located(&mut self, times: usize) {
        let words = ["executables were located"];
        for _ in self.heard(&words).len()..times {
            self.line(&words);
        }
    }

    /// The lines so far in which all of `words` are, as far as was listened.
    pub fn heard(&self, words: &[&str]) -> Vec<&str> {
        let lines = self.said[..self.listened].iter().map(String::as_str);
        lines.filter(|line| are_in(words, line)).collect()
    }

    /// Listens for so long, and returns what was said.
    pub fn listen(&mut self, time: Duration) -> Vec<String> {
        let limit = Instant::now() + time;
        let left = || limit.saturating_duration_since(Instant::now());
        let next = || self.lines.recv_timeout(left()).ok();
        let unheard = self.said.split_off(self.listened).into_iter();
        unheard.chain(std::iter::from_fn(next)).collect()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// What it says at the end of the next launch of an app.
    pub fn launch_of(&mut self, id: &str) -> String {
        self.line(&["INFO launch ", &format!("app=\"{id}\"")])
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// What its threads of this name have read from drives so far, in bytes (proc_pid_io(5)).
    pub fn bytes_read_by(&self, name: &str) -> u64 {
        let threads = self.threads(name).into_iter();
        let read = threads.map(|thread| {
            // One that has ended meanwhile has none.
            let text = fs::read_to_string(thread.join("io")).unwrap_or_default();
            let field = text
                .lines()
                .find_map(|line| line.strip_prefix("read_bytes: "));
            field.map_or(0, |bytes| bytes.parse::<u64>().unwrap())
        });
        read.sum()
    }

    /// The directories in /proc of its threads of this name.
    fn threads(&self, wanted: &str) -> Vec<PathBuf> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let named = tasks.map(|task| task.unwrap().path()).filter(|task| {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            name.trim_end() == wanted
        });
        named.collect()
    }

    /// Kills it, as the kernel does when memory is short.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn are_in(words: &[&str], line: &str) -> bool {
    words.iter().all(|word| line.contains(word))
}

/// Launches until that is prefetched, as [`Image::prefetch_in_the_end`] does; returns what the service says of it.
pub fn prefetched_in_the_end(mut launch: impl FnMut() -> String) -> String {
    let mut lines = (0..3).map(|_| launch());
    let prefetched = lines.find(|line| line.contains("kind=Prefetched"));
    prefetched.expect("a launch is prefetched")
}

/// The number of a field in a line of the log.
pub fn number(line: &str, field: &str) -> u64 {
    let field = format!(" {field}=");
    let start = line
        .find(&field)
        .unwrap_or_else(|| panic!("{field} is not in {line}"));
    let digits: String = line[start + field.len()..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

/// Files below a directory.
pub fn files_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
