//! Recognising apps: from an execve event of the kernel to the app that is launched.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::located_executables::LocatedExecutables;
use super::registry::Record;
use super::roots::{Inode, Roots, below, executed, inode};
use crate::apps::Rules;
use crate::kernel::LaunchEvent;
use crate::model::{App, Identity, Key, UserApp};

/// An app that is being launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundApp {
    /// What it is, and who launches it.
    pub key: UserApp,
    /// The app as its profile names it.
    pub app: App,
}

/// What is needed to recognise apps.
pub struct Catalogue {
    rules: Rules,
    roots: Roots,
    /// Ids by the paths of executables, and by the paths behind symbolic links.
    paths: HashMap<OsString, String>,
    /// Ids by executables.
    inodes: HashMap<Inode, String>,
    /// Apps that are files: executables of their own, and scripts.
    executables: BTreeSet<String>,
    /// Where these were when they were looked for last; others may be among them.
    located: LocatedExecutables,
    /// Ids of apps that launchers start.
    launched: HashSet<String>,
}

impl Catalogue {
    /// A catalogue without apps.
    pub fn new(rules: Rules, roots: Roots) -> Self {
        Catalogue {
            rules,
            roots,
            paths: HashMap::new(),
            inodes: HashMap::new(),
            executables: BTreeSet::new(),
            located: HashMap::new(),
            launched: HashSet::new(),
        }
    }

    /// The launcher rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether the event's process has the system's root directory and the system's mounts.
    pub fn is_of_system(&self, event: &LaunchEvent) -> bool {
        self.roots.is_of_system(event)
    }

