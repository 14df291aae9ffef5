//! The programs whose launches matter: managed apps, which the registry has, and candidates, which may become
//! managed.
//!
//! A program with a .desktop entry is managed from its first launch on. Another one is put on probation when
//! the kernel reports that one of its processes had read much when it exited. That may have been its launch or
//! hours of work. So its next launches are followed, with nothing done for them, and what they read and wait
//! for until they are quiet decides.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};

use super::catalogue::Catalogue;
use super::config::AutomaticConfig;
use super::located_executables::PATH;
use super::login::is_login;
use super::marks::Marks;
use super::registry::{Added, EVERY_USER, Record, Registry};
use crate::apps::{Rules, desktop};
use crate::kernel::{Watched, WatchedApps, WatchedName};
use crate::model::{LaunchCounts, UserApp};

/// Most programs that are on probation at a time, and of one user.
const MOST_ON_PROBATION: usize = 64;
const MOST_OF_A_USER: usize = 16;

/// Launches unlike an app's after which a program is followed no longer.
const PATIENCE: u64 = 8;

/// Bytes below which the reads of a launch call it warm.
const WARM_BYTES: u64 = 1 << 20;

/// A program on probation.
#[derive(Clone, Debug)]
struct Probation {
    /// Record of the program once it is managed.
    record: Record,
    /// Launches that looked like those of a large app, in a row.
    alike: u64,
    /// Launches that did not.
    unlike: u64,
}

/// What a launch has shown of a program on probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbationVerdict {
    /// More launches are needed.
    Undecided,
    /// The program is an app: its record.
    App(Box<Record>),
    /// The program is no app. It may be put on probation again when it reads much once more.
    NoApp,
}

/// The programs whose launches matter, as the kernel tells them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedPrograms {
    /// By user.
    pub apps: WatchedApps,
    /// Apps whose next launch is to be learned.
    pub to_learn: usize,
}

/// Apps that are managed from their first launch on: their records then, by id.
#[derive(Default)]
struct Candidates {
    /// Apps with .desktop entries.
    in_menus: BTreeMap<String, Record>,
    /// Apps with profiles from elsewhere, which may be in menus, too.
    seeded: BTreeMap<String, Record>,
}

impl Candidates {
    /// The one of this id. A menu's name says more.
    fn get(&self, id: &str) -> Option<&Record> {
        self.in_menus.get(id).or_else(|| self.seeded.get(id))
    }

    fn all(&self) -> impl Iterator<Item = &Record> {
        let seeded = self.seeded.iter();
        let only_seeded = seeded.filter(|(id, _)| !self.in_menus.contains_key(*id));
        let only_seeded = only_seeded.map(|(_, record)| record);
        self.in_menus.values().chain(only_seeded)
    }
}

/// The programs whose launches matter.
pub struct Watchlist {
    candidates: Candidates,
    /// Whether there may be candidates: entries that were looked for may be found when the mode is another one.
    takes_candidates: bool,
    /// Paths of programs that are no apps, since they start another one by each of their entries in the menus.
    starters: BTreeSet<String>,
    /// Programs that have read much for a user, whose launches alone count.
    probation: BTreeMap<UserApp, Probation>,
}

impl Watchlist {
    /// A list without candidates.
    pub fn new() -> Self {
        Watchlist {
            candidates: Candidates::default(),
            takes_candidates: true,
            starters: BTreeSet::new(),
            probation: BTreeMap::new(),
        }
    }

    /// The record of a user's app that is to be managed from now on because it has a .desktop entry, or a profile from
    /// elsewhere.
    pub fn new_record(&self, key: &UserApp) -> Option<Record> {
        Some(self.candidates.get(&key.id)?.for_user(key.uid))
    }

    /// From now on, these programs are no apps.
    pub fn set_starters(&mut self, starters: BTreeSet<String>) {
        self.probation.retain(|key, _| !starters.contains(&key.id));
        self.starters = starters;
    }

