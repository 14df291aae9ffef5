//! Finding the executables of apps by their paths.
//!
//! A path of a user may lead anywhere: to a drive that is slow, or that has failed. The event loop must not wait for
//! that, nor the worker, whose queue may be long. So a thread looks, and sends what it has found.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use rustix::fs::FileType;

use super::mailbox::Outbox;
use super::message::Message;
use super::own_links;
use super::roots::Inode;
use super::watchlist::PATH;
use crate::apps::{CommandLinks, Rules};
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;

/// Where an app's executable is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedExecutable {
    /// Its path without symbolic links.
    pub path: PathBuf,
    pub inode: Inode,
    /// The links among the commands that are other names of the app.
    pub links: Vec<PathBuf>,
    /// Whether the file is another app by each of its names: then only the name of the app is the app.
    pub is_many_apps: bool,
    /// Names of links that users have to it among their own commands, by user.
    pub own_names: Vec<(u32, String)>,
}

/// Executables by the ids of their apps.
pub type LocatedExecutables = HashMap<String, LocatedExecutable>;

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

fn locate(ids: Vec<String>, users: &[u32], rules: &Rules) -> io::Result<LocatedExecutables> {
    let mounts = MountTable::read()?;
    // A user may decide where a link of the administrator's ends, at what never answers, too.
    let end = |link: &Path| Some(LocalFile::find_trusted(link, &mounts).ok()?.path);
    let links = CommandLinks::read(OsStr::new(PATH), end);
    let own_links = own_links::of_users(users, &mounts);
    let located = |id: String| {
        let file = executable(&id, &mounts)?;
        let inode = inode_of(&file);
        let own_names = own_links.iter().filter(|link| link.inode == inode);
        let executable = LocatedExecutable {
            inode,
            links: links.names_of(&file.path, rules),
            is_many_apps: links.is_many_apps(&file.path, rules),
            own_names: own_names
                .map(|link| (link.uid, link.name.clone()))
                .collect(),
            path: file.path,
        };
        Some((id, executable))
    };
    Ok(ids.into_iter().filter_map(located).collect())
}

/// An app's executable, if there is one and the kernel alone finds it. Where a user decides what the path leads to, it is a
/// program of his own or none: otherwise his link would be a name of a program of all users, or show whether there is one.
fn executable(id: &str, mounts: &MountTable) -> Option<LocalFile> {
    let file = LocalFile::find(Path::new(id), mounts);
    let file = file.inspect_err(|error| tracing::debug!(app = id, "no executable: {error}"));
    file.ok()
        .filter(|file| file.node.kind == FileType::RegularFile && file.is_its_owners())
}

fn inode_of(file: &LocalFile) -> Inode {
    (file.node.dev, file.node.ino)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
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
