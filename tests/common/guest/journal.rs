//! The journal, followed.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::guest::system::outcome;

/// How long to wait for something that is sure to come, unless it is broken.
const LIMIT: Duration = Duration::from_secs(300);

/// journalctl(1), which prints what is new.
pub struct Journal {
    child: Child,
    entries: Receiver<Entry>,
    /// Times and messages of the entries that were read.
    read: RefCell<Vec<(u64, String)>>,
}

/// One entry of the journal.
pub struct Entry(Value);

/// Now, as [`Entry::time_us`] has it.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

impl Journal {
    /// From now on, what matches, such as `_PID=1`.
    pub fn follow(matches: &[&str]) -> Journal {
        let mut child = Command::new("journalctl")
            .args(["--follow", "--lines=0", "--output=json"])
            .args(matches)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (send, entries) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // journalctl may be killed in the middle of a line, after which there are none.
                let Ok(entry) = serde_json::from_str(&line) else {
                    return;
                };
                if send.send(Entry(entry)).is_err() {
                    return;
                }
            }
        });
        Journal {
            child,
            entries,
            read: RefCell::default(),
        }
    }

    /// The next entry that is wanted.
    pub fn next(&self, what: &str, wanted: impl Fn(&Entry) -> bool) -> Entry {
        let limit = Instant::now() + LIMIT;
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            let entry = self
                .entries
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("no entry in the journal, {what}: {error}"));
            let message = entry.message().to_owned();
            self.read.borrow_mut().push((entry.time_us(), message));
            if wanted(&entry) {
                return entry;
            }
        }
    }

    /// The next entry whose message this is. One that only begins so is another: "ready to learn" is not "ready".
    pub fn message(&self, message: &str) -> Entry {
        self.next(message, |entry| entry.message() == message)
    }

    /// The next entry with this text in its message.
    pub fn message_with(&self, text: &str) -> Entry {
        self.next(text, |entry| entry.message().contains(text))
    }

    /// The start of the service's process, of which systemd has said that it is ready. Entries of the processes
    /// before it may not have been read yet.
    pub fn start_of(&self, pid: u32) -> Entry {
        self.next(&format!("{pid} is ready"), |entry| {
            entry.message() == "ready" && entry.field("_PID") == pid.to_string()
        })
    }

    /// The next entry that says since `time_us` that the service is ready to learn, or one that was read. It says so
    /// after each change of what is to be learned: an entry from before is about another one.
    pub fn ready_to_learn(&self, time_us: u64) {
        let message = "ready to learn";
        let was_read = self
            .read
            .borrow()
            .iter()
            .any(|(at_us, read)| *at_us >= time_us && read == message);
        if !was_read {
            self.next(message, |entry| {
                entry.time_us() >= time_us && entry.message() == message
            });
        }
    }

    /// The end of the next launch of an app.
    pub fn launch_of(&self, app: &str) -> Entry {
        self.next(&format!("launch of {app}"), |entry| {
            entry.message() == "launch" && entry.field("F_APP") == app
        })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Entry {
    /// A field; empty if it is not there, or no text.
    pub fn field(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// What is read by people.
    pub fn message(&self) -> &str {
        self.field("MESSAGE")
    }

    /// When the journal received it, in microseconds of the monotonic clock: the time of day may be set.
    pub fn time_us(&self) -> u64 {
        self.number("__MONOTONIC_TIMESTAMP")
    }

    /// A field with a number.
    pub fn number(&self, name: &str) -> u64 {
        self.field(name)
            .parse()
            .unwrap_or_else(|error| panic!("{name} of {}: {error}", self.0))
    }

    /// The fields that the service has added to its message, and their values.
    pub fn fields(&self) -> String {
        let all = self.0.as_object().into_iter().flatten();
        let own = all.filter(|(name, _)| name.starts_with("F_"));
        own.map(|(name, value)| format!("{name}={} ", value.as_str().unwrap_or_default()))
            .collect()
    }
}

/// Prints the journal's end if something went wrong.
pub struct TellJournal;

impl Drop for TellJournal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = outcome(&["journalctl", "--no-pager", "--lines=60"]);
            println!("{}", String::from_utf8_lossy(&journal.stdout));
        }
    }
}