    /// Whether the program of this path is no app, since it starts others.
    pub fn is_starter(&self, id: &str) -> bool {
        self.starters.contains(id)
    }

    /// Whether the program is on probation for this user.
    pub fn is_on_probation(&self, key: &UserApp) -> bool {
        self.probation.contains_key(key)
    }

    /// From now on, apps with .desktop entries are candidates.
    pub fn take_candidates(&mut self) {
        self.takes_candidates = true;
    }

    /// Replaces the apps with .desktop entries, unless there are to be none. Other programs on probation stay.
    pub fn set_desktop_apps(&mut self, found: Vec<Record>) {
        if !self.takes_candidates {
            return;
        }
        self.candidates.in_menus = by_id(found);
        self.end_probation_of_candidates();
    }

    /// Replaces the apps of which a profile was learned elsewhere, unless there are to be none.
    pub fn set_seeded_apps(&mut self, found: Vec<Record>) {
        if !self.takes_candidates {
            return;
        }
        self.candidates.seeded = by_id(found);
        self.end_probation_of_candidates();
    }

    fn end_probation_of_candidates(&mut self) {
        let candidates = &self.candidates;
        self.probation
            .retain(|key, _| candidates.get(&key.id).is_none());
    }

    /// Removes all candidates, and takes no more: in manual mode, no app is managed that nobody has named.
    pub fn clear_candidates(&mut self) {
        self.takes_candidates = false;
        self.candidates = Candidates::default();
        self.probation.clear();
    }

    /// Has this catalogue recognise the apps that matter now.
    pub fn refresh(&mut self, catalogue: &mut Catalogue, registry: &Registry) {
        // Programs on probation that somebody has named meanwhile are managed from their next launch on.
        self.probation.retain(|key, _| {
            !registry.records.contains_key(key) && registry.named_for_all(key).is_none()
        });
        // The apps of several users are recognised alike.
        let records = records(registry, &self.candidates, &self.probation);
        let by_id: BTreeMap<&str, &Record> = records
            .map(|record| (record.key.id.as_str(), record))
            .collect();
        catalogue.refresh(by_id.into_values());
    }

    /// What the kernel is to watch for. Each user's apps are watched for in his launches alone, and recorded as he has them to
    /// be learned; candidates, and apps that are named for all, in the launches of everybody else, and recorded until
    /// somebody has launched them. (Otherwise a recorder would wait for ever: most apps have no user who has not launched
    /// them yet and will. Such a user's first launch is learned a moment late.) Nothing is recorded of users of whom
    /// `may_learn` says no.
    pub fn watched(
        &self,
        catalogue: &Catalogue,
        registry: &Registry,
        may_learn: impl Fn(u32) -> bool,
    ) -> WatchedPrograms {
        let mut apps = WatchedApps::default();
        let mut to_learn = 0;
        let users = registry.records.keys().filter(|key| key.uid != EVERY_USER);
        let launched: HashSet<&str> = users.map(|key| key.id.as_str()).collect();
        for record in records(registry, &self.candidates, &self.probation) {
            let (uid, marks) = (record.key.uid, &record.marks);
            let is_new = uid != EVERY_USER || !launched.contains(record.key.id.as_str());
            let is_awaited = !self.is_on_probation(&record.key) && !is_login(&record.key);
            let recorded = record.is_to_learn() && is_new && is_awaited && may_learn(uid);
            to_learn += usize::from(recorded);
            let id = &record.key.id;
            // A script may be executed itself, too.
            let own = id
                .strip_prefix('/')
                .and_then(|path| path.rsplit('/').next());
            let (own, launchers): (Vec<String>, _) = match &marks.argument {
                None => (marks.names.clone(), &marks.interpreters),
                // A launcher may have a directory with a link of each app's name: the name alone tells the app.
                Some(argument) => {
                    let own = own.or_else(|| marks.names.contains(argument).then_some(argument));
                    (own.map(str::to_owned).into_iter().collect(), &marks.names)
                }
            };
            let own = catalogue.names_of(id, &own).into_iter();
            let own = own.map(|name| (name, WatchedName::App { recorded }));
            let launchers = launchers.iter().cloned();
            let launchers = launchers.map(|name| (name, WatchedName::Launcher));
            for (name, wanted) in own.chain(launchers) {
                let text = OsString::from(name);
                let known = apps.names.entry(Watched { uid, text }).or_insert(wanted);
                *known = known.or(wanted);
            }
            // A user's links are names in his own launches.
            for (user, name) in catalogue.own_names_of(id) {
                if marks.argument.is_none() && (uid == EVERY_USER || uid == *user) {
                    let own = Watched {
                        uid: *user,
                        text: OsString::from(name),
                    };
                    let wanted = WatchedName::App { recorded };
                    let known = apps.names.entry(own).or_insert(wanted);
                    *known = known.or(wanted);
                }
            }
            for text in marks.arguments(id) {
                *apps.arguments.entry(Watched { uid, text }).or_default() |= recorded;
            }
        }
        // The kernel goes by a user's own entry alone, where there is one.
        let of_all = |name: &Watched| {
            let uid = EVERY_USER;
            let text = name.text.clone();
            apps.names.get(&Watched { uid, text }).copied()
        };
        let both = apps.names.iter();
        let both = both.filter_map(|(name, own)| Some((name.clone(), own.or(of_all(name)?))));
        let both: Vec<_> = both.collect();
        apps.names.extend(both);
        WatchedPrograms { apps, to_learn }
    }

