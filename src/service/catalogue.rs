//! Recognising apps: from what was seen of an execve to the app that it starts.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::apps::{Rules, executed_names};
use crate::kernel::{LaunchEvent, WatchedName};
use crate::model::{App, Identity, Key};
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
    /// Its id: see [`App::id`].
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
    /// Ids of apps that launchers start.
    launched: HashSet<String>,
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
            launched: HashSet::new(),
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
        self.launched.clear();
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
            if let Some(argument) = &marks.argument {
                arguments.extend(spellings(argument));
                self.launched.insert(id.to_owned());
                continue;
            }
            if !id.starts_with('/') {
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
        // /proc names the working directory as the system sees it; a process in a chroot sees less of it.
        let cwd = match &root {
            Some(root) => Path::new("/").join(cwd.strip_prefix(root).unwrap_or(&cwd)),
            None => cwd,
        };
        let identity = self.rules.identify(&cwd.join(&seen.path), &argv, &cwd);
        Ok(self.identified(&identity, root, &proc))
    }

    /// The managed app with this identity.
    fn identified(
        &self,
        identity: &Identity,
        root: Option<PathBuf>,
        proc: &Path,
    ) -> Option<FoundApp> {
        if identity.is_program() {
            let file = below(root.as_deref(), &identity.program);
            let id = self.by_file(&file, proc)?;
            return found(&id, root, executable(&id));
        }
        let mut app = identity.app(root.as_deref());
        let id = String::from_utf8(app.id()).ok()?;
        if !self.launched.contains(&id) {
            return None;
        }
        (app.dev, app.ino) = executable(&id);
        Some(FoundApp { id, app })
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
            program: None,
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

/// How an app is recognised: by `names`, those under which its program may be executed, and by the argument
/// that tells it if the program is a launcher.
pub fn marks(identity: &Identity, names: &[OsString]) -> Marks {
    let argument = match &identity.key {
        _ if identity.is_program() => None,
        Key::File(file) => Some(file.to_string_lossy().into_owned()),
        Key::Name(name) => Some(without_launcher(&name.to_string_lossy())),
    };
    let text = |name: &OsString| name.to_string_lossy().into_owned();
    Marks {
        names: names.iter().map(text).collect(),
        argument,
    }
}

/// How the app of a profile is recognised; `None` for a launcher, which is not one app.
pub fn marks_of(app: &App, rules: &Rules) -> Option<Marks> {
    if rules.is_launcher(app) {
        return None;
    }
    let inside = OsStr::from_bytes(app.program.as_ref().unwrap_or(&app.path));
    let key = OsStr::from_bytes(&app.path);
    let identity = Identity {
        key: match app.path.starts_with(b"/") {
            true => Key::File(key.into()),
            false => Key::Name(key.to_owned()),
        },
        program: inside.into(),
        distinct: true,
    };
    let root = app.root.as_deref().map(OsStr::from_bytes).map(Path::new);
    let names = match &app.program {
        Some(_) => executed_names(&below(root, &identity.program)),
        None => identity
            .program
            .file_name()
            .map(OsString::from)
            .into_iter()
            .collect(),
    };
    Some(marks(&identity, &names))
}

/// What the log says of a launcher that has a profile or was managed.
pub const LAUNCHER_ONLY: &str =
    "starts many apps and is not managed itself: learn the apps that it starts";

/// Stops managing launchers that earlier versions took for apps. Returns their ids.
pub fn leave_launchers(registry: &mut Registry, rules: &Rules) -> Vec<String> {
    let is_launcher = |record: &&Record| {
        let app = App {
            path: record.id.clone().into_bytes(),
            ..App::default()
        };
        record.marks.argument.is_none() && rules.is_launcher(&app)
    };
    let launchers = registry.iter().filter(is_launcher);
    let ids: Vec<String> = launchers.map(|record| record.id.clone()).collect();
    for id in &ids {
        registry.remove(id);
    }
    ids
}

/// The name that follows the launcher's in a key.
fn without_launcher(key: &str) -> String {
    key.split_once(':').map_or(key, |(_, name)| name).to_owned()
}

/// How a command line may name the app: as its identity does or, for a file, from the working directory that
/// it lies in. The kernel compares whole arguments.
fn spellings(argument: &str) -> Vec<OsString> {
    let mut spellings = vec![OsString::from(argument)];
    if let Some(name) = Path::new(argument)
        .file_name()
        .filter(|_| argument.starts_with('/'))
    {
        spellings.push(name.to_owned());
        spellings.push(Path::new(".").join(name).into_os_string());
    }
    spellings
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

    fn identity(key: Key, program: &str) -> Identity {
        Identity {
            key,
            program: program.into(),
            distinct: true,
        }
    }

    #[test]
    fn launchers_are_watched_by_their_arguments() {
        let names = [OsString::from("flatpak")];
        let argument = |key, program| marks(&identity(key, program), &names).argument;
        let flatpak = argument(
            Key::Name("flatpak:org.gimp.GIMP".into()),
            "/usr/bin/flatpak",
        );
        assert_eq!(flatpak.as_deref(), Some("org.gimp.GIMP"));
        let own = argument(Key::File("/usr/bin/gimp".into()), "/usr/bin/gimp");
        assert_eq!(own, None);
        let script = argument(Key::File("/opt/x.py".into()), "/usr/bin/python3");
        assert_eq!(script.as_deref(), Some("/opt/x.py"));
    }

    /// A catalogue with the apps of profiles.
    fn of_profiles(apps: &[App]) -> (Catalogue, HashMap<OsString, WatchedName>, Vec<OsString>) {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let mut catalogue = Catalogue::new(Rules::builtin(), HOME);
        for app in apps {
            let id = String::from_utf8(app.id()).unwrap();
            if let Some(marks) = marks_of(app, catalogue.rules()) {
                registry.insert(Record::new(id, String::new(), Added::User, marks));
            }
        }
        let (names, arguments) = catalogue.refresh(&registry);
        (catalogue, names, arguments)
    }

    #[test]
    fn a_learned_script_is_recognised_and_others_of_its_interpreter_are_not() {
        let a = identity(Key::File("/opt/a.py".into()), "/usr/bin/python3").app(None);
        let (catalogue, names, arguments) = of_profiles(std::slice::from_ref(&a));
        assert_eq!(names[OsStr::new("python3")], WatchedName::Launcher);
        assert_eq!(arguments, ["/opt/a.py", "a.py", "./a.py"]);
        // A call of python3 says nothing yet: no prefetch starts.
        assert_eq!(
            catalogue.called(&seen("/usr/bin/python3", HOME.root, 7)),
            None
        );
        let executed = |argv: [&str; 2], cwd: &str| {
            let argv = argv.map(OsString::from);
            let rules = catalogue.rules();
            let identity = rules.identify(Path::new("/usr/bin/python3"), &argv, Path::new(cwd));
            catalogue.identified(&identity, None, Path::new("/nonexistent"))
        };
        let found = executed(["python3", "a.py"], "/opt").expect("it was learned");
        assert_eq!((found.id.as_str(), &found.app), ("/opt/a.py", &a));
        assert_eq!(executed(["python3", "b.py"], "/opt"), None);
        assert_eq!(executed(["python3", "a.py"], "/home"), None);
        assert_eq!(executed(["python3", "-"], "/opt"), None);
    }

    #[test]
    fn a_profile_of_a_launcher_itself_is_not_watched() {
        let python = identity(Key::File("/usr/bin/python3".into()), "/usr/bin/python3").app(None);
        let (catalogue, names, _) = of_profiles(&[python]);
        assert!(names.is_empty());
        assert_eq!(
            catalogue.called(&seen("/usr/bin/python3", HOME.root, 7)),
            None
        );
    }

    #[test]
    fn launchers_that_were_managed_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        for (id, argument) in [
            ("/usr/bin/python3", None),
            ("/img/bin/sh", None),
            ("/usr/bin/gimp", None),
            ("/usr/bin/env", Some("x".to_owned())),
        ] {
            let names = Vec::new();
            let marks = Marks { names, argument };
            registry.insert(Record::new(id.into(), String::new(), Added::User, marks));
        }
        let left = leave_launchers(&mut registry, &Rules::builtin());
        assert_eq!(left, ["/img/bin/sh", "/usr/bin/python3"]);
        assert_eq!(registry.len(), 2);
    }
}
