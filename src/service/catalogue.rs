//! Recognising apps: from what was seen of an execve to the app that it starts.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::apps::{Key, Rules};
use crate::kernel::{LaunchEvent, WatchedName};
use crate::model::App;
use crate::service::registry::{Added, Marks, Record, Registry};

/// An app that is managed from its first launch on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// For people.
    pub title: String,
    /// Why.
    pub added: Added,
    /// How it is recognised.
    pub marks: Marks,
}

/// An app that is being launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundApp {
    /// Its id: absolute path as the system sees it, or `launcher:name`.
    pub id: String,
    /// Whose profile it has.
    pub app: App,
}

/// The process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// What this process knows of its own place, to tell chroots and containers from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Root directory: device and inode number.
    pub root: (u64, u64),
    /// Mount namespace.
    pub mount_ns: u32,
}

impl Home {
    /// Looks.
    ///
    /// # Errors
    /// When /proc is not there.
    pub fn look() -> std::io::Result<Self> {
        let root = fs::metadata("/")?;
        let mount_ns = fs::metadata("/proc/self/ns/mnt")?.ino() as u32;
        Ok(Home {
            root: (root.dev(), root.ino()),
            mount_ns,
        })
    }
}

/// The largest command line that is looked at, in bytes; the kernel allows more, and none has its app so
/// far behind.
const MAX_COMMAND_LINE: u64 = 16 << 10;

/// Root directories that are remembered: each chroot has one.
const MOST_ROOTS: usize = 64;

/// All that is needed to recognise apps.
pub struct Catalogue {
    rules: Rules,
    home: Home,
    /// Apps that are not managed yet.
    candidates: BTreeMap<String, Candidate>,
    /// Paths of executables, and what they lead to, to ids.
    paths: HashMap<OsString, String>,
    /// The same by device and inode number.
    inodes: HashMap<(u64, u64), String>,
    /// Root directories of processes, which may be gone when we look.
    roots: RefCell<HashMap<(u64, u64), PathBuf>>,
}

impl Catalogue {
    /// An empty one.
    pub fn new(rules: Rules, home: Home) -> Self {
        Catalogue {
            rules,
            home,
            candidates: BTreeMap::new(),
            paths: HashMap::new(),
            inodes: HashMap::new(),
            roots: RefCell::new(HashMap::new()),
        }
    }

    /// The launcher rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Puts others in the place of the candidates.
    pub fn set_candidates(&mut self, candidates: BTreeMap<String, Candidate>) {
        self.candidates = candidates;
    }

    /// An app that is managed from its first launch on.
    pub fn candidate(&self, id: &str) -> Option<&Candidate> {
        self.candidates.get(id)
    }

    /// Adds a candidate.
    pub fn add_candidate(&mut self, id: String, candidate: Candidate) {
        self.candidates.insert(id, candidate);
    }

    /// Removes a candidate.
    pub fn remove_candidate(&mut self, id: &str) {
        self.candidates.remove(id);
    }

    /// Ids of all candidates.
    pub fn candidate_ids(&self) -> impl Iterator<Item = &str> {
        self.candidates.keys().map(String::as_str)
    }

    /// Looks again where the executables of all apps are, and says what to watch for: names, and arguments
    /// of launchers. Touches the file system.
    pub fn refresh(
        &mut self,
        registry: &Registry,
    ) -> (HashMap<OsString, WatchedName>, Vec<OsString>) {
        self.paths.clear();
        self.inodes.clear();
        let (mut names, mut arguments) = (HashMap::new(), Vec::new());
        let managed = registry
            .iter()
            .map(|record| (record.id.as_str(), &record.marks));
        let others = self
            .candidates
            .iter()
            .filter(|(id, _)| registry.get(id).is_none())
            .map(|(id, candidate)| (id.as_str(), &candidate.marks));
        for (id, marks) in managed.chain(others) {
            let kind = match marks.argument {
                None => WatchedName::App,
                Some(_) => WatchedName::Launcher,
            };
            for name in &marks.names {
                // A name that is both is watched as an app: then all of its launches are reported.
                let known = names.entry(OsString::from(name)).or_insert(kind);
                if kind == WatchedName::App {
                    *known = kind;
                }
            }
            arguments.extend(marks.argument.iter().map(OsString::from));
            if marks.argument.is_some() || !id.starts_with('/') {
                continue;
            }
            self.paths.insert(OsString::from(id), id.to_owned());
            if let Ok(file) = fs::canonicalize(id) {
                if let Ok(found) = fs::metadata(&file) {
                    self.inodes
                        .insert((found.dev(), found.ino()), id.to_owned());
                }
                self.paths
                    .entry(file.into_os_string())
                    .or_insert_with(|| id.to_owned());
            }
        }
        (names, arguments)
    }

    /// The app whose executable has this inode.
    pub fn by_inode(&self, inode: (u64, u64)) -> Option<&str> {
        self.inodes.get(&inode).map(String::as_str)
    }

