use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use paralfetch::service::control::bus::serve;
use paralfetch::service::control::{LaunchRecord, ServiceSignal};
use tempfile::TempDir;

use crate::Served;
use crate::cli::Watching;
use crate::daemon::Daemon;
use crate::fakes::{APP, Desktop, Fake, USER, launch, post};
use common::until;

/// The program, for which this bus is that of the system and that of the session.
fn paralfetch(daemon: &Daemon, home: &Path) -> Command {
    let mut command = Command::new(common::program());
    command
        .env("DBUS_SYSTEM_BUS_ADDRESS", daemon.text())
        .env("DBUS_SESSION_BUS_ADDRESS", daemon.text())
        .env("HOME", home)
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_DATA_HOME");
    command
}

/// A home directory with programs and .desktop entries of the same names: one on the desktop, one in the menus.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    for (directory, name) in [
        ("Desktop", "pf-painter"),
        (".local/share/applications", "other"),
    ] {
        fs::create_dir_all(at(directory)).unwrap();
        let program = at(name);
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let exec = format!("Exec={} %U", program.display());
        let entry = format!("[Desktop Entry]\nType=Application\nName=X\n{exec}\n");
        fs::write(at(directory).join(format!("{name}.desktop")), entry).unwrap();
    }
    home
}

#[test]
fn an_entry_stands_for_its_app_and_the_desktop_shows_what_became_of_it() {
    let Some(served) = Served::start() else {
        return;
    };
    let home = home();
    let program = home.path().join("pf-painter").display().to_string();
    let entry = home.path().join("Desktop/pf-painter.desktop");
    let run = |arguments: &[&str]| {
        let mut command = paralfetch(&served.daemon, home.path());
        // File managers give whole paths, users what is in their directory.
        command.current_dir(home.path().join("Desktop"));
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    let nobody = run(&["enable", "--notify", "pf-painter.desktop"]);
    assert_eq!(nobody.0, 0);
    assert!(
        nobody.1.contains("pf-painter will start faster") && nobody.1.lines().count() == 1,
        "{nobody:?}"
    );
    let desktop = Desktop::start(&served.daemon);
    let path = entry.to_str().unwrap();
    for command in ["enable", "relearn", "disable"] {
        assert_eq!(run(&[command, "--notify", path]), (0, String::new()));
    }
    for command in ["enable", "status", "stats", "forget"] {
        assert_eq!(run(&[command, "./pf-painter.desktop"]), (0, String::new()));
    }
    let done = [
        "prefetch", "prefetch", "learn", "disable", "prefetch", "forget",
    ];
    let done = done.map(|what| format!("{what} {program}"));
    assert_eq!(served.fake.changed(), done);
    let headings = [
        "pf-painter will start faster",
        "pf-painter will be learned",
        "pf-painter will not start faster",
    ];
    assert_eq!(desktop.headings(), headings);
    // The service does not know this one, and one more has no program.
    let (status, said) = run(&["enable", "--notify", "other.desktop"]);
    assert_eq!((status, said.lines().count()), (1, 1), "{said}");
    fs::remove_file(home.path().join("pf-painter")).unwrap();
    let (status, said) = run(&["enable", "--notify", path]);
    assert_eq!((status, said.lines().count()), (1, 1), "{said}");
    let shown = desktop.shown.lock().unwrap();
    assert!(shown.iter().all(|(heading, _)| heading == "Paralfetch"));
    assert!(shown[0].1.starts_with("no app /"), "{shown:?}");
    assert!(
        shown[1].1.contains("pf-painter is not installed"),
        "{shown:?}"
    );
}

#[test]
fn that_an_app_has_become_faster_is_shown_once() {
    let Some(daemon) = Daemon::start() else {
        return;
    };
    let desktop = Desktop::start(&daemon);
    let home = tempfile::tempdir().unwrap();
    let watch = || {
        let mut command = paralfetch(&daemon, home.path());
        let child = command.args(["watch", "--notify"]).spawn().unwrap();
        Watching(child)
    };
    let fake = Fake::shared();
    *fake.cold_with_ms.lock().unwrap() = Some(250);
    let ended = |uid, app: &str| {
        let app = app.to_owned();
        ServiceSignal::Ended(LaunchRecord { app, ..launch(uid) })
    };
    // Where it keeps what was shown, a moment after it was.
    let kept = home.path().join(".local/state/paralfetch/faster-apps.json");
    // The service starts, these apps are launched until the last one is shown, and the service stops.
    let shown = |apps: &[&str]| {
        let bus = serve(post(&fake), daemon.address()).unwrap();
        let last = format!("{} starts faster", apps.last().unwrap());
        until("the last app is shown", || {
            bus.emit(ended(USER, "/of/another/pf-painter"));
            for app in apps {
                bus.emit(ended(0, app));
            }
            let shown = desktop.shown.lock().unwrap();
            shown.iter().any(|(heading, _)| *heading == last)
        });
        until("the last app is kept", || {
            let text = fs::read_to_string(&kept).unwrap_or_default();
            text.contains(apps.last().unwrap())
        });
        drop(bus);
        desktop.headings()
    };
    let heading = |app: &str| [format!("{app} starts faster")];
    let watching = watch();
    assert_eq!(shown(&[APP]), heading(APP));
    // It waits for a service that has stopped.
    assert_eq!(
        shown(&[APP, "/second/pf-painter"]),
        heading("/second/pf-painter")
    );
    // And another one knows what was shown.
    drop(watching);
    let watching = watch();
    let third = ["/second/pf-painter", APP, "/third/pf-painter"];
    assert_eq!(shown(&third), heading("/third/pf-painter"));
    drop(watching);
}