    /// Whether a program may be put on probation: it is neither a candidate nor on probation yet, and there are not
    /// too many.
    pub fn has_room_for(&self, key: &UserApp) -> bool {
        let of_user = self.probation.keys().filter(|other| other.uid == key.uid);
        self.probation.len() < MOST_ON_PROBATION
            && of_user.count() < MOST_OF_A_USER
            && !self.probation.contains_key(key)
            && self.candidates.get(&key.id).is_none()
            && !self.is_starter(&key.id)
    }

    /// Puts a program on probation, of which a process had read much when it exited and which may become an app
    /// ([`super::discovery`]). False if there is no room.
    pub fn begin_probation(&mut self, key: &UserApp) -> bool {
        if !self.has_room_for(key) {
            return false;
        }
        let name = key.id.rsplit('/').next().unwrap_or(&key.id).to_owned();
        let marks = Marks {
            names: vec![name.clone()],
            ..Marks::default()
        };
        let probation = Probation {
            record: Record::new(key.clone(), name, Added::Discovered, marks),
            alike: 0,
            unlike: 0,
        };
        self.probation.insert(key.clone(), probation);
        true
    }

    /// Weighs a launch of a program on probation.
    pub fn weigh(
        &mut self,
        key: &UserApp,
        counts: &LaunchCounts,
        wanted: &AutomaticConfig,
    ) -> ProbationVerdict {
        // Warm launches read next to nothing and show nothing.
        let shows = counts.waits_counted && counts.bytes >= WARM_BYTES;
        let Some(probation) = self.probation.get_mut(key).filter(|_| shows) else {
            return ProbationVerdict::Undecided;
        };
        let waiting_ms = counts.waiting_ns / 1_000_000;
        if counts.bytes >> 20 >= wanted.min_read_mib && waiting_ms >= wanted.min_wait_ms {
            probation.alike += 1;
        } else {
            probation.alike = 0;
            probation.unlike += 1;
        }
        let (is_app, is_none) = (
            probation.alike >= wanted.launches,
            probation.unlike > PATIENCE,
        );
        if !is_app && !is_none {
            return ProbationVerdict::Undecided;
        }
        match self.probation.remove(key) {
            Some(probation) if is_app => ProbationVerdict::App(Box::new(probation.record)),
            _ => ProbationVerdict::NoApp,
        }
    }
}