    /// Recognises these apps and no others, by the executables that were located last.
    pub fn refresh<'a>(&mut self, apps: impl Iterator<Item = &'a Record>) {
        self.executables.clear();
        self.launched.clear();
        for Record { key, marks, .. } in apps {
            // A script may be executed itself, and be given to its interpreter: it is one app.
            if marks.argument.is_some() || !marks.interpreters.is_empty() {
                self.launched.insert(key.id.clone());
            }
            if key.id.starts_with('/') {
                self.executables.insert(key.id.clone());
            }
        }
        self.enter_executables();
    }

    /// The apps whose executables are to be located.
    pub fn executables(&self) -> Vec<String> {
        self.executables.iter().cloned().collect()
    }

    /// Executables have been located.
    pub fn located(&mut self, found: LocatedExecutables) {
        self.located = found;
        self.enter_executables();
    }

    fn enter_executables(&mut self) {
        self.paths.clear();
        self.inodes.clear();
        // How many apps are names of one program: then its other names do not tell which of them it is.
        let mut of_inode: HashMap<Inode, usize> = HashMap::new();
        for id in &self.executables {
            self.paths.insert(id.into(), id.clone());
            if let Some(found) = self.located.get(id) {
                *of_inode.entry(found.inode).or_default() += 1;
            }
        }
        for id in &self.executables {
            let Some(found) = self.located.get(id) else {
                continue;
            };
            if found.is_many_apps || of_inode.get(&found.inode) != Some(&1) {
                continue;
            }
            self.inodes.insert(found.inode, id.clone());
            for path in found.links.iter().chain([&found.path]) {
                let path = path.clone().into_os_string();
                self.paths.entry(path).or_insert_with(|| id.clone());
            }
        }
    }

    /// The users who have links of their own to an app, with the links' names. None of a program that is another app by each
    /// name.
    pub fn own_names_of(&self, id: &str) -> &[(u32, String)] {
        let found = self.located.get(id).filter(|found| !found.is_many_apps);
        found.map_or(&[], |found| found.own_names.as_slice())
    }

    /// Whether a launch has found another file at the app's path than was located last: the links that lead there were
    /// switched, or the file was replaced.
    pub fn has_moved(&self, id: &str, app: &App) -> bool {
        let located = self.located.get(id).map(|found| found.inode);
        app.ino != 0 && located.is_some_and(|located| located != (app.dev, app.ino))
    }

    /// The base names by which an app may be executed, whose own are `known`: those of the links that lead to it, too, as
    /// far as they were found; and of a program that is another app by each name, that of the app alone.
    pub fn names_of(&self, id: &str, known: &[String]) -> Vec<String> {
        let base = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let Some(found) = self.located.get(id) else {
            return known.to_vec();
        };
        if found.is_many_apps {
            return base(Path::new(id)).into_iter().collect();
        }
        let mut names = known.to_vec();
        for name in found.links.iter().filter_map(|link| base(link)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The root directory of the event's process, as [`Roots::of_event`] says it. Of one that has ended already, the paths of
    /// apps tell: one lies below that root by the path that was executed.
    fn root_of(&self, event: &LaunchEvent) -> Option<Option<PathBuf>> {
        self.roots.of_event(event).or_else(|| {
            let path = Path::new(&event.path).strip_prefix("/").ok()?;
            let files = self.paths.keys().map(Path::new);
            let roots = files.filter(|file| file.ends_with(path));
            let roots = roots.filter_map(|file| file.ancestors().nth(path.components().count()));
            Some(Some(self.roots.among(event, roots.map(Path::to_path_buf))?))
        })
    }

    /// The app that a call of execve would start, as far as its path tells; the inode of its executable is
    /// left out. Asks /proc for the root directory at most, and opens no file: on a cold system each look
    /// is a read from the drive, and the first requests of the prefetch would wait for it.
    pub fn called(&self, event: &LaunchEvent) -> Option<FoundApp> {
        let path = Path::new(&event.path);
        if !path.is_absolute() {
            return None;
        }
        let root = self.root_of(event)?;
        let file = below(root.as_deref(), path);
        match self.paths.get(file.as_os_str()) {
            Some(id) => found(id, event.uid, root, None),
            None => self.launched_by_path(path, event.uid, root.as_deref()),
        }
    }

    /// The app that a launcher starts when it is executed by this path: some have a directory with a name for each of their
    /// apps.
    fn launched_by_path(&self, path: &Path, uid: u32, root: Option<&Path>) -> Option<FoundApp> {
        let identity = self.rules.identify(path, &[], Path::new("/"));
        if !matches!(identity.key, Key::Name(_)) {
            return None;
        }
        let app = identity.app(uid, root);
        let key = app.user_app()?;
        let is_it = self.launched.contains(&key.id);
        is_it.then_some(FoundApp { key, app })
    }

    /// The app that was executed. If its process has ended already, only its path can tell. Of the process, links in
    /// /proc are read, and never what it can make wait: its arguments come with the event.
    pub fn executed(&self, event: &LaunchEvent) -> Option<FoundApp> {
        let root = self.root_of(event)?;
        let proc = PathBuf::from(format!("/proc/{}", event.pid));
        let cwd = fs::read_link(proc.join("cwd")).ok();
        let Some(cwd) = cwd.filter(|_| !event.arguments.is_empty()) else {
            let mut found = self.called(event)?;
            (found.app.dev, found.app.ino) = self.executable(&found.key.id).unwrap_or_default();
            return Some(found);
        };
        // /proc names the working directory as the system sees it; a process in a chroot sees less of it.
        let cwd = match &root {
            Some(root) => Path::new("/").join(cwd.strip_prefix(root).unwrap_or(&cwd)),
            None => cwd,
        };
        let identity = self
            .rules
            .identify(&cwd.join(&event.path), &event.arguments, &cwd);
        self.identified(&identity, event.uid, root.clone(), &proc)
            .or_else(|| self.by_descriptor(event, root, &proc))
    }

    /// The script that was executed by a descriptor, whose path its interpreter is given.
    fn by_descriptor(
        &self,
        event: &LaunchEvent,
        root: Option<PathBuf>,
        proc: &Path,
    ) -> Option<FoundApp> {
        let given = event.arguments.iter().find_map(|argument| {
            let path = Path::new(argument);
            let below = path.strip_prefix("/dev/fd");
            below.or_else(|_| path.strip_prefix("/proc/self/fd")).ok()
        })?;
        let mut below = given.components();
        let descriptor: u32 = below.next()?.as_os_str().to_str()?.parse().ok()?;
        // A link of /proc, which tells a path without asking anybody.
        let opened = fs::read_link(proc.join(format!("fd/{descriptor}"))).ok()?;
        let rest = below.as_path();
        let file = match rest.as_os_str().is_empty() {
            true => opened,
            false => opened.join(rest),
        };
        let id = self.paths.get(file.as_os_str())?;
        found(id, event.uid, root, self.executable(id))
    }

    /// The app with this identity, of the process that /proc shows at `proc`, as this user launches it.
    fn identified(
        &self,
        identity: &Identity,
        uid: u32,
        root: Option<PathBuf>,
        proc: &Path,
    ) -> Option<FoundApp> {
        if identity.is_program() {
            let file = below(root.as_deref(), &identity.program);
            let by_inode = |path: &Path| self.inodes.get(&inode(path)?);
            let by_path = self.paths.get(file.as_os_str());
            let id = by_path
                .or_else(|| by_inode(&file))
                .or_else(|| self.inodes.get(&executed(proc)?))?;
            return found(id, uid, root, self.executable(id));
        }
        let mut app = identity.app(uid, root.as_deref());
        let key = app.user_app()?;
        if !self.launched.contains(&key.id) {
            return None;
        }
        (app.dev, app.ino) = self.executable(&key.id).unwrap_or_default();
        Some(FoundApp { key, app })
    }

    /// The executable of an app, or the file that its launcher starts. The launch that asks has used its path just
    /// now; if the kernel has forgotten that, it is the one that was located last.
    fn executable(&self, id: &str) -> Option<Inode> {
        let now = id.starts_with('/').then(|| inode(Path::new(id))).flatten();
        now.or_else(|| Some(self.located.get(id)?.inode))
    }

    /// The device of an app's executable as it was located last, encoded as `st_dev`. No file system is asked.
    pub fn located_device(&self, id: &str) -> Option<u64> {
        Some(self.located.get(id)?.inode.0)
    }
}

/// The app of this id, which this user launches, as its profile names it; `None` if it is not below `root`.
fn found(id: &str, uid: u32, root: Option<PathBuf>, executable: Option<Inode>) -> Option<FoundApp> {
    let path = match &root {
        Some(root) if id.starts_with('/') => {
            let inside = Path::new(id).strip_prefix(root).ok()?;
            Path::new("/").join(inside).into_os_string().into_vec()
        }
        _ => id.as_bytes().to_vec(),
    };
    let (dev, ino) = executable.unwrap_or_default();
    let app = App {
        uid,
        path,
        root: root.map(|root| root.into_os_string().into_vec()),
        program: None,
        dev,
        ino,
    };
    let key = UserApp::new(uid, id);
    Some(FoundApp { key, app })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::mounts::MountTable;
    use crate::kernel::LaunchEventKind;
    use crate::service::located_executables::LocatedExecutable;
    use crate::service::marks::Marks;
    use crate::service::registry::Added;

    const ROOT: Inode = (1, 2);
    const USER: u32 = 1000;

    /// A catalogue with the apps of profiles.
    fn catalogue(apps: &[App]) -> Catalogue {
        let mut catalogue = Catalogue::new(Rules::builtin(), Roots::new(ROOT, 7));
        let record = |app: &App| {
            let mounts = MountTable::parse(b"");
            let marks = Marks::of_profile(app, catalogue.rules(), &mounts).unwrap();
            Record::new(app.user_app().unwrap(), String::new(), Added::User, marks)
        };
        let records: Vec<Record> = apps.iter().map(record).collect();
        catalogue.refresh(records.iter());
        catalogue
    }

    fn app(key: &str, program: &str) -> App {
        let identity = Identity {
            key: Key::File(key.into()),
            program: program.into(),
            distinct: true,
        };
        identity.app(USER, None)
    }

    fn event(path: &str, root: Inode, mount_ns: u32) -> LaunchEvent {
        LaunchEvent {
            time_ns: 0,
            kind: LaunchEventKind::Called,
            launch: 1,
            pid: std::process::id(),
            uid: USER,
            root,
            mount_ns,
            path: path.into(),
            arguments: Vec::new(),
        }
    }

    #[test]
    fn a_call_is_recognised_by_its_path_in_the_system_alone() {
        const PATH: &str = "/opt/no/such/app";
        let catalogue = catalogue(&[app(PATH, PATH)]);
        let called = |path, root, mount_ns| catalogue.called(&event(path, root, mount_ns));
        let found = called(PATH, ROOT, 7).unwrap();
        let key = UserApp::new(USER, PATH);
        assert_eq!((found.key, found.app), (key, app(PATH, PATH)));
        assert_eq!(called("app", ROOT, 7), None);
        assert_eq!(called("/opt/other/app", ROOT, 7), None);
        assert!(
            called(PATH, ROOT, 8).is_some(),
            "a service with a /tmp of its own"
        );
        assert_eq!(
            called(PATH, (9, 2), 8),
            None,
            "a container with equal paths"
        );
    }

    #[test]
    fn a_call_in_a_chroot_whose_process_has_ended_is_recognised_by_the_roots_number() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(root.join("opt")).unwrap();
        let id = root.join("opt/app").into_os_string().into_string().unwrap();
        let called = |path: &str, root: Inode, mount_ns| {
            let event = LaunchEvent {
                pid: i32::MAX as u32,
                ..event(path, root, mount_ns)
            };
            catalogue(&[app(&id, &id)]).called(&event)
        };
        let number = inode(&root).unwrap();
        let found = called("/opt/app", number, 7).unwrap();
        assert_eq!(
            found.app.root.as_deref(),
            Some(root.as_os_str().as_encoded_bytes())
        );
        assert_eq!(found.key.id, id);
        for (path, number, mount_ns) in [
            ("/opt/app", number, 8),
            ("/opt/app", inode(&root.join("opt")).unwrap(), 7),
            ("/app", number, 7),
            ("/", number, 7),
        ] {
            assert_eq!(called(path, number, mount_ns), None, "{path} {mount_ns}");
        }
    }

    fn located(path: &str, inode: Inode, links: &[&str], is_many_apps: bool) -> LocatedExecutable {
        LocatedExecutable {
            path: path.into(),
            inode,
            links: links.iter().map(Into::into).collect(),
            is_many_apps,
            own_names: Vec::new(),
        }
    }

    #[test]
    fn an_app_whose_path_leads_to_another_file_has_moved() {
        const APP: &str = "/home/ada/current/bin/app";
        let mut catalogue = catalogue(&[app(APP, APP)]);
        let with = |dev, ino| App {
            dev,
            ino,
            ..app(APP, APP)
        };
        assert!(
            !catalogue.has_moved(APP, &with(7, 8)),
            "it was not found yet"
        );
        let mut found = located("/home/ada/releases/1/bin/app", (7, 8), &[], false);
        found.own_names = vec![(USER, "tool".to_owned())];
        catalogue.located([(APP.to_owned(), found.clone())].into());
        for (dev, ino, has_moved) in [(7, 8, false), (7, 9, true), (6, 8, true), (0, 0, false)] {
            assert_eq!(catalogue.has_moved(APP, &with(dev, ino)), has_moved);
        }
        assert_eq!(catalogue.own_names_of(APP), [(USER, "tool".to_owned())]);
        found.is_many_apps = true;
        catalogue.located([(APP.to_owned(), found)].into());
        assert!(catalogue.own_names_of(APP).is_empty());
    }

    #[test]
    fn a_script_is_recognised_by_the_descriptor_that_its_interpreter_is_given() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap().join("tool");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let id = path.to_str().unwrap();
        let catalogue = catalogue(&[app(id, id)]);
        let (file, above) = (
            fs::File::open(&path).unwrap(),
            fs::File::open(path.parent().unwrap()).unwrap(),
        );
        let (file, above) = (file.as_raw_fd(), above.as_raw_fd());
        let executed = |given: String| {
            let arguments = vec!["sh".into(), "-e".into(), given.into()];
            let event = LaunchEvent {
                arguments,
                ..event("tool", ROOT, 7)
            };
            catalogue.executed(&event).map(|found| found.key.id)
        };
        for given in [
            format!("/dev/fd/{file}"),
            format!("/proc/self/fd/{file}"),
            format!("/dev/fd/{above}/tool"),
        ] {
            assert_eq!(executed(given.clone()).as_deref(), Some(id), "{given}");
        }
        for given in [
            format!("/dev/fd/{above}"),
            "/dev/fd/x".to_owned(),
            "/dev/fd/".to_owned(),
            "tool".to_owned(),
        ] {
            assert_eq!(executed(given.clone()), None, "{given}");
        }
    }

    #[test]
    fn an_app_is_recognised_by_each_link_that_leads_to_it() {
        const GIMP: &str = "/opt/no/such/gimp-2.10";
        let mut catalogue = catalogue(&[app(GIMP, GIMP)]);
        let links = ["/usr/bin/gimp", "/usr/bin/picture-editor"];
        let found = located("/opt/real/gimp-2.10", (7, 8), &links, false);
        catalogue.located([(GIMP.to_owned(), found)].into());
        let called = |path| {
            catalogue
                .called(&event(path, ROOT, 7))
                .map(|found| found.key.id)
        };
        for path in [GIMP, "/opt/real/gimp-2.10", links[0], links[1]] {
            assert_eq!(called(path).as_deref(), Some(GIMP), "{path}");
        }
        assert_eq!(called("/usr/bin/other"), None);
        let names = catalogue.names_of(GIMP, &["gimp-2.10".to_owned()]);
        assert_eq!(names, ["gimp-2.10", "gimp", "picture-editor"]);
        assert_eq!(catalogue.names_of("/x", &["y".to_owned()]), ["y"]);
    }

    #[test]
    fn one_program_is_another_app_by_each_name_where_it_is_many_or_several_have_it() {
        const RED: &str = "/opt/no/such/red";
        const BLUE: &str = "/opt/no/such/blue";
        const FILE: &str = "/opt/real/program";
        let both = [app(RED, RED), app(BLUE, BLUE)];
        for (apps, is_many) in [(&both[..1], true), (&both[..], false)] {
            let mut catalogue = catalogue(apps);
            let found = |_| located(FILE, (7, 8), &["/usr/bin/green"], is_many);
            let ids = [RED, BLUE].map(|id| (id.to_owned(), found(id)));
            catalogue.located(ids.into());
            let called = |path| {
                catalogue
                    .called(&event(path, ROOT, 7))
                    .map(|found| found.key.id)
            };
            assert_eq!(called(RED).as_deref(), Some(RED));
            for path in [FILE, "/usr/bin/green"] {
                assert_eq!(called(path), None, "{path}");
            }
            assert_eq!(catalogue.inodes.get(&(7, 8)), None);
        }
        let mut catalogue = catalogue(&both[..1]);
        catalogue.located([(RED.to_owned(), located(FILE, (7, 8), &[], true))].into());
        let names = catalogue.names_of(RED, &["red".to_owned(), "program".to_owned()]);
        assert_eq!(names, ["red"]);
    }

    #[test]
    fn a_script_is_recognised_by_the_arguments_in_the_event_and_not_by_those_of_the_process() {
        const PYTHON: &str = "/usr/bin/python3";
        let a = app("/opt/a.py", PYTHON);
        let catalogue = catalogue(std::slice::from_ref(&a));
        let executed = |arguments: &[&str]| {
            let arguments = arguments.iter().map(Into::into).collect();
            let event = LaunchEvent {
                arguments,
                ..event(PYTHON, ROOT, 7)
            };
            catalogue.executed(&event).map(|found| found.app)
        };
        assert_eq!(executed(&["python3", "/opt/a.py"]), Some(a));
        let itself = catalogue.called(&event("/opt/a.py", ROOT, 7)).unwrap();
        assert_eq!(itself.key.id, "/opt/a.py", "it is executed itself");
        assert_eq!(executed(&["python3", "/opt/b.py"]), None);
        assert_eq!(executed(&[]), None, "they could not be read");
    }

    #[test]
    fn a_call_by_a_path_in_a_launchers_directory_is_recognised_by_its_name() {
        let identity = Identity {
            key: Key::Name("snap:x".into()),
            program: "/snap/bin/x".into(),
            distinct: true,
        };
        let snap = identity.app(USER, None);
        let catalogue = catalogue(std::slice::from_ref(&snap));
        let called = |path| {
            let found = catalogue.called(&event(path, ROOT, 7));
            found.map(|found| found.app)
        };
        assert_eq!(called("/snap/bin/x"), Some(snap));
        for path in ["/snap/bin/y", "/usr/bin/x", "/usr/bin/snap"] {
            assert_eq!(called(path), None, "{path}");
        }
    }

    #[test]
    fn a_learned_script_is_recognised_and_others_of_its_interpreter_are_not() {
        const PYTHON: &str = "/usr/bin/python3";
        let a = app("/opt/a.py", PYTHON);
        let catalogue = catalogue(std::slice::from_ref(&a));
        // A call of python3 tells nothing yet: no prefetch starts.
        assert_eq!(catalogue.called(&event(PYTHON, ROOT, 7)), None);
        let executed = |argument: &str, cwd: &str| {
            let argv = ["python3", argument].map(OsString::from);
            let identity = catalogue
                .rules()
                .identify(Path::new(PYTHON), &argv, Path::new(cwd));
            catalogue.identified(&identity, USER, None, Path::new("/nonexistent"))
        };
        let found = executed("a.py", "/opt").expect("it was learned");
        assert_eq!((found.key.id.as_str(), &found.app), ("/opt/a.py", &a));
        for (argument, cwd) in [("b.py", "/opt"), ("a.py", "/home"), ("-", "/opt")] {
            assert_eq!(executed(argument, cwd), None);
        }
    }
}
