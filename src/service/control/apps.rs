//! The managed apps, as the calls name and show them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{FileType, OFlags, fstat};

use super::types::AppState;
use super::{Answer, ControlError};
use crate::apps::{Rules, desktop};
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;
use crate::fs::safe_open::{self, may};
use crate::fs::visible::VisibleNames;
use crate::model::UserApp;
use crate::policy::{DecisionReason, Phase};
use crate::service::cached_profile::CachedProfile;
use crate::service::dictionary::word;
use crate::service::discovery::{check_kind, check_named, is_public};
use crate::service::history::{History, Typical};
use crate::service::located_executables::PATH;
use crate::service::login;
use crate::service::managed_apps::{off_reason, reason_text};
use crate::service::registry::{Added, EVERY_USER, Record, Registry};

/// The records that are a user's, or all: the administrator's.
fn of_user(registry: &Registry, user: Option<u32>) -> impl Iterator<Item = &Record> {
    let is_theirs = move |record: &&Record| user.is_none_or(|uid| record.key.uid == uid);
    registry.records.values().filter(is_theirs)
}

/// The managed apps that are meant by a name: one app, of one user or of all who have launched it. It is named by its
/// id, the last component of its path, or its title.
pub(super) fn find(registry: &Registry, user: Option<u32>, name: &str) -> Answer<Vec<UserApp>> {
    let ways: [fn(&Record, &str) -> bool; 3] = [
        |record, name| record.key.id == name,
        |record, name| record.key.id.rsplit('/').next() == Some(name),
        |record, name| record.title.eq_ignore_ascii_case(name),
    ];
    for fits in ways {
        let fitting = of_user(registry, user).filter(|record| fits(record, name));
        let found: Vec<UserApp> = fitting.map(|record| record.key.clone()).collect();
        let ids: BTreeSet<&str> = found.iter().map(|key| key.id.as_str()).collect();
        match ids.len() {
            0 => {}
            1 => return Ok(found),
            _ => {
                let ids: Vec<&str> = ids.into_iter().collect();
                return Err(ControlError::Refused(format!(
                    "{name} may be any of {}; give the whole path",
                    ids.join(", ")
                )));
            }
        }
    }
    Err(ControlError::Unknown(format!(
        "{name} is not managed (`paralfetch list` shows what is, `paralfetch enable` adds to it)"
    )))
}

/// The id of the app that is meant, if one is.
pub(super) fn id_of(
    registry: &Registry,
    user: Option<u32>,
    app: Option<&str>,
) -> Answer<Option<String>> {
    let found = app.map(|app| find(registry, user, app)).transpose()?;
    Ok(found.map(|found| found[0].id.clone()))
}

/// Has apps managed that were named: those `found`, and for this user, or for all, one more if he has none of them, of
/// which `new` is the record if none is known. Returns all of them.
pub(super) fn manage(
    registry: &mut Registry,
    user: Option<u32>,
    is_administrator: bool,
    mut found: Vec<UserApp>,
    new: Option<Record>,
) -> Vec<UserApp> {
    let uid = user.unwrap_or(EVERY_USER);
    if !found.iter().any(|key| key.uid == uid) {
        let known = found.first().and_then(|key| registry.records.get(key));
        if let Some(record) = known.or(new.as_ref()) {
            let record = record.for_user(uid);
            found.push(record.key.clone());
            registry.records.entry(record.key.clone()).or_insert(record);
        }
    }
    for key in &found {
        // Whatever has made it managed, the administrator has named it now.
        if is_administrator && let Some(record) = registry.records.get_mut(key) {
            record.added = Added::User;
        }
    }
    found
}

