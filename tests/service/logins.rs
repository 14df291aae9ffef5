//! What a login reads is learned, and read ahead at the user's next one. There is no logind here: its files and the user's
//! cgroup are made by the tests.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use paralfetch::fs::residency;

use crate::running::{Image, Launched, Running, number};
use crate::set_up;
use crate::warm_up::LoggedIn;
use common::root::{PAGES, pages_of};
use common::{Mounted, drop_caches};

/// Whose login it is.
const USER: u32 = 54_321;

/// As what it is managed.
const ID: &str = "login:session";

/// The user's slice, in a mount of the hierarchy of its own.
struct Slice {
    path: PathBuf,
    _hierarchy: Mounted,
    _directory: tempfile::TempDir,
}

impl Slice {
    fn new() -> Slice {
        let directory = tempfile::tempdir().unwrap();
        let hierarchy = Mounted::new("cgroup2", "none", directory.path());
        let path = directory
            .path()
            .join(format!("user.slice/user-{USER}.slice"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path.join("session-1.scope"))
            .unwrap();
        Slice {
            path,
            _hierarchy: hierarchy,
            _directory: directory,
        }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        // A panic in here would end the other tests.
        for cgroup in [self.path.join("session-1.scope"), self.path.clone()] {
            if let Err(error) = fs::remove_dir(&cgroup) {
                eprintln!("{}: {error}", cgroup.display());
            }
        }
        // systemd's, where it runs.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// A session of the user's, which does what it is told: a shell in the image.
struct Session(Launched);

impl Session {
    fn new(image: &Image, slice: &Slice) -> Session {
        let scope = slice.path.join("session-1.scope/cgroup.procs");
        let (scope, root) = (scope.display(), image.root.path().display());
        let line = "while read -r line; do eval \"$line\"; done";
        let shell = format!(
            "echo $$ >{scope} && exec chroot --userspec={USER}:{USER} {root} /bin/sh -c '{line}'"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &shell]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let session = Session(Launched(child.unwrap()));
        let pid = session.0.0.id().to_string();
        // Before its login is told: systemd does not tell it earlier either.
        common::until("the session is in its cgroup", || {
            let processes = fs::read_to_string(slice.path.join("session-1.scope/cgroup.procs"));
            processes.unwrap().lines().any(|line| line == pid)
        });
        session
    }

    fn tell(&mut self, line: &str) {
        let stdin = self.0.0.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }
}

/// Configures the service to manage what nobody has named.
fn configure(image: &Image, text: &str) {
    image.configure(text);
    let drop_ins = image.config_dir().join("config.toml.d");
    fs::create_dir(&drop_ins).unwrap();
    fs::write(drop_ins.join("automatic.toml"), "mode = \"automatic\"\n").unwrap();
}

/// Waits until a login begins.
fn begins(service: &mut Running) {
    service.line(&["launch begins", ID]);
}

/// How many pages of these data files are cached.
fn cached(image: &Image, files: &[usize]) -> u64 {
    let cached = files.iter().map(|file| {
        let path: &Path = &image.root.path().join(format!("data/{file}"));
        let file = File::open(path).unwrap();
        let ranges = residency::cached(file.as_fd(), &(0..PAGES as u64)).unwrap();
        ranges
            .iter()
            .map(|pages| pages.end - pages.start)
            .sum::<u64>()
    });
    cached.sum()
}

#[test]
fn a_login_is_learned_and_read_ahead_at_the_next_and_its_apps_are_launches_of_their_own() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script("app", "cat /data/2?");
    image.enable("app");
    configure(&image, "warm_up.login = true\n");
    let slice = Slice::new();
    // A test that was killed may have left him there.
    drop(LoggedIn::at_seat(USER));
    let mut service = image.start();

    let mut session = Session::new(&image, &slice);
    let user = LoggedIn::at_seat(USER);
    begins(&mut service);
    service.line(&["recording"]);
    // Who leaves takes his login with him: the next one can be recorded.
    drop(user);
    service.line(&["a login is given up"]);
    // Where the system keeps the session from reading for as long as a lesson may be quiet, the lesson is empty.
    let mut logins = 0;
    loop {
        // Before it begins: this may take as long.
        drop_caches();
        let _user = LoggedIn::at_seat(USER);
        begins(&mut service);
        service.line(&["recording"]);
        session.tell("cat /data/1?");
        session.tell("/app");
        let line = service.launch_of(&image.id("app"));
        assert_eq!(number(&line, "uid"), u64::from(USER), "{line}");
        let line = service.launch_of(ID);
        assert_eq!(number(&line, "uid"), u64::from(USER), "{line}");
        logins += 1;
        if line.contains("kind=Learned") {
            break;
        }
        assert!(logins < 5, "{line}");
    }
    drop(session);

    // The session itself reads nothing now.
    drop_caches();
    let mut session = Session::new(&image, &slice);
    let _user = LoggedIn::at_seat(USER);
    begins(&mut service);
    let line = service.launch_of(ID);
    assert!(line.contains("kind=Prefetched"), "{line}");
    assert_eq!(cached(&image, &[10, 15, 19]), 3 * PAGES as u64);
    assert_eq!(cached(&image, &[20, 25, 29]), 0, "that is the app's");
    // What follows is no login's any more.
    session.tell("/app");
    service.launch_of(&image.id("app"));
    assert_eq!(service.heard(&["INFO launch ", ID]).len(), logins + 1);
    service.stop();
    let profile = image.root.show(ID);
    assert_eq!(pages_of(&profile, "/data/15").len(), PAGES, "{profile}");
    assert!(pages_of(&profile, "/data/25").is_empty(), "{profile}");
    let stats = image.paralfetch(&["stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    let logins = stats["apps"].as_array().unwrap().iter();
    let logins = logins.filter(|app| app["added_by"] == "login" && app["name"] == "login");
    assert_eq!(logins.count(), 1, "{stats}");
}

#[test]
fn logins_are_left_alone_where_the_setting_says_so_and_without_a_seat() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    configure(&image, "warm_up.login = false\n");
    let slice = Slice::new();
    let mut service = image.start();
    let _session = Session::new(&image, &slice);
    // Over a network: nothing is said of that, and what follows comes after it.
    let remote = LoggedIn::new(USER + 1);
    let _user = LoggedIn::at_seat(USER);
    let left = service.line(&["a login is left alone"]);
    assert_eq!(number(&left, "uid"), u64::from(USER), "{left}");
    drop(remote);
    service.stop();
    let stats = image.paralfetch(&["stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["apps"].as_array().unwrap().len(), 0, "{stats}");
    assert_eq!(stats["launches"].as_array().unwrap().len(), 0, "{stats}");
}
