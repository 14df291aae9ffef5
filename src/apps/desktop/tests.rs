use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::*;
use crate::model::Key;

/// A system with two application directories and one directory of programs.
struct TestSystem {
    dir: TempDir,
}

impl TestSystem {
    fn new() -> TestSystem {
        let dir = tempfile::tempdir().unwrap();
        for name in ["local", "share", "bin"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        TestSystem { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str) -> PathBuf {
        let path = self.at("bin").join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A .desktop file with the usual keys, and the lines given.
    fn entry(&self, file: &str, name: &str, lines: &str) {
        let text = format!("[Desktop Entry]\nType=Application\nName={name}\n{lines}\n");
        fs::create_dir_all(self.at(file).parent().unwrap()).unwrap();
        fs::write(self.at(file), text).unwrap();
    }

    fn path(&self) -> OsString {
        self.at("bin").into()
    }

    fn entries(&self) -> Entries {
        let dirs = [self.at("none"), self.at("local"), self.at("share")];
        entries(&dirs, &Rules::builtin(), &self.path())
    }

    fn find(&self, query: impl AsRef<OsStr>) -> Result<FoundEntry, FindError> {
        let found = self.entries();
        find_app(query.as_ref(), &found, &Rules::builtin(), &self.path())
    }
}

fn ids(found: &Entries) -> Vec<&str> {
    found.apps.iter().map(|app| app.id.as_str()).collect()
}

fn why(found: &Entries, id: &str) -> String {
    let left = found.left_out.iter().find(|left| left.id == id);
    left.map(|left| left.why.to_string()).unwrap_or_default()
}

#[test]
fn applications_are_found_with_what_to_watch() {
    let system = TestSystem::new();
    system.program("gimp-2.10");
    symlink("gimp-2.10", system.at("bin/gimp")).unwrap();
    system.program("python3.11");
    symlink("python3.11", system.at("bin/python3")).unwrap();
    let flatpak = system.program("flatpak");
    system.program("env");
    system.entry("share/gimp.desktop", "The GIMP", "Exec=env A=b gimp %U");
    system.entry("share/idle.desktop", "IDLE", "Exec=python3 -m idlelib");
    system.entry(
        "share/app.desktop",
        "App",
        "Exec=python3 main.py\nPath=/opt/app",
    );
    let run = format!(
        "Exec={} run --branch=stable org.x.Y @@u %U @@",
        flatpak.display()
    );
    system.entry("share/sub/org.x.Y.desktop", "Y", &run);
    // Two levels down: no entry.
    system.entry("share/sub/sub/deep.desktop", "Deep", "Exec=gimp");
    system.entry("share/readme.txt", "Text", "Exec=gimp");

    let found = system.entries();
    assert!(found.left_out.is_empty(), "{:?}", found.left_out);
    let names = [
        "app.desktop",
        "gimp.desktop",
        "idle.desktop",
        "sub-org.x.Y.desktop",
    ];
    assert_eq!(ids(&found), names);
    let [app, gimp, idle, y] = &found.apps[..] else {
        unreachable!("as many as names");
    };
    assert_eq!(app.identity.key, Key::File("/opt/app/main.py".into()));
    assert_eq!(gimp.name, "The GIMP");
    assert_eq!(gimp.exec, ["env", "A=b", "gimp"]);
    // Not env, which is executed for many apps.
    assert_eq!(gimp.file, system.at("bin/gimp"));
    assert_eq!(gimp.identity.key, Key::File(system.at("bin/gimp")));
    assert_eq!(gimp.names, ["gimp", "gimp-2.10"]);
    assert_eq!(idle.identity.key, Key::Name("python3:idlelib".into()));
    assert_eq!(idle.names, ["python3", "python3.11"]);
    assert_eq!(y.identity.key, Key::Name("flatpak:org.x.Y".into()));
    assert_eq!(y.file, flatpak);
}

#[test]
fn the_first_directory_with_an_id_counts() {
    let system = TestSystem::new();
    system.program("one");
    system.program("two");
    system.entry("local/a.desktop", "One", "Exec=one");
    system.entry("share/a.desktop", "Two", "Exec=two");
    system.entry("local/b.desktop", "B", "Exec=one\nHidden=true");
    system.entry("share/b.desktop", "B", "Exec=two");
    system.entry("local/kde/c.desktop", "One", "Exec=one");
    system.entry("share/kde-c.desktop", "Two", "Exec=two");
    let found = system.entries();
    assert_eq!(ids(&found), ["a.desktop", "kde-c.desktop"]);
    assert!(found.apps.iter().all(|app| app.name == "One"));
    assert_eq!(found.left_out.len(), 1);
    assert!(why(&found, "b.desktop").contains("Hidden"));
}

#[test]
fn what_is_no_application_is_left_out_with_the_reason() {
    let system = TestSystem::new();
    for program in ["app", "python3", "env"] {
        system.program(program);
    }
    fs::write(system.at("bin/data"), "").unwrap();
    let data = format!("Exec={}", system.at("bin/data").display());
    let cases = [
        ("link", "Type=Link", "Type is not", false),
        ("hidden", "Exec=app\nHidden=true", "Hidden", false),
        ("shown", "Exec=app\nNoDisplay=true", "NoDisplay", false),
        ("terminal", "Exec=app\nTerminal=true", "Terminal", false),
        ("no-exec", "DBusActivatable=true", "(Exec)", true),
        (
            "try",
            "Exec=app\nTryExec=missing",
            "missing is not installed (TryExec)",
            true,
        ),
        ("missing", "Exec=missing", "missing is not installed", true),
        (
            "wrapped",
            "Exec=env A=b missing",
            "env, and does not tell",
            true,
        ),
        ("relative", "Exec=bin/app", "bin/app is not installed", true),
        ("data", &data, "cannot be executed", true),
        (
            "code",
            "Exec=python3 -c x",
            "python3, and does not tell",
            true,
        ),
        ("quote", "Exec=app \"x", "is not closed", true),
        ("percent", "Exec=app %", "nothing follows the %", true),
        ("field", "Exec=app %x", "%x is no field code", true),
        ("line", "Exec=app\nnonsense", "line 5", true),
    ];
    for (id, lines, _, _) in cases {
        system.entry(&format!("share/{id}.desktop"), "X", lines);
    }
    let found = system.entries();
    assert!(found.apps.is_empty(), "{:?}", found.apps);
    assert_eq!(found.left_out.len(), cases.len());
    for (id, _, reason, fault) in cases {
        let id = format!("{id}.desktop");
        let left = found.left_out.iter().find(|left| left.id == id).unwrap();
        let told = left.why.to_string();
        assert!(
            told.contains(reason) && told.lines().count() == 1,
            "{id}: {told}"
        );
        assert_eq!(left.why.is_fault(), fault, "{id}");
    }
}

#[test]
fn hostile_files_are_neither_opened_nor_waited_for() {
    let system = TestSystem::new();
    system.program("app");
    system.entry("share/good.desktop", "Good", "Exec=app");
    symlink("good.desktop", system.at("share/link.desktop")).unwrap();
    mkfifoat(
        CWD,
        system.at("share/fifo.desktop"),
        Mode::RUSR | Mode::WUSR,
    )
    .unwrap();
    fs::create_dir(system.at("share/dir.desktop")).unwrap();
    symlink("/dev/zero", system.at("share/device.desktop")).unwrap();
    symlink("loop.desktop", system.at("share/loop.desktop")).unwrap();
    symlink("nowhere", system.at("share/dangling.desktop")).unwrap();
    symlink(".", system.at("share/round")).unwrap();
    fs::write(system.at("share/binary.desktop"), [0_u8, 255, 1]).unwrap();
    fs::write(system.at("share/empty.desktop"), "").unwrap();
    let padding = "#".repeat(MAX_ENTRY_BYTES);
    system.entry(
        "share/huge.desktop",
        "Huge",
        &format!("Exec=app\n{padding}"),
    );

    let found = system.entries();
    assert_eq!(ids(&found), ["good.desktop", "link.desktop"]);
    for (id, reason) in [
        ("fifo", "not a regular file"),
        ("dir", "not a regular file"),
        ("device", "not a regular file"),
        ("loop", "symbolic links"),
        ("dangling", "no such file"),
        ("binary", "not a text file"),
        ("empty", "does not begin"),
        ("huge", "larger than 262144 bytes"),
    ] {
        let told = why(&found, &format!("{id}.desktop"));
        assert!(told.contains(reason), "{id}: {told}");
    }
    assert_eq!(found.left_out.len(), 8, "{:?}", found.left_out);
}

#[test]
fn no_more_files_than_the_limit_are_looked_at() {
    let system = TestSystem::new();
    for number in 0..=MAX_ENTRIES {
        let link = system.at("share").join(format!("{number}.desktop"));
        symlink("nowhere", link).unwrap();
    }
    let found = system.entries();
    assert_eq!(found.left_out.len(), MAX_ENTRIES + 1);
    let told = &found.left_out[0];
    assert_eq!(told.entry, system.at("share"));
    assert!(matches!(told.why, Unsuitable::TooMany));
}

#[test]
fn an_app_is_found_by_whatever_names_it() {
    let system = TestSystem::new();
    system.program("gimp-2.10");
    symlink("gimp-2.10", system.at("bin/gimp")).unwrap();
    system.program("flatpak");
    let other = system.program("other");
    system.entry("share/gimp.desktop", "Image Editor", "Exec=gimp-2.10 %U");
    system.entry(
        "share/org.x.Y.desktop",
        "Ypsilon",
        "Exec=flatpak run org.x.Y",
    );
    let gimp = Key::File(system.at("bin/gimp-2.10"));
    for query in [
        "gimp",
        "gimp-2.10",
        "gimp.desktop",
        "image editor",
        system.at("bin/gimp").to_str().unwrap(),
        system.at("bin/./gimp").to_str().unwrap(),
        system.at("share/gimp.desktop").to_str().unwrap(),
    ] {
        let found = system.find(query).unwrap();
        assert_eq!(found.identity.key, gimp, "{query}");
        assert_eq!(found.id.as_deref(), Some("gimp.desktop"), "{query}");
    }
    // Whoever executes the link by its own name is seen, too.
    assert_eq!(system.find("gimp").unwrap().names, ["gimp-2.10", "gimp"]);
    for query in ["org.x.Y", "org.x.Y.desktop", "flatpak:org.x.Y", "YPSILON"] {
        let found = system.find(query).unwrap();
        assert_eq!(found.identity.key.to_string(), "flatpak:org.x.Y", "{query}");
    }
    system.program("java");
    system.entry("share/j.desktop", "In/Out", "Exec=java -m mod/Main");
    for query in ["java:mod/Main", "in/out"] {
        assert_eq!(system.find(query).unwrap().id.as_deref(), Some("j.desktop"));
    }
    let found = system.find("other").unwrap();
    assert_eq!((found.id, found.file), (None, other.clone()));
    assert_eq!(found.identity.key, Key::File(other));
}

#[test]
fn parts_of_a_suite_are_one_app() {
    let system = TestSystem::new();
    system.program("office");
    system.entry("share/office-calc.desktop", "Calc", "Exec=office --calc");
    system.entry(
        "share/office-writer.desktop",
        "Writer",
        "Exec=office --writer",
    );
    let found = system.find("office").unwrap();
    assert_eq!((found.id, found.name.as_str()), (None, "office"));
    let calc = system.find("calc").unwrap();
    assert_eq!(calc.identity, found.identity);
    assert_eq!(calc.id.as_deref(), Some("office-calc.desktop"));
}

#[test]
fn errors_say_what_to_do() {
    let system = TestSystem::new();
    for program in ["python3", "one", "two", "env"] {
        system.program(program);
    }
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
        let error = system.find(query).expect_err(query).to_string();
        assert!(
            error.contains(told) && error.lines().count() == 1,
            "{query}: {error}"
        );
    }
    // A wrapper is no app, but an app may be called like it.
    let found = system.find("env").unwrap();
    assert_eq!(found.identity.key, Key::File("/opt/env.py".into()));
}

#[test]
fn the_system_itself_is_read() {
    let found = entries(
        &system_directories(),
        &Rules::builtin(),
        OsStr::new("/usr/local/bin:/usr/bin:/bin"),
    );
    for app in &found.apps {
        assert!(app.file.is_absolute() && app.identity.distinct, "{app:?}");
        assert_eq!(
            app.names.first().map(|name| name.as_os_str()),
            app.file.file_name()
        );
    }
}
