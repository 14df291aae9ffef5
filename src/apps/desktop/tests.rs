use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::scan::{MAX_ENTRIES, MAX_ENTRY_BYTES};
use super::*;
use crate::model::Key;

/// A system with two application directories and one directory of programs.
struct TestSystem {
    dir: TempDir,
}

impl TestSystem {
    fn with(programs: &[&str]) -> TestSystem {
        let dir = tempfile::tempdir().unwrap();
        for name in ["local", "share", "bin"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for program in programs {
            let path = dir.path().join("bin").join(program);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        TestSystem { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The key of a program.
    fn key(&self, program: &str) -> String {
        self.at("bin").join(program).display().to_string()
    }

    /// A .desktop file with the usual keys, and the lines given.
    fn entry(&self, file: &str, name: &str, lines: &str) {
        let text = format!("[Desktop Entry]\nType=Application\nName={name}\n{lines}\n");
        fs::create_dir_all(self.at(file).parent().unwrap()).unwrap();
        fs::write(self.at(file), text).unwrap();
    }

    fn entries(&self) -> Vec<MenuEntry> {
        let dirs = [self.at("none"), self.at("local"), self.at("share")];
        entries(&dirs, &Rules::builtin(), self.at("bin").as_os_str())
    }

    fn find(&self, query: &str) -> Result<DesktopApp, String> {
        let (entries, path) = (self.entries(), self.at("bin"));
        find_app(
            query.as_ref(),
            &entries,
            &Rules::builtin(),
            path.as_os_str(),
        )
    }
}

/// The apps with their IDs.
fn apps(entries: &[MenuEntry]) -> Vec<(&str, &DesktopApp)> {
    let apps = entries.iter();
    apps.filter_map(|entry| Some((entry.id.as_str(), entry.app.as_ref().ok()?)))
        .collect()
}

/// Holds the entries that are no apps against a table of names and reasons.
#[track_caller]
fn check_left_out(entries: &[MenuEntry], expected: &[(&str, &str)]) {
    for (name, reason) in expected {
        let id = format!("{name}.desktop");
        let left = entries.iter().find(|entry| entry.id == id).unwrap();
        let told = left.app.as_ref().expect_err(name);
        assert!(told.contains(reason), "{name}: {told}");
        assert_eq!(told.lines().count(), 1, "{name}: {told}");
    }
    let left_out = entries.iter().filter(|entry| entry.app.is_err()).count();
    assert_eq!(left_out, expected.len());
}

#[test]
fn applications_are_found_with_what_to_watch() {
    let system = TestSystem::with(&["gimp-2.10", "python3.11", "flatpak", "env"]);
    symlink("gimp-2.10", system.at("bin/gimp")).unwrap();
    symlink("python3.11", system.at("bin/python3")).unwrap();
    system.entry("share/gimp.desktop", "The GIMP", "Exec=env A=b gimp %U");
    system.entry("share/idle.desktop", "IDLE", "Exec=python3 -m idlelib");
    let lines = "Exec=python3 main.py\nPath=/opt/app";
    system.entry("share/app.desktop", "App", lines);
    let flatpak = system.key("flatpak");
    let run = format!("Exec={flatpak} run --branch=stable org.x.Y @@u %U @@");
    system.entry("share/sub/org.x.Y.desktop", "Y", &run);
    // Two levels down: no entry.
    system.entry("share/sub/sub/deep.desktop", "Deep", "Exec=gimp");
    system.entry("share/readme.txt", "Text", "Exec=gimp");

    let entries = system.entries();
    check_left_out(&entries, &[]);
    let python = system.key("python3");
    // GIMP's program is not env, which is executed for many apps.
    let gimp = system.key("gimp");
    let expected: [(&str, &str, &str, &str, &[&str]); 4] = [
        (
            "app.desktop",
            "App",
            "/opt/app/main.py",
            &python,
            &["python3", "python3.11"],
        ),
        (
            "gimp.desktop",
            "The GIMP",
            &gimp,
            &gimp,
            &["gimp", "gimp-2.10"],
        ),
        (
            "idle.desktop",
            "IDLE",
            "python3:idlelib",
            &python,
            &["python3", "python3.11"],
        ),
        (
            "sub-org.x.Y.desktop",
            "Y",
            "flatpak:org.x.Y",
            &flatpak,
            &["flatpak"],
        ),
    ];
    let found = apps(&entries);
    assert_eq!(found.len(), expected.len());
    for ((id, app), (wanted_id, name, key, program, names)) in found.iter().zip(expected) {
        assert_eq!((*id, app.name.as_str()), (wanted_id, name));
        assert_eq!(app.identity.key.to_string(), key);
        assert_eq!(app.identity.program, Path::new(program));
        assert_eq!(app.names, names, "{id}");
    }
}

#[test]
fn the_first_directory_with_an_id_counts() {
    let system = TestSystem::with(&["one", "two"]);
    system.entry("local/a.desktop", "One", "Exec=one");
    system.entry("share/a.desktop", "Two", "Exec=two");
    system.entry("local/b.desktop", "B", "Exec=one\nHidden=true");
    system.entry("share/b.desktop", "B", "Exec=two");
    system.entry("local/kde/c.desktop", "One", "Exec=one");
    system.entry("share/kde-c.desktop", "Two", "Exec=two");
    let entries = system.entries();
    let found: Vec<_> = apps(&entries)
        .iter()
        .map(|(id, app)| (*id, app.name.as_str()))
        .collect();
    assert_eq!(found, [("a.desktop", "One"), ("kde-c.desktop", "One")]);
    check_left_out(&entries, &[("b", "Hidden")]);
}

#[test]
fn other_entries_are_left_out_with_the_reason() {
    let system = TestSystem::with(&["app", "python3", "env"]);
    fs::write(system.at("bin/data"), "").unwrap();
    let data = format!("Exec={}", system.key("data"));
    let cases = [
        ("link", "Type=Link", "Type is not"),
        ("hidden", "Exec=app\nHidden=true", "Hidden"),
        ("shown", "Exec=app\nNoDisplay=true", "NoDisplay"),
        ("terminal", "Exec=app\nTerminal=true", "Terminal"),
        ("no-exec", "DBusActivatable=true", "(Exec)"),
        ("try", "Exec=app\nTryExec=x", "x is not installed (TryExec)"),
        ("missing", "Exec=missing", "missing is not installed"),
        ("wrapped", "Exec=env A=b missing", "env, and does not tell"),
        ("relative", "Exec=bin/app", "bin/app is not installed"),
        ("data", &data, "cannot be executed"),
        ("code", "Exec=python3 -c x", "python3, and does not tell"),
        ("quote", "Exec=app \"x", "is not closed"),
        ("line", "Exec=app\nnonsense", "line 5"),
    ];
    for (name, lines, _) in cases {
        system.entry(&format!("share/{name}.desktop"), "X", lines);
    }
    let expected = cases.map(|(name, _, reason)| (name, reason));
    check_left_out(&system.entries(), &expected);
}

#[test]
fn a_program_that_each_entry_gives_another_argument_is_no_app() {
    let system = TestSystem::with(&["starter", "settings", "office", "one", "env", "wrapped"]);
    for (name, exec) in [
        ("mail", "starter --once mail"),
        ("maps", "starter maps %U"),
        // An entry without an argument is the app itself; options are ways to start it.
        ("settings", "settings"),
        ("sound", "settings sound"),
        ("network", "settings network"),
        ("writer", "office --writer %U"),
        ("calc", "office --calc"),
        // Twice the same, and nothing else.
        ("one", "one thing"),
        ("one-again", "one --new thing"),
        ("red", "env COLOUR=red wrapped"),
        ("blue", "env COLOUR=blue wrapped"),
    ] {
        system.entry(
            &format!("share/{name}.desktop"),
            name,
            &format!("Exec={exec}"),
        );
    }
    let entries = system.entries();
    let why = "starts another app by each";
    check_left_out(&entries, &[("mail", why), ("maps", why)]);
    let starters = entries.iter().filter_map(|entry| entry.starter.as_ref());
    let starter = system.key("starter");
    assert!(
        starters
            .map(|path| path.to_str().unwrap())
            .all(|path| path == starter)
    );
    // Whichever way it is named.
    let entry = system
        .at("share/mail.desktop")
        .into_os_string()
        .into_string()
        .unwrap();
    for named in ["starter", &starter, "mail.desktop", &entry] {
        let told = system.find(named).unwrap_err();
        assert!(told.contains(why), "{named}: {told}");
    }
}

#[test]
fn as_much_is_recorded_of_arguments_as_the_kernel_side_reports() {
    let interface = include_str!("../../kernel/bpf/intf.h");
    let defined = format!("#define PF_ARGV_MAX {RECORDED_BYTES}\n");
    assert!(interface.contains(&defined));
}

#[test]
fn an_app_that_stands_behind_what_is_recorded_of_a_launch_is_left_out() {
    let system = TestSystem::with(&["java", "app"]);
    let class_path = |bytes: usize| format!("Exec=java -cp {} a.b.Main", "x".repeat(bytes));
    system.entry("share/short.desktop", "X", &class_path(3000));
    system.entry("share/long.desktop", "X", &class_path(8 << 10));
    // What a program of its own is given tells nothing.
    let words = format!("Exec=app {}", "x".repeat(8 << 10));
    system.entry("share/own.desktop", "X", &words);
    let entries = system.entries();
    check_left_out(&entries, &[("long", "behind more than 4096 bytes")]);
    let keys = apps(&entries).into_iter();
    let keys: Vec<_> = keys.map(|(_, app)| app.identity.key.to_string()).collect();
    assert_eq!(keys, [&system.key("app"), "java:a.b.Main"]);
}

#[test]
fn hostile_files_are_neither_opened_nor_waited_for() {
    let system = TestSystem::with(&["app"]);
    let at = |name: &str| system.at(&format!("share/{name}.desktop"));
    system.entry("share/good.desktop", "Good", "Exec=app");
    symlink("good.desktop", at("link")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    symlink("/dev/zero", at("device")).unwrap();
    // Its size is said to be 0.
    symlink("/proc/kallsyms", at("endless")).unwrap();
    symlink("loop.desktop", at("loop")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink(".", system.at("share/round")).unwrap();
    fs::write(at("binary"), [0_u8, 255, 1]).unwrap();
    fs::write(at("empty"), "").unwrap();
    let fits = "#".repeat(MAX_ENTRY_BYTES as usize - 100);
    system.entry("share/large.desktop", "Large", &format!("Exec=app\n{fits}"));
    let padding = "#".repeat(MAX_ENTRY_BYTES as usize);
    system.entry("share/huge.desktop", "Huge", &padding);

    let entries = system.entries();
    let ids: Vec<_> = apps(&entries).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["good.desktop", "large.desktop", "link.desktop"]);
    let expected = [
        ("fifo", "not a regular file"),
        ("socket", "not a regular file"),
        ("dir", "not a regular file"),
        ("device", "not a regular file"),
        ("endless", "larger than 262144 bytes"),
        ("loop", "symbolic links"),
        ("dangling", "no such file"),
        ("binary", "not a text file"),
        ("empty", "does not begin"),
        ("huge", "larger than 262144 bytes"),
    ];
    check_left_out(&entries, &expected);
}

#[test]
fn no_more_files_than_the_limit_are_looked_at() {
    let system = TestSystem::with(&[]);
    for number in 0..=MAX_ENTRIES {
        let link = system.at("share").join(format!("{number}.desktop"));
        symlink("nowhere", link).unwrap();
    }
    let entries = system.entries();
    assert_eq!(entries.len(), MAX_ENTRIES + 1);
    assert_eq!(entries[0].file, system.at("share"));
    let told = entries[0].app.as_ref().unwrap_err();
    assert!(told.contains("more than 4096"), "{told}");
}

#[test]
fn an_app_is_found_by_whatever_names_it() {
    let system = TestSystem::with(&["gimp-2.10", "flatpak", "java", "other", "office"]);
    symlink("gimp-2.10", system.at("bin/gimp")).unwrap();
    for (file, name, lines) in [
        ("gimp", "Image Editor", "Exec=gimp-2.10 %U"),
        ("org.x.Y", "Ypsilon", "Exec=flatpak run org.x.Y"),
        ("j", "In/Out", "Exec=java -m mod/Main"),
        ("office-calc", "Calc", "Exec=office --calc"),
        ("office-writer", "Writer", "Exec=office --writer"),
    ] {
        system.entry(&format!("share/{file}.desktop"), name, lines);
    }
    let at = |name: &str| system.at(name).to_str().unwrap().to_owned();
    let (link, plain, entry) = (at("bin/gimp"), at("bin/./gimp"), at("share/gimp.desktop"));
    let (gimp, office) = (system.key("gimp-2.10"), system.key("office"));
    for (queries, key, name) in [
        (
            &["gimp", "gimp-2.10", "gimp.desktop", "image editor"][..],
            gimp.as_str(),
            "Image Editor",
        ),
        (&[&link, &plain, &entry], &gimp, "Image Editor"),
        (
            &["org.x.Y", "org.x.Y.desktop", "flatpak:org.x.Y", "YPSILON"],
            "flatpak:org.x.Y",
            "Ypsilon",
        ),
        (&["java:mod/Main", "in/out"], "java:mod/Main", "In/Out"),
        (&["other"], &system.key("other"), "other"),
        // The parts of a suite are one app.
        (&["office"], &office, "office"),
        (&["calc", "office-calc"], &office, "Calc"),
    ] {
        for query in queries {
            let found = system.find(query).unwrap();
            assert_eq!(found.identity.key.to_string(), key, "{query}");
            assert_eq!(found.name, name, "{query}");
        }
    }
    // Users may execute the link by its own name, too.
    assert_eq!(system.find("gimp").unwrap().names, ["gimp-2.10", "gimp"]);
}

#[test]
fn entries_outside_of_the_menus_lead_to_the_same_apps() {
    let system = TestSystem::with(&["gimp", "python3"]);
    system.entry("share/gimp.desktop", "Image Editor", "Exec=gimp %U");
    fs::write(system.at("main.py"), "").unwrap();
    let script = system.at("main.py").display().to_string();
    let exec = format!("Exec=python3 {script}");
    system.entry("share/script.desktop", "Script", &exec);
    // Copies, as on a desktop.
    system.entry("own/gimp.desktop", "My editor", "Exec=gimp -n");
    system.entry("own/script.desktop", "Mine", &exec);
    let rules = Rules::builtin();
    for (file, name) in [("gimp", "Image Editor"), ("script", "Script")] {
        let own = system.at(&format!("own/{file}.desktop"));
        let app = app_of_entry(&own, &rules, system.at("bin").as_os_str()).unwrap();
        let key = app.identity.key.to_string();
        // A script is found by its path although it cannot be executed.
        assert_eq!(system.find(&key).unwrap().name, name);
    }
    let missing = app_of_entry(&system.at("own/x.desktop"), &rules, OsStr::new(""));
    assert!(missing.unwrap_err().contains("there is no such file"));
}

#[test]
fn errors_say_what_to_do() {
    let system = TestSystem::with(&["python3", "one", "two", "env"]);
    system.entry("share/one.x.desktop", "Player", "Exec=one");
    system.entry("share/two.x.desktop", "player", "Exec=two");
    system.entry("share/top.desktop", "Top", "Exec=one\nTerminal=true");
    system.entry("share/python.desktop", "env", "Exec=python3 /opt/env.py");
    let own = system.at("share/top.desktop");
    let plain = system.at("share");
    for (query, told) in [
        ("", "give a command"),
        ("bin/one", "give the whole path"),
        ("./x.desktop", "give the whole path"),
        ("/none/x.desktop", "there is no such file"),
        ("/none/x", "not a file that can be executed"),
        (plain.to_str().unwrap(), "not a file that can be executed"),
        (own.to_str().unwrap(), "Terminal=true"),
        ("top.desktop", "Terminal=true"),
        ("none.desktop", "give the path of the .desktop file"),
        ("python3", "starts many apps"),
        ("Player", "one.x.desktop, two.x.desktop"),
        ("nothing", "give the absolute path"),
    ] {
        let error = system.find(query).expect_err(query);
        assert!(error.contains(told), "{query}: {error}");
        assert_eq!(error.lines().count(), 1, "{query}: {error}");
    }
    // A wrapper is no app, but an app may be called like it.
    let found = system.find("env").unwrap();
    assert_eq!(found.identity.key, Key::File("/opt/env.py".into()));
}

#[test]
fn the_system_itself_is_read() {
    let path = OsStr::new("/usr/local/bin:/usr/bin:/bin");
    let entries = entries(&system_directories(), &Rules::builtin(), path);
    for (id, app) in apps(&entries) {
        let program = &app.identity.program;
        assert!(program.is_absolute() && app.identity.distinct, "{id}");
        assert_eq!(
            app.names.first().map(|name| name.as_os_str()),
            program.file_name()
        );
    }
}