/// The records of all apps that matter: a user's, those that are named for all users, candidates and those on probation.
fn records<'a>(
    registry: &'a Registry,
    candidates: &'a Candidates,
    probation: &'a BTreeMap<UserApp, Probation>,
) -> impl Iterator<Item = &'a Record> {
    let on_probation = probation.values().map(|probation| &probation.record);
    (registry.records.values())
        .chain(candidates.all())
        .chain(on_probation)
}

/// Records by the ids of their apps.
fn by_id(records: Vec<Record>) -> BTreeMap<String, Record> {
    let by_id = |record: Record| (record.key.id.clone(), record);
    records.into_iter().map(by_id).collect()
}

/// What the .desktop entries show.
pub struct FoundEntries {
    /// The apps.
    pub apps: Vec<Record>,
    /// Paths of programs that start another app by each of their entries.
    pub starters: BTreeSet<String>,
}

/// The apps with .desktop entries. Reads many files.
pub fn desktop_apps(rules: &Rules) -> FoundEntries {
    let entries = desktop::entries(&desktop::system_directories(), rules, OsStr::new(PATH));
    let record = |entry: desktop::MenuEntry| match entry.app {
        Ok(app) => Record::of_installed(&app.identity, app.name, &app.names, Added::Desktop),
        Err(why) => {
            tracing::debug!(entry = ?entry.file, "left out: {why}");
            None
        }
    };
    let starters = entries.iter().filter_map(|entry| entry.starter.as_ref());
    let starters = starters.filter_map(|program| Some(program.to_str()?.to_owned()));
    FoundEntries {
        starters: starters.collect(),
        apps: entries.into_iter().filter_map(record).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::ProbationVerdict::{App, NoApp, Undecided};
    use super::*;
    use crate::model::DriveClass;
    use crate::policy::Managed;
    use crate::profile::generate::sample;
    use crate::service::located_executables::LocatedExecutable;
    use crate::service::login;
    use crate::service::roots::Roots;

    fn catalogue() -> Catalogue {
        Catalogue::new(Rules::builtin(), Roots::new((1, 2), 7))
    }

    const USER: u32 = 1000;

    fn app(id: &str) -> UserApp {
        UserApp::new(USER, id)
    }

    #[test]
    fn launches_of_an_app_are_large_and_slow_and_in_a_row_and_of_one_user() {
        let wanted = AutomaticConfig::default();
        let (large, slow) = (wanted.min_read_mib << 20, wanted.min_wait_ms);
        let mut watchlist = Watchlist::new();
        let mut launch = |key: &UserApp, bytes: u64, waiting_ms: u64| {
            let counts = LaunchCounts {
                bytes,
                waiting_ns: waiting_ms * 1_000_000,
                waits_counted: true,
                ..LaunchCounts::default()
            };
            watchlist.begin_probation(key);
            watchlist.weigh(key, &counts, &wanted)
        };
        let (large_app, tool) = (app("/usr/bin/app"), app("/usr/bin/tool"));
        for (bytes, waiting_ms) in [(large, slow), (0, 0), (large, slow - 1), (large - 1, slow)] {
            assert_eq!(launch(&large_app, bytes, waiting_ms), Undecided);
        }
        for _ in 1..wanted.launches {
            assert_eq!(launch(&large_app, large, slow), Undecided);
            let others = UserApp::new(USER + 1, large_app.id.as_str());
            assert_eq!(launch(&others, large, slow), Undecided);
        }
        let App(record) = launch(&large_app, large, slow) else {
            panic!("no app")
        };
        assert_eq!((&record.key, record.added), (&large_app, Added::Discovered));
        for _ in 0..PATIENCE {
            assert_eq!(launch(&tool, WARM_BYTES, 0), Undecided);
            assert_eq!(launch(&tool, WARM_BYTES - 1, 0), Undecided);
        }
        assert_eq!(launch(&tool, WARM_BYTES, 0), NoApp);
        let left: Vec<u32> = watchlist.probation.keys().map(|key| key.uid).collect();
        assert_eq!(left, [USER + 1]);
    }

    #[test]
    fn few_programs_are_on_probation_and_fewer_of_one_user() {
        let mut watchlist = Watchlist::new();
        let of = |user: usize, program: usize| {
            UserApp::new(USER + user as u32, format!("/usr/bin/{program}"))
        };
        for program in 0..MOST_OF_A_USER {
            assert!(watchlist.begin_probation(&of(0, program)));
        }
        assert!(!watchlist.begin_probation(&of(0, MOST_OF_A_USER)));
        for program in MOST_OF_A_USER..MOST_ON_PROBATION {
            assert!(watchlist.begin_probation(&of(program, program)));
        }
        let another = of(MOST_ON_PROBATION, 0);
        assert!(!watchlist.begin_probation(&another));
        watchlist.probation.remove(&of(0, 0));
        assert!(!watchlist.begin_probation(&of(0, 1)), "it is already");
        assert!(watchlist.begin_probation(&another));
    }

    #[test]
    fn a_discovered_app_outlives_new_desktop_entries_while_it_is_on_probation() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(dir.path()).unwrap();
        let mut watchlist = Watchlist::new();
        watchlist.begin_probation(&app("/usr/bin/a"));
        watchlist.set_desktop_apps(vec![desktop("/usr/bin/b")]);
        watchlist.set_desktop_apps(vec![desktop("/usr/bin/c")]);
        assert!(watchlist.is_on_probation(&app("/usr/bin/a")));
        assert_eq!(
            watchlist
                .watched(&catalogue(), &registry, |_| true)
                .to_learn,
            1
        );
    }

    #[test]
    fn no_recorder_waits_for_a_login() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let login = login::record(USER);
        assert!(login.is_to_learn());
        registry.insert(login);
        let watched = Watchlist::new().watched(&catalogue(), &registry, |_| true);
        assert_eq!(watched, WatchedPrograms::default());
    }

    #[test]
    fn apps_with_profiles_from_elsewhere_are_candidates_beside_those_of_menus() {
        let mut watchlist = Watchlist::new();
        let seeded = |id| Record {
            added: Added::Imported,
            ..desktop(id)
        };
        let added = |watchlist: &Watchlist, id| Some(watchlist.new_record(&app(id))?.added);
        watchlist.set_seeded_apps(vec![seeded("/a"), seeded("/b")]);
        watchlist.set_desktop_apps(vec![desktop("/a")]);
        assert_eq!(added(&watchlist, "/a"), Some(Added::Desktop));
        assert_eq!(added(&watchlist, "/b"), Some(Added::Imported));
        watchlist.set_seeded_apps(vec![seeded("/a")]);
        assert_eq!(added(&watchlist, "/a"), Some(Added::Desktop));
        assert_eq!(added(&watchlist, "/b"), None);
        // The menu does not have it any more, and the profile is still there.
        watchlist.set_desktop_apps(Vec::new());
        assert_eq!(added(&watchlist, "/a"), Some(Added::Imported));
        watchlist.clear_candidates();
        watchlist.set_seeded_apps(vec![seeded("/a")]);
        assert_eq!(added(&watchlist, "/a"), None);
    }

    #[test]
    fn entries_that_are_found_when_there_are_to_be_none_make_no_candidates() {
        let mut watchlist = Watchlist::new();
        watchlist.clear_candidates();
        watchlist.set_desktop_apps(vec![desktop("/usr/bin/a")]);
        assert_eq!(watchlist.new_record(&app("/usr/bin/a")), None);
        watchlist.take_candidates();
        watchlist.set_desktop_apps(vec![desktop("/usr/bin/a")]);
        assert!(watchlist.new_record(&app("/usr/bin/a")).is_some());
    }

    #[test]
    fn a_program_that_starts_others_is_not_put_on_probation() {
        let mut watchlist = Watchlist::new();
        assert!(watchlist.begin_probation(&app("/usr/bin/starter")));
        watchlist.set_starters(["/usr/bin/starter".to_owned()].into());
        assert!(!watchlist.is_on_probation(&app("/usr/bin/starter")));
        assert!(!watchlist.begin_probation(&app("/usr/bin/starter")));
        assert!(watchlist.is_starter("/usr/bin/starter") && !watchlist.is_starter("/usr/bin/a"));
        assert!(watchlist.begin_probation(&app("/usr/bin/a")));
    }

    #[test]
    fn a_program_that_is_named_is_on_probation_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let mut watchlist = Watchlist::new();
        for id in ["/usr/bin/a", "/usr/bin/b", "/usr/bin/c"] {
            assert!(watchlist.begin_probation(&app(id)));
        }
        // One for all users, one for this user, one for another.
        registry.insert(desktop("/usr/bin/a"));
        registry.insert(desktop("/usr/bin/b").for_user(USER));
        registry.insert(desktop("/usr/bin/c").for_user(USER + 1));
        watchlist.refresh(&mut catalogue(), &registry);
        let left: Vec<&str> = watchlist.probation.keys().map(|key| &*key.id).collect();
        assert_eq!(left, ["/usr/bin/c"]);
    }

    fn desktop(id: &str) -> Record {
        let key = UserApp::new(EVERY_USER, id);
        let marks = Marks {
            names: vec![id.rsplit('/').next().unwrap().to_owned()],
            ..Marks::default()
        };
        Record::new(key, "App".into(), Added::Desktop, marks)
    }

    fn watched(uid: u32, text: &str) -> Watched {
        let text = text.into();
        Watched { uid, text }
    }

    #[test]
    fn each_users_launches_are_watched_for_and_recorded_as_his_apps_are_to_be_learned() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let mut watchlist = Watchlist::new();
        watchlist.set_desktop_apps(vec![desktop("/a"), desktop("/b"), desktop("/c")]);
        let history = sample("/a").history;
        let learned = Managed::with_profile(DriveClass::CommandQueuing, &history);
        for (uid, id, managed) in [
            (1, "/a", learned.clone()),
            (1, "/b", learned),
            (2, "/b", Managed::default()),
        ] {
            let mut record = desktop(id).for_user(uid);
            record.managed = managed;
            registry.insert(record);
        }
        watchlist.begin_probation(&UserApp::new(3, "/e"));
        let WatchedPrograms { apps, to_learn } =
            watchlist.watched(&catalogue(), &registry, |_| true);
        let expected = [
            (1, "a", false),
            (1, "b", false),
            (2, "b", true),
            (3, "e", false),
            // Somebody has launched the first two.
            (EVERY_USER, "a", false),
            (EVERY_USER, "b", false),
            (EVERY_USER, "c", true),
        ];
        let expected = expected
            .map(|(uid, name, recorded)| (watched(uid, name), WatchedName::App { recorded }));
        assert_eq!(apps.names, expected.into_iter().collect());
        assert_eq!(to_learn, 2);
        assert!(apps.arguments.is_empty());
    }

    #[test]
    fn users_links_are_names_in_their_own_launches() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let mut watchlist = Watchlist::new();
        let mut catalogue = catalogue();
        watchlist.set_desktop_apps(vec![desktop("/a"), desktop("/b")]);
        registry.insert(desktop("/b").for_user(1));
        watchlist.refresh(&mut catalogue, &registry);
        let own_names = [1, 2].map(|uid| (uid, "link".to_owned()));
        let located = LocatedExecutable {
            path: "/b".into(),
            inode: (7, 8),
            links: Vec::new(),
            is_many_apps: false,
            own_names: own_names.into(),
        };
        catalogue.located([("/b".to_owned(), located)].into());
        let apps = watchlist.watched(&catalogue, &registry, |_| true).apps;
        let expected = [
            (EVERY_USER, "a", true),
            (EVERY_USER, "b", false),
            (1, "b", true),
            (1, "link", true),
            (2, "link", false),
        ];
        let expected = expected
            .map(|(uid, name, recorded)| (watched(uid, name), WatchedName::App { recorded }));
        assert_eq!(apps.names, expected.into());
    }

    #[test]
    fn scripts_are_watched_for_by_the_arguments_of_their_launchers() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let marks = |argument: Option<&str>| Marks {
            names: vec!["python3".to_owned()],
            argument: argument.map(str::to_owned),
            ..Marks::default()
        };
        let script = UserApp::new(USER, "/opt/a.py");
        registry.insert(Record::new(
            script,
            String::new(),
            Added::User,
            marks(Some("/opt/a.py")),
        ));
        let list = Watchlist::new();
        let apps = list.watched(&catalogue(), &registry, |_| true).apps;
        let launcher = WatchedName::Launcher;
        let app = WatchedName::App { recorded: true };
        // It may be executed itself, too.
        let names = [
            (watched(USER, "python3"), launcher),
            (watched(USER, "a.py"), app),
        ];
        assert_eq!(apps.names, names.into());
        let arguments = ["/opt/a.py", "a.py", "./a.py", "opt/a.py", "./opt/a.py"];
        let arguments = arguments.map(|text| (watched(USER, text), true));
        assert_eq!(apps.arguments, arguments.into());
        // A name that is both is an app's.
        let python = UserApp::new(USER, "/usr/bin/python3");
        registry.insert(Record::new(python, String::new(), Added::User, marks(None)));
        let apps = list.watched(&catalogue(), &registry, |_| true).apps;
        let names = ["python3", "a.py"].map(|name| (watched(USER, name), app));
        assert_eq!(apps.names, names.into());
    }

    #[test]
    fn a_script_that_can_be_executed_is_watched_for_by_the_arguments_of_its_interpreters_too() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let marks = Marks {
            names: vec!["tool".to_owned()],
            interpreters: vec!["python3".to_owned()],
            argument: None,
        };
        let script = UserApp::new(USER, "/opt/tool");
        registry.insert(Record::new(script, String::new(), Added::Owner, marks));
        let apps = Watchlist::new()
            .watched(&catalogue(), &registry, |_| true)
            .apps;
        let app = WatchedName::App { recorded: true };
        let launcher = WatchedName::Launcher;
        let names = [
            (watched(USER, "python3"), launcher),
            (watched(USER, "tool"), app),
        ];
        assert_eq!(apps.names, names.into());
        let given = ["/opt/tool", "tool", "./tool", "opt/tool", "./opt/tool"];
        assert_eq!(
            apps.arguments,
            given.map(|text| (watched(USER, text), true)).into()
        );
    }
    /// As `/snap/bin/x` is, beside `snap run x`.
    #[test]
    fn a_launchers_link_with_the_name_of_the_app_is_watched_for_as_the_app() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let marks = Marks {
            names: vec!["x".to_owned(), "snap".to_owned()],
            argument: Some("x".to_owned()),
            ..Marks::default()
        };
        let snap = UserApp::new(USER, "snap:x");
        registry.insert(Record::new(snap, String::new(), Added::Owner, marks));
        let apps = Watchlist::new()
            .watched(&catalogue(), &registry, |_| true)
            .apps;
        let names = [
            (watched(USER, "snap"), WatchedName::Launcher),
            (watched(USER, "x"), WatchedName::App { recorded: true }),
        ];
        assert_eq!(apps.names, names.into());
        assert_eq!(apps.arguments, [(watched(USER, "x"), true)].into());
    }
}
