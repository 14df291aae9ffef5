//! The journal, followed.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long to wait for something that is sure to come, unless it is broken.
const LIMIT: Duration = Duration::from_secs(300);

/// journalctl(1), which prints what is new.
pub struct Journal {
    child: Child,
    entries: Receiver<Entry>,
    /// Messages of the entries that were read.
    read: RefCell<Vec<String>>,
}

/// One entry of the journal.
pub struct Entry(Value);

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
                let entry = Entry(serde_json::from_str(&line).unwrap());
                if send.send(entry).is_err() {
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
            self.read.borrow_mut().push(entry.message().to_owned());
            if wanted(&entry) {
                return entry;
            }
        }
    }

    /// The next entry with this text in its message.
    pub fn message(&self, text: &str) -> Entry {
        self.next(text, |entry| entry.message().contains(text))
    }

    /// How many entries were read, for [`Self::message_since`].
    pub fn entries_read(&self) -> usize {
        self.read.borrow().len()
    }

    /// Waits for this text in a message, unless an entry that was read after the first `count` had it.
    pub fn message_since(&self, count: usize, text: &str) {
        let was_read = self.read.borrow()[count..]
            .iter()
            .any(|message| message.contains(text));
        if !was_read {
            self.message(text);
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