/// The record of an app that is installed and not managed so far; `user` asks, `None`: the administrator. An ordinary user
/// may name those that everybody sees, and programs of his own: the answer tells him nothing about the files of others.
/// Opens files.
pub(super) fn new_record(app: &str, rules: &Rules, user: Option<u32>) -> Answer<Record> {
    let mounts = MountTable::read().map_err(ControlError::failed)?;
    let is_path = app.starts_with('/');
    let (mut record, file) = match user {
        Some(uid) if is_path && !is_public(Path::new(app), &mounts) => {
            let (record, file) = own_record(app, rules, uid, &mounts)?;
            (record, Some(file))
        }
        _ => {
            if is_path && let Err(error) = LocalFile::find(Path::new(app), &mounts) {
                // What a server or a user-space process answers for would keep this thread, and all who wait for it. That
                // there is no such file is said below, with what to do.
                if error.kind() != io::ErrorKind::NotFound {
                    return Err(ControlError::Unknown(format!(
                        "{app} cannot be looked at: {error}"
                    )));
                }
            }
            let record = installed_record(app, rules, user.is_none(), &mounts)?;
            let file = LocalFile::find(Path::new(&record.key.id), &mounts);
            (record, file.ok())
        }
    };
    if record.marks.argument.is_none()
        && let Some(begin) = file.as_ref().and_then(first_bytes)
    {
        if lacks_interpreter(&begin) {
            let why = "it is a script whose first line names no interpreter, so that shells run it themselves: let it begin \
                       with #!/bin/sh, or the like";
            return Err(unseen(app, why));
        }
        let name = interpreter_of(&begin);
        let names = name.map(|name| rules.interpreter_names(&name));
        record.marks.interpreters = names.unwrap_or_default();
    }
    match record.marks.objection(&record.key.id) {
        Some(why) => Err(unseen(app, &why)),
        None => Ok(record),
    }
}

/// The answer for an app whose launches would not be recognised.
fn unseen(app: &str, why: &str) -> ControlError {
    ControlError::Refused(format!("launches of {app} cannot be seen: {why}"))
}

/// Bytes of a script's first line that the kernel reads (BINPRM_BUF_SIZE).
const LONGEST_FIRST_LINE: u64 = 256;

/// The first bytes of a program; `None` if it cannot be read without waiting for somebody else.
fn first_bytes(file: &LocalFile) -> Option<Vec<u8>> {
    let (opened, _) = safe_open::regular(&file.fd, OFlags::NONBLOCK | OFlags::NOCTTY).ok()??;
    let mut begin = Vec::new();
    File::from(opened)
        .take(LONGEST_FIRST_LINE)
        .read_to_end(&mut begin)
        .ok()?;
    Some(begin)
}

/// Whether a program that begins so is a text that the kernel has no interpreter for. What binfmt_misc knows is no text.
fn lacks_interpreter(begin: &[u8]) -> bool {
    !begin.is_empty() && !begin.starts_with(b"#!") && !begin.contains(&0)
}

/// The base name of the interpreter in a script's first line, behind env(1) and its options.
fn interpreter_of(begin: &[u8]) -> Option<String> {
    let line = begin
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let line = std::str::from_utf8(line).ok()?;
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut words = line.split_whitespace();
    let first = base(words.next()?);
    match first.as_str() {
        "env" => words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .map(base),
        _ => Some(first),
    }
}

