//! Finding the executables of apps by their paths.
//!
//! A path of a user may lead anywhere: to a drive that is slow, or that has failed. The event loop must not wait for
//! that, nor the worker, whose queue may be long. So a thread looks, and sends what it has found.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use super::located_executables::locate;
use super::mailbox::Outbox;
use super::message::Message;
use crate::apps::Rules;

/// What the thread is to do.
enum Request {
    /// Find the executables of these apps, and the links that these users have to them.
    Locate(Vec<String>, Vec<u32>, Box<Rules>),
    /// Nothing: show that the thread works.
    Answer,
}

/// Finds executables. The thread ends when this is dropped.
pub struct ExecutableFinder {
    requests: Sender<Request>,
    /// Requests to find executables that have not been carried out: the last one makes those before it needless.
    to_locate: Arc<AtomicUsize>,
    /// Whether a request was carried out since the last look.
    has_worked: Arc<AtomicBool>,
}

impl ExecutableFinder {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(outbox: Outbox) -> io::Result<Self> {
        let (requests, inbox) = channel();
        let to_locate = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&to_locate);
        let has_worked = Arc::new(AtomicBool::new(false));
        let works = Arc::clone(&has_worked);
        let run = move || {
            for request in inbox {
                carry_out(request, &waiting, &outbox);
                works.store(true, Ordering::Release);
            }
        };
        Builder::new().name("pf-paths".to_owned()).spawn(run)?;
        Ok(ExecutableFinder {
            requests,
            to_locate,
            has_worked,
        })
    }

    /// Has the executables of these apps found, with the links that these users have to them. [`Message::Located`] has them,
    /// unless it is asked for again before.
    pub fn locate(&self, ids: Vec<String>, users: Vec<u32>, rules: &Rules) {
        self.to_locate.fetch_add(1, Ordering::AcqRel);
        self.request(Request::Locate(ids, users, Box::new(rules.clone())));
    }

    /// Asks the thread to show that it works, once it has done what it was asked for before.
    pub fn ask(&self) {
        self.request(Request::Answer);
    }

    /// Whether the thread has done anything since the last call.
    pub fn has_answered(&self) -> bool {
        self.has_worked.swap(false, Ordering::AcqRel)
    }

    fn request(&self, request: Request) {
        // The thread is only gone if it has panicked, which has been printed.
        let _ = self.requests.send(request);
    }
}

fn carry_out(request: Request, to_locate: &AtomicUsize, outbox: &Outbox) {
    match request {
        Request::Locate(ids, users, rules) => {
            let is_last = to_locate.fetch_sub(1, Ordering::AcqRel) == 1;
            if is_last {
                outbox.send(match locate(ids, &users, &rules) {
                    Ok(located) => Message::Located(located),
                    Err(error) => {
                        Message::Warning(format!("executables cannot be located: {error}"))
                    }
                });
            }
        }
        Request::Answer => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::service::located_executables::LocatedExecutable;
    use crate::service::mailbox::mailbox;

    #[test]
    fn executables_are_found_behind_links_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let id = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        fs::write(id("file"), "").unwrap();
        symlink("file", id("link")).unwrap();
        let (outbox, inbox) = mailbox().unwrap();
        let finder = ExecutableFinder::start(outbox).unwrap();
        let ids = vec![id("link"), id("none"), id(".")];
        finder.locate(ids, Vec::new(), &Rules::none());
        while !finder.has_answered() {
            std::thread::yield_now();
        }
        let messages = inbox.take();
        let [Message::Located(found)] = &messages[..] else {
            panic!("one message");
        };
        let file = fs::metadata(id("file")).unwrap();
        let expected = LocatedExecutable {
            path: fs::canonicalize(id("file")).unwrap(),
            inode: (file.dev(), file.ino()),
            links: Vec::new(),
            is_many_apps: false,
            own_names: Vec::new(),
        };
        assert_eq!(*found, HashMap::from([(id("link"), expected)]));
    }

    #[test]
    fn of_several_requests_to_find_executables_the_last_counts() {
        let (outbox, inbox) = mailbox().unwrap();
        let to_locate = AtomicUsize::new(3);
        for ids in [vec!["/usr/bin/a".to_owned()], Vec::new(), Vec::new()] {
            let request = Request::Locate(ids, Vec::new(), Box::new(Rules::none()));
            carry_out(request, &to_locate, &outbox);
        }
        assert_eq!(inbox.take().len(), 1);
    }
}