    /// The app that a called execve would start, as far as its path tells; its executable is not named
    /// yet. Asks /proc for the root directory at most, and opens no file: on a cold system each look
    /// is a read from the drive, and the first requests of the prefetch would wait for it.
    pub fn called(&self, seen: &LaunchEvent) -> Option<FoundApp> {
        let path = Path::new(&seen.path);
        if !path.is_absolute() {
            return None;
        }
        let root = self.root_of(seen)?;
        let full = below(root.as_deref(), path);
        let id = self.paths.get(full.as_os_str())?;
        found(id, root, NO_EXECUTABLE)
    }

    /// The app that was executed; `None` if it is none that we know.
    ///
    /// # Errors
    /// [`Gone`] if its process has ended, and cannot be looked at any more.
    pub fn executed(&self, seen: &LaunchEvent) -> Result<Option<FoundApp>, Gone> {
        let Some(root) = self.root_of(seen) else {
            return Ok(None);
        };
        let proc = PathBuf::from(format!("/proc/{}", seen.pid));
        let argv = command_line(&proc).ok_or(Gone)?;
        let cwd = fs::read_link(proc.join("cwd")).map_err(|_| Gone)?;
        let path = Path::new(&seen.path);
        // The working directory is told as the system sees it, absolute paths as the process does.
        let full = match path.is_absolute() {
            true => below(root.as_deref(), path),
            false => cwd.join(path),
        };
        let identity = self.rules.identify(&full, &argv, &cwd);
        let id = match &identity.key {
            Key::File(file) if *file == full => self.by_file(file, &proc),
            Key::File(file) => {
                let file = below(root.as_deref(), file);
                self.paths.get(file.as_os_str()).cloned().or_else(|| {
                    let id = file.to_str()?;
                    self.candidates.contains_key(id).then(|| id.to_owned())
                })
            }
            Key::Name(name) => name.to_str().map(str::to_owned),
            Key::Command(_) => None,
        };
        Ok(id.and_then(|id| found(&id, root, executable(&id))))
    }

    /// The app that was executed by a process that has ended, as far as its path tells.
    pub fn gone(&self, seen: &LaunchEvent) -> Option<FoundApp> {
        let mut found = self.called(seen)?;
        (found.app.dev, found.app.ino) = executable(&found.id);
        Some(found)
    }

    /// The app of this id, about to be executed by a process in the system's own root or one of its own.
    pub fn of_process(&self, id: &str, pid: i32) -> Option<FoundApp> {
        let root = fs::read_link(format!("/proc/{pid}/root")).ok()?;
        let root = (root != Path::new("/")).then_some(root);
        // A later launch may end before anybody looks at it.
        if let Some(root) = &root
            && let Ok(found) = fs::metadata(root)
        {
            self.remember_root((found.dev(), found.ino()), root.clone());
        }
        found(id, root, executable(id))
    }

    /// By the path, by where that leads to, by the file that runs.
    fn by_file(&self, file: &Path, proc: &Path) -> Option<String> {
        let known = |path: &Path| self.paths.get(path.as_os_str()).cloned();
        known(file)
            .or_else(|| known(&fs::canonicalize(file).ok()?))
            .or_else(|| {
                let exe = fs::metadata(proc.join("exe")).ok()?;
                self.by_inode((exe.dev(), exe.ino())).map(str::to_owned)
            })
    }

    /// The root directory of a process, as the system sees it: `Some(None)` for the system's own, `None`
    /// for a container's, whose paths mean something else.
    fn root_of(&self, seen: &LaunchEvent) -> Option<Option<PathBuf>> {
        if seen.root == self.home.root {
            return Some(None);
        }
        if seen.mount_ns != self.home.mount_ns {
            return None;
        }
        let is_root = |root: &PathBuf| {
            fs::metadata(root).is_ok_and(|found| (found.dev(), found.ino()) == seen.root)
        };
        let known = self.roots.borrow().get(&seen.root).cloned();
        if let Some(known) = known.filter(is_root) {
            return Some(Some(known));
        }
        let root = fs::read_link(format!("/proc/{}/root", seen.pid)).ok()?;
        if !is_root(&root) {
            return None;
        }
        self.remember_root(seen.root, root.clone());
        Some(Some(root))
    }

    fn remember_root(&self, identity: (u64, u64), root: PathBuf) {
        let mut roots = self.roots.borrow_mut();
        if roots.len() >= MOST_ROOTS {
            roots.clear();
        }
        roots.insert(identity, root);
    }
}

/// What stands for an executable that is not known: device and inode number.
pub const NO_EXECUTABLE: (u64, u64) = (0, 0);

/// Device and inode number of the app's executable.
fn executable(id: &str) -> (u64, u64) {
    let file = id.starts_with('/').then(|| fs::metadata(id).ok()).flatten();
    file.map_or(NO_EXECUTABLE, |file| (file.dev(), file.ino()))
}