/// The record of a program of the user's own, such as a game or an AppImage in his home, and its file. It is known by the path
/// that he names: behind a link such as `current` lies another version after each update. Goes no way that he could not go,
/// and looks no name up that a server or a user-space process would have to answer for.
fn own_record(
    app: &str,
    rules: &Rules,
    uid: u32,
    mounts: &MountTable,
) -> Answer<(Record, LocalFile)> {
    let unknown = || {
        ControlError::Unknown(format!(
            "{app} is not managed, and is neither installed for all users nor a program of your own on a local file \
             system: the administrator can enable it"
        ))
    };
    let may_search =
        |fd: &OwnedFd| fstat(fd).is_ok_and(|found| may(fd, &found, uid, safe_open::SEARCH));
    let found = LocalFile::find_through(Path::new(app), mounts, may_search);
    let found = found.map_err(|_| unknown())?;
    let stat = fstat(&found.fd).map_err(|_| unknown())?;
    let is_his = found.node.kind == FileType::RegularFile && stat.st_uid == uid;
    if !is_his || !VisibleNames::new(uid, mounts).may_know(&found.path) {
        return Err(unknown());
    }
    let refused = |why: &str| ControlError::Refused(format!("{app}: {why}"));
    // His command has read it already, and has asked for what it starts.
    if found.path.file_name().is_some_and(desktop::is_entry_name) {
        return Err(refused(
            "entries in your home can name programs only, your own or those of all users, and not what a launcher such as java \
             or wine starts: an entry for all users (/usr/local/share/applications) can",
        ));
    }
    if stat.st_mode & 0o111 == 0 {
        return Err(refused(
            "it cannot be executed: name the program that is, or make it one (chmod +x)",
        ));
    }
    // Behind a link, ".." is not where the text says.
    let named = Path::new(app).components();
    let path = match named.clone().any(|part| part == Component::ParentDir) {
        true => found.path.clone(),
        false => named.collect(),
    };
    check_kind(&path, &found, rules).map_err(|why| refused(&why))?;
    let argv = [path.clone().into_os_string()];
    let identity = rules.identify(&path, &argv, Path::new("/"));
    let own = path.file_name().unwrap_or_default();
    let title = own.to_string_lossy().into_owned();
    let record = Record::of_installed(&identity, title, &found.names, Added::Owner);
    let record = record.ok_or_else(|| refused("its path is not UTF-8"))?;
    Ok((record, found))
}

fn installed_record(
    app: &str,
    rules: &Rules,
    is_administrator: bool,
    mounts: &MountTable,
) -> Answer<Record> {
    let added = match is_administrator {
        true => Added::User,
        false => Added::Owner,
    };
    let path = OsStr::new(PATH);
    let entries = desktop::entries(&desktop::system_directories(), rules, path);
    let found =
        desktop::find_app(OsStr::new(app), &entries, rules, path).map_err(ControlError::Unknown)?;
    let is_in_menus = entries.iter().any(|entry| {
        let of_entry = entry.app.as_ref();
        of_entry.is_ok_and(|app| app.identity.key == found.identity.key)
    });
    if !is_administrator && found.identity.is_program() && !is_in_menus {
        check_named(&found.identity.program, rules, mounts).map_err(|why| {
            ControlError::Refused(format!(
                "{app}: {why}; only the administrator can enable it"
            ))
        })?;
    }
    let record = Record::of_installed(&found.identity, found.name, &found.names, added)
        .ok_or_else(|| ControlError::Refused(format!("{app}: its path is not UTF-8")))?;
    let marks = &record.marks;
    match marks.objection_to_entry(&record.key.id, &found.arguments) {
        // Why it is too long comes first: a whole path would not help.
        Some(why) if marks.objection(&record.key.id).is_none() => Err(unseen(app, &why)),
        _ => Ok(record),
    }
}

/// What is said of an app that is not learned yet, and prefetched all the same.
const SEEDED: &str = "prefetched by an imported profile meanwhile";

pub(super) fn state_of(record: &Record, profile: Option<&CachedProfile>) -> AppState {
    let unclear = || profile?.unclear.clone();
    let (phase, why) = match record.managed.phase() {
        Phase::Learning { .. } => {
            let objection = record.marks.objection(&record.key.id);
            let why = objection.map(|why| format!("its launches cannot be seen: {why}"));
            // That somebody has asked for it hinders nothing.
            let again = record.managed.learned_again_for();
            let again = again.filter(|&reason| reason != DecisionReason::Asked);
            let seeded = profile.filter(|profile| profile.is_imported);
            let seeded = seeded.map(|_| SEEDED.to_owned());
            let why = why.or_else(|| again.map(reason_text)).or(seeded);
            ("learning", why.unwrap_or_default())
        }
        Phase::Prefetching => ("prefetching", unclear().unwrap_or_default()),
        Phase::Disabled { off, .. } => ("disabled", off_reason(off)),
    };
    let times = record.managed.typical_times();
    AppState {
        uid: record.key.uid,
        app: record.key.id.clone(),
        name: record.title.clone(),
        phase: phase.to_owned(),
        why,
        added_by: word(record.added),
        launches: record.launches,
        last_s: record.last_s.last().copied(),
        prefetched: record.prefetched,
        cold_with_us: times.with_us,
        cold_without_us: times.without_us,
        gain_percent: times.saved_percent(),
        profile_bytes: profile.map_or(0, |profile| profile.packed.len() as u64),
        entries: profile.map_or(0, |profile| profile.entries),
        ..AppState::default()
    }
}

