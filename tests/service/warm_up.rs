//! Likely apps are read before they are launched, while nothing happens, for users who are logged in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::running::{Image, Launched, Running, number};
use crate::set_up;
use common::slowed::Slowed;
use common::{drop_caches, succeed, until};

/// Whose app it is.
const USER: u32 = 54_321;

/// What the service says of each app that it has read, and of the choice of apps.
const READ: &str = "read before its launch";
const CHOSEN: &str = "apps to be read before their launches";

/// A user who is logged in, as far as logind's files tell; he is not any more when this is dropped.
pub struct LoggedIn(PathBuf);

impl LoggedIn {
    /// Over a network.
    pub fn new(uid: u32) -> LoggedIn {
        LoggedIn::with(uid, "STATE=active\nONLINE_SEATS=\n")
    }

    /// At the machine itself.
    pub fn at_seat(uid: u32) -> LoggedIn {
        LoggedIn::with(uid, "STATE=active\nONLINE_SEATS=seat0\n")
    }

    fn with(uid: u32, text: &str) -> LoggedIn {
        let users = Path::new("/run/systemd/users");
        fs::create_dir_all(users).unwrap();
        let user = users.join(uid.to_string());
        // As logind does it: nobody finds half a file.
        let new = users.join(format!(".#{uid}"));
        fs::write(&new, text).unwrap();
        fs::rename(&new, &user).unwrap();
        LoggedIn(user)
    }
}

impl Drop for LoggedIn {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// What launches the app as the user.
fn launcher(image: &Image) -> Command {
    let root = image.root.path().display();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("exec chroot --userspec={USER}:{USER} {root} /app >/dev/null"),
        ])
        .stdin(Stdio::null());
    command
}

fn launch(image: &Image, service: &mut Running) -> String {
    succeed(&mut launcher(image));
    service.launch_of(&image.id("app"))
}

/// The same from empty caches.
fn launch_cold(image: &Image, service: &mut Running) -> String {
    drop_caches();
    launch(image, service)
}

/// Configures the service, has the user's app learned and prefetched, and ends the service. The caches are empty then.
fn prepare(image: &Image, config: &str) {
    image.configure(&format!("warm_up.quiet_s = 1\n{config}"));
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    until("it is learned", || {
        let line = launch_cold(image, &mut service);
        line.contains("kind=Learned") && !line.contains("its first moments")
    });
    image.until_stored("app");
    let line = launch_cold(image, &mut service);
    assert!(line.contains("kind=Prefetched"), "{line}");
    service.stop();
    drop_caches();
}

#[test]
fn an_app_of_a_user_who_is_logged_in_is_read_before_its_launch_which_is_anticipated() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    prepare(&image, "");
    let _user = LoggedIn::new(USER);
    let mut service = image.start();
    // In as many rounds as the host's other readers make of it.
    let (mut bytes, mut is_whole) = (0, false);
    while !is_whole {
        let round = service.line(&[READ, &image.id("app")]);
        bytes += number(&round, "bytes");
        is_whole = round.contains("ended=\"\"");
    }
    assert!(bytes >= 7 << 20, "{bytes}");
    let line = launch(&image, &mut service);
    assert!(line.contains("kind=Anticipated"), "{line}");
    assert!(number(&line, "read_bytes") < 1 << 20, "{line}");
    // The next one was not read before: the end of a launch soon after a round is no occasion for another.
    let line = launch_cold(&image, &mut service);
    assert!(line.contains("kind=Prefetched"), "{line}");
    service.stop();
    let stats = image.paralfetch(&["stats", "--json", &image.id("app")]);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    let kinds = stats["launches"].as_array().unwrap().iter();
    let anticipated = kinds.filter(|launch| launch["kind"] == "anticipated");
    assert_eq!(anticipated.count(), 1, "{stats}");
}

#[test]
fn a_login_has_the_users_apps_read_and_nobody_elses() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    prepare(&image, "");
    // Somebody without apps.
    let _other = LoggedIn::new(USER + 1);
    let mut service = image.start();
    let chosen = service.line(&[CHOSEN]);
    assert_eq!(number(&chosen, "chosen"), 0, "{chosen}");
    let _user = LoggedIn::new(USER);
    let chosen = service.line(&[CHOSEN]);
    assert_eq!(number(&chosen, "chosen"), 1, "{chosen}");
    let read = service.line(&[READ]);
    assert_eq!(number(&read, "uid"), u64::from(USER), "{read}");
    assert_eq!(service.heard(&[READ]).len(), 1);
    service.stop();
}

#[test]
fn a_launch_ends_the_reading_and_is_prefetched() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    prepare(&image, "");
    let Some(slowed) = Slowed::by_drive(image.root.image.device(), 10) else {
        return;
    };
    let _user = LoggedIn::new(USER);
    let mut service = image.start();
    // Not before: its own first reads of the image would take as long.
    slowed.take(service.pid());
    service.line(&[CHOSEN]);
    until("it reads", || service.bytes_read_by("pf-warm-up") > 0);
    // The app itself is not slowed down.
    let app = Launched(launcher(&image).spawn().unwrap());
    let read = service.line(&[READ]);
    assert!(read.contains("a launch began"), "{read}");
    assert!(number(&read, "bytes") < 7 << 20, "{read}");
    // The app would wait for what is being read.
    slowed.lift(image.root.image.device());
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Prefetched"), "{line}");
    app.succeed();
    service.stop();
}

#[test]
fn switched_off_nothing_is_read_before_launches() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    prepare(&image, "warm_up.enabled = false\n");
    let _user = LoggedIn::new(USER);
    let mut service = image.start();
    service.line(&["nothing is read before launches", "warm_up.enabled"]);
    // Occasions: a launch, its end, and a login.
    let line = launch(&image, &mut service);
    assert!(line.contains("kind=Prefetched"), "{line}");
    let _other = LoggedIn::at_seat(USER + 1);
    service.line(&["a login is left alone"]);
    let before = [CHOSEN, READ].map(|looked| service.heard(&[looked]).len());
    assert_eq!(before, [0, 0]);
    // No event says that nothing is done: three times as long as it has to be quiet.
    let said = service.listen(Duration::from_secs(3));
    let looked = |line: &&String| line.contains(CHOSEN) || line.contains(READ);
    assert_eq!(said.iter().find(looked), None);
    let line = launch_cold(&image, &mut service);
    assert!(line.contains("kind=Prefetched"), "{line}");
    service.stop();
}