/// `id` with the identity of its profile; `None` if it is not below `root`.
fn found(id: &str, root: Option<PathBuf>, (dev, ino): (u64, u64)) -> Option<FoundApp> {
    let inside = match &root {
        Some(root) if id.starts_with('/') => {
            let inside = Path::new(id).strip_prefix(root).ok()?;
            Path::new("/").join(inside).into_os_string().into_vec()
        }
        _ => id.as_bytes().to_vec(),
    };
    Some(FoundApp {
        id: id.to_owned(),
        app: App {
            path: inside,
            root: root.map(|root| root.into_os_string().into_vec()),
            dev,
            ino,
        },
    })
}

impl Candidate {
    /// The record that it becomes with its first launch.
    pub fn record(&self, id: &str) -> Record {
        Record::new(
            id.to_owned(),
            self.title.clone(),
            self.added,
            self.marks.clone(),
        )
    }
}

/// How an app with this key is recognised: by `names`, those of its launcher if it has one.
pub fn marks(key: &Key, program: &Path, names: &[OsString]) -> Marks {
    let argument = match key {
        Key::File(file) if file == program => None,
        Key::File(file) => Some(file.as_os_str()),
        Key::Name(name) => {
            let bytes = name.as_bytes();
            let colon = bytes.iter().position(|&byte| byte == b':').unwrap_or(0);
            Some(OsStr::from_bytes(&bytes[colon + 1..]))
        }
        Key::Command(name) => Some(name.as_os_str()),
    };
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    Marks {
        names: names.iter().map(|name| text(name)).collect(),
        argument: argument.map(text),
    }
}

/// An absolute path below a root directory.
fn below(root: Option<&Path>, path: &Path) -> PathBuf {
    match root {
        None => path.to_path_buf(),
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// The arguments of a process, as far as they are looked at; `None` if it is gone, or a zombie, which has
/// none any more.
fn command_line(proc: &Path) -> Option<Vec<OsString>> {
    let mut bytes = Vec::new();
    fs::File::open(proc.join("cmdline"))
        .ok()?
        .take(MAX_COMMAND_LINE)
        .read_to_end(&mut bytes)
        .ok()
        .filter(|&length| length > 0)?;
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let arguments = bytes.split(|&byte| byte == 0);
    Some(
        arguments
            .map(|argument| OsStr::from_bytes(argument).to_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::LaunchEventKind;

    const HOME: Home = Home {
        root: (1, 2),
        mount_ns: 7,
    };

    fn catalogue(ids: &[&str]) -> Catalogue {
        let mut catalogue = Catalogue::new(Rules::builtin(), HOME);
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        for id in ids {
            let marks = Marks {
                names: vec!["app".into()],
                argument: None,
            };
            registry.insert(Record::new(
                (*id).to_owned(),
                String::new(),
                Added::User,
                marks,
            ));
        }
        catalogue.refresh(&registry);
        catalogue
    }

    fn seen(path: &str, root: (u64, u64), mount_ns: u32) -> LaunchEvent {
        LaunchEvent {
            time_ns: 0,
            kind: LaunchEventKind::Called,
            launch: 1,
            pid: std::process::id(),
            root,
            mount_ns,
            path: path.into(),
        }
    }

    #[test]
    fn a_call_is_recognised_by_its_path() {
        let catalogue = catalogue(&["/opt/no/such/app"]);
        let found = catalogue
            .called(&seen("/opt/no/such/app", HOME.root, 7))
            .unwrap();
        assert_eq!(found.id, "/opt/no/such/app");
        assert_eq!(found.app.path, b"/opt/no/such/app");
        assert_eq!(found.app.root, None);
        assert_eq!(catalogue.called(&seen("app", HOME.root, 7)), None);
        assert_eq!(
            catalogue.called(&seen("/opt/other/app", HOME.root, 7)),
            None
        );
    }

    #[test]
    fn a_container_with_equal_paths_is_another_system() {
        let catalogue = catalogue(&["/opt/no/such/app"]);
        assert_eq!(catalogue.called(&seen("/opt/no/such/app", (9, 2), 8)), None);
        // Another namespace with our root, as a service with a /tmp of its own has.
        let private = seen("/opt/no/such/app", HOME.root, 8);
        assert!(catalogue.called(&private).is_some());
    }

    #[test]
    fn launchers_are_watched_by_their_arguments() {
        let names = [OsString::from("flatpak")];
        let key = Key::Name("flatpak:org.gimp.GIMP".into());
        let flatpak = marks(&key, Path::new("/usr/bin/flatpak"), &names);
        assert_eq!(flatpak.argument.as_deref(), Some("org.gimp.GIMP"));
        let own = marks(
            &Key::File("/usr/bin/gimp".into()),
            Path::new("/usr/bin/gimp"),
            &names,
        );
        assert_eq!(own.argument, None);
        let script = marks(
            &Key::File("/opt/x.py".into()),
            Path::new("/usr/bin/python3"),
            &names,
        );
        assert_eq!(script.argument.as_deref(), Some("/opt/x.py"));
    }
}