/// The managed apps that are meant, or all of this user or of all users, as far as the registry and their profiles
/// tell.
pub(super) fn states<'a>(
    registry: &Registry,
    user: Option<u32>,
    app: Option<&str>,
    profile: impl Fn(&UserApp) -> Option<&'a CachedProfile>,
) -> Answer<Vec<AppState>> {
    let state = |record: &Record| state_of(record, profile(&record.key));
    let Some(app) = app else {
        return Ok(of_user(registry, user).map(state).collect());
    };
    let found = find(registry, user, app)?.into_iter();
    Ok(found.map(|key| state(&registry.records[&key])).collect())
}

/// Says of logins that they are left alone, by the configuration.
pub(super) fn logins_are_off(apps: &mut [AppState]) {
    for app in apps.iter_mut().filter(|app| app.app == login::ID) {
        app.why = "logins are left alone: warm_up.login or warm_up.enabled is false".to_owned();
    }
}

/// Adds what the history knows of the apps' launches.
pub(super) fn add_times(mut apps: Vec<AppState>, history: &History) -> Answer<Vec<AppState>> {
    let waiting = |typical: Option<Typical>| typical?.waiting_us;
    for app in &mut apps {
        let key = UserApp::new(app.uid, app.app.as_str());
        let summary = history.summary(&key).map_err(ControlError::failed)?;
        let beside_writes = history.launches_beside_writes(&key);
        app.beside_writes = beside_writes.map_err(ControlError::failed)?;
        let anticipated = history.anticipated(Some(key.uid), Some(&key.id));
        (app.anticipated, app.anticipated_saved_us) = anticipated.map_err(ControlError::failed)?;
        app.waiting_with_us = waiting(summary.with);
        app.waiting_without_us = waiting(summary.without);
        let took = |typical: Option<Typical>| typical?.duration_us;
        app.duration_us = took(summary.with).or(took(summary.without));
    }
    Ok(apps)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::policy::{Managed, Observation, PhaseRequest};
    use crate::profile::generate::sample;
    use crate::service::marks::Marks;

    /// A user who has no file in these tests.
    const STRANGER: u32 = 54_321;

    #[test]
    fn logins_that_are_left_alone_say_so_and_no_app_does() {
        let of_app = Record::new(
            UserApp::new(STRANGER, "/a"),
            "A".into(),
            Added::Desktop,
            Marks::default(),
        );
        let records = [login::record(STRANGER), of_app];
        let mut apps: Vec<AppState> = records
            .iter()
            .map(|record| state_of(record, None))
            .collect();
        assert_eq!((&*apps[0].name, &*apps[0].added_by), ("login", "login"));
        logins_are_off(&mut apps);
        assert!(apps[0].why.contains("warm_up.login"), "{apps:?}");
        assert_eq!(apps[1].why, "");
    }

    #[test]
    fn users_manage_programs_of_their_own_and_no_tools_nor_what_cannot_be_seen() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        for (name, mode) in [
            ("game", 0o755),
            ("python3", 0o755),
            ("data", 0o644),
            ("wine.desktop", 0o644),
        ] {
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("game", at("play")).unwrap();
        let uid = fs::metadata(at("game")).unwrap().uid();
        let new = |name: &str| new_record(&at(name), &Rules::builtin(), Some(uid));
        let by_link = new("play").unwrap();
        assert_eq!(
            (&by_link.key.id, by_link.added),
            (&at("play"), Added::Owner)
        );
        assert_eq!(by_link.marks.names, ["play", "game"]);
        assert_eq!(new("game").unwrap().marks.names, ["game"]);
        for (name, part) in [
            ("python3", "starts other programs"),
            ("data", "chmod +x"),
            ("wine.desktop", "can name programs only"),
        ] {
            let Err(ControlError::Refused(why)) = new(name) else {
                panic!("{name}");
            };
            assert!(why.contains(part), "{why}");
        }
        assert!(matches!(new("none"), Err(ControlError::Unknown(_))));
        fs::write(at("game"), "#!/usr/bin/env -S A=b python3 -u\n").unwrap();
        assert_eq!(new("game").unwrap().marks.interpreters, ["python3"]);
        fs::write(at("game"), "echo no first line\n").unwrap();
        let Err(ControlError::Refused(why)) = new("game") else {
            panic!("shells run it");
        };
        assert!(
            why.contains("cannot be seen") && why.contains("#!/bin/sh"),
            "{why}"
        );
    }

    #[test]
    fn a_users_program_is_known_by_the_links_that_he_names_and_no_way_that_is_closed_to_him_is_gone()
     {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        fs::create_dir_all(at("releases/1/bin")).unwrap();
        fs::write(at("releases/1/bin/app"), "").unwrap();
        symlink("releases/1", at("current")).unwrap();
        let set = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        set("releases/1/bin/app", 0o755);
        let uid = fs::metadata(at("current")).unwrap().uid();
        let new = |name: &str| new_record(&at(name), &Rules::builtin(), Some(uid));
        for (named, id) in [
            ("current/bin/app", "current/bin/app"),
            ("./current//bin/app", "current/bin/app"),
            ("releases/1/bin/app", "releases/1/bin/app"),
            ("current/../1/bin/app", "releases/1/bin/app"),
        ] {
            let record = new(named).unwrap();
            assert_eq!(record.key.id, at(id), "{named}");
            assert_eq!(record.marks.names, ["app"]);
        }
        if uid != 0 {
            // What he cannot pass is not passed for him.
            set("releases/1", 0o600);
            assert!(matches!(
                new("current/bin/app"),
                Err(ControlError::Unknown(_))
            ));
            set("releases/1", 0o755);
        }
    }

    #[test]
    fn the_interpreter_of_a_script_is_that_of_its_first_line_behind_env() {
        for (begin, interpreter) in [
            ("#!/usr/bin/python3.11 -u\nx", Some("python3.11")),
            ("#! /opt/venv/bin/python\n", Some("python")),
            ("#!/usr/bin/env perl", Some("perl")),
            ("#!/usr/bin/env", None),
            ("#!", None),
            ("\u{7f}ELF", None),
        ] {
            assert_eq!(
                interpreter_of(begin.as_bytes()).as_deref(),
                interpreter,
                "{begin}"
            );
        }
        let names = |name: &str| Rules::builtin().interpreter_names(name);
        assert_eq!(names("python"), ["python", "python3"]);
        assert_eq!(names("perl"), ["perl"]);
        assert!(names("sh").is_empty() && names("gimp").is_empty() && names("env").is_empty());
    }

    fn unknown(app: &str, is_administrator: bool) -> bool {
        let new = new_record(app, &Rules::none(), (!is_administrator).then_some(1000));
        matches!(new, Err(ControlError::Unknown(_)))
    }

    #[test]
    fn users_learn_nothing_about_files_that_they_do_not_see() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (program, link) = (dir.path().join("program"), dir.path().join("link"));
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/usr/bin/id", &link).unwrap();
        for path in [program.as_path(), &link, &dir.path().join("missing")] {
            let path = path.to_str().unwrap();
            let new = new_record(path, &Rules::none(), Some(STRANGER));
            let expected = format!(
                "{path} is not managed, and is neither installed for all users nor a program of your own on a local file \
                 system: the administrator can enable it"
            );
            assert_eq!(new.err(), Some(ControlError::Unknown(expected)));
        }
        assert!(!unknown(program.to_str().unwrap(), true));
        let public = new_record("/usr/bin/id", &Rules::none(), Some(STRANGER)).unwrap();
        assert_eq!(public.added, Added::Owner);
    }

    #[test]
    fn users_have_no_tool_learned() {
        let new = |app, is_administrator: bool| {
            let user = (!is_administrator).then_some(STRANGER);
            new_record(app, &Rules::builtin(), user)
        };
        // The loader is executed with every program.
        let loader = fs::read_dir("/usr/lib64").unwrap().flatten();
        let mut loader =
            loader.filter_map(|entry| entry.path().into_os_string().into_string().ok());
        let loader = loader.find(|path| path.contains("/ld-linux")).unwrap();
        // Nobody has the loader: it starts what its arguments say.
        assert!(new(&loader, false).is_err() && new(&loader, true).is_err());
        for tool in ["/usr/bin/cat", "cat"] {
            let refused = new(tool, false).err();
            assert!(
                matches!(refused, Some(ControlError::Refused(_))),
                "{tool}: {refused:?}"
            );
            assert!(new(tool, true).is_ok(), "{tool}");
        }
        assert!(new("/usr/bin/su", false).is_err());
        assert!(new("/usr/bin/id", false).is_ok());
    }

    #[test]
    fn an_app_whose_file_systems_are_not_told_apart_says_why_it_is_left_alone() {
        let key = UserApp::new(1, "/usr/bin/a");
        let mut record = Record::new(key, "A".into(), Added::User, Marks::default());
        let mut profile = CachedProfile::load(&sample("/usr/bin/a")).unwrap();
        record.managed = Managed::with_profile(profile.class, &profile.history);
        for unclear in [Some("two have one UUID".to_owned()), None] {
            profile.unclear.clone_from(&unclear);
            let state = state_of(&record, Some(&profile));
            assert_eq!(state.why, unclear.unwrap_or_default());
        }
    }

    #[test]
    fn an_app_that_is_learned_on_request_has_no_reason_and_one_that_is_learned_again_has() {
        let key = UserApp::new(1, "/usr/bin/a");
        let mut record = Record::new(key, "A".into(), Added::User, Marks::default());
        let profile = CachedProfile::load(&sample("/usr/bin/a")).unwrap();
        let known = Managed::with_profile(profile.class, &profile.history);
        let asked = |request| Observation::Asked(request);
        for (managed, observed, has_reason) in [
            (Managed::default(), asked(PhaseRequest::Prefetch), false),
            (known.clone(), asked(PhaseRequest::Learn), false),
            (known, Observation::NewExecutable, true),
        ] {
            record.managed = managed;
            record.managed.next(0, &observed);
            let state = state_of(&record, Some(&profile));
            assert_eq!(state.phase, "learning", "{observed:?}");
            assert_eq!(
                !state.why.is_empty(),
                has_reason,
                "{observed:?}: {}",
                state.why
            );
        }
    }

    #[test]
    fn users_find_and_manage_their_own_apps_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let (one, other) = (UserApp::new(1, "/usr/bin/a"), UserApp::new(2, "/usr/bin/a"));
        let record =
            |key: &UserApp| Record::new(key.clone(), "A".into(), Added::Desktop, Marks::default());
        registry.insert(record(&one));
        registry.insert(record(&other));
        let named = |user| find(&registry, user, "a").unwrap();
        assert!(named(Some(1)).iter().eq([&one]));
        assert!(named(None).iter().eq([&one, &other]));
        let nobodys = |name: &str| find(&registry, Some(3), name).unwrap_err().to_string();
        assert_eq!(nobodys("a"), nobodys("b").replace("b is", "a is"));

        let found = find(&registry, Some(1), "a").unwrap();
        let managed = manage(&mut registry, Some(1), false, found, None);
        assert!(managed.iter().eq([&one]));
        assert_eq!(
            registry.records[&one].added,
            Added::Desktop,
            "his word lifts no limit"
        );
        let found = find(&registry, None, "a").unwrap();
        let all = UserApp::new(EVERY_USER, "/usr/bin/a");
        let managed = manage(&mut registry, None, true, found, None);
        assert_eq!(managed, [one, other, all]);
        assert!(
            registry
                .records
                .values()
                .all(|record| record.added == Added::User)
        );
    }
}
