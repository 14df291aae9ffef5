//! A hostile user: whatever he does with an app that others launch, too, their launches and their profiles stay as they
//! are, and the service stays small.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use paralfetch::fs::residency;
use paralfetch::model::{Place, Profile};
use paralfetch::profile::Store;

use crate::running::{Image, Running};
use crate::set_up;
use crate::storms::assert_small;
use common::root::{content, install};
use common::until;
use common::{Mounted, drop_caches, succeed};

/// The user whose launches and profile are to stay as they are.
const VICTIM: u32 = 54_321;
const HOSTILE: u32 = 54_322;

/// Size of the hostile user's file that nobody else's launch may read, in pages.
const BIG_PAGES: usize = 4096;

/// What makes every program read the hostile user's file.
const LIBRARY: &str = r#"
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void read_big(void)
{
	static char buffer[1 << 16];
	int fd = open("/home/hostile/big", O_RDONLY);
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
	close(fd);
}
"#;

/// Announces, as the user in the first argument, the process in the third through the socket in the second, the app's
/// id in the fourth, and junk. The credentials that count are those of the moment when it is sent.
const ANNOUNCE: &str = r#"
import os, socket, sys
user, path, victim, app = int(sys.argv[1]), *sys.argv[2:5]
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.setblocking(False)
to.connect(path)
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
texts = [f'{victim} app', f'{victim} {app}', '1 app', '0 app', app, 'app', '\0' * 60, 'x' * 4096]
for number in range(20000):
    text = texts[number // 2 % len(texts)].encode()
    try:
        to.send(text if number % 2 else os.urandom(48))
    except OSError:
        pass  # The queue is full.
"#;

/// Both users, and what they have in common.
struct Scene {
    image: Image,
    service: Running,
    /// The image where the users can reach it without root's help.
    opt: tempfile::TempDir,
    _opt: Mounted,
    /// The victim's profile before anything happened.
    before: Contents,
    _turn: crate::Turn,
}

/// The data of a profile that lie on the image: inode and page. What a prefetched launch misses may join a profile:
/// metadata, and what programs of root's and of the victim's own read elsewhere meanwhile.
type Contents = BTreeSet<(u64, u64)>;

fn contents(image: &Image, profile: &Profile) -> Contents {
    let dev = fs::metadata(image.root.path()).unwrap().dev();
    let spans = profile.entries.iter().map(|entry| entry.span);
    spans
        .filter_map(|span| match span.place {
            Place::Data { file } => Some((&profile.files[file as usize], span)),
            Place::Metadata { .. } => None,
        })
        .filter(|(file, _)| profile.devices[file.device as usize].dev == dev)
        .flat_map(|(file, span)| span.pages().map(|page| (file.ino, page)))
        .collect()
}

impl Scene {
    fn new() -> Option<Scene> {
        let (image, turn) = set_up()?;
        image.script("app", "cat /data/* \"$@\"");
        let home = image.root.path().join("home/hostile");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("big"), content(1, BIG_PAGES)).unwrap();
        for program in ["ln", "true"] {
            install(program, image.root.path());
        }
        let source = home.join("library.c");
        fs::write(&source, LIBRARY).unwrap();
        succeed(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-o"])
                .arg(home.join("library.so"))
                .arg(&source),
        );
        for (name, text) in [("own", "/bin/cat /home/hostile/big"), ("brief", ":")] {
            image.script(&format!("home/hostile/{name}"), text);
        }
        chown(&home, Some(HOSTILE), Some(HOSTILE)).unwrap();
        for entry in fs::read_dir(&home).unwrap() {
            chown(entry.unwrap().path(), Some(HOSTILE), Some(HOSTILE)).unwrap();
        }
        image.enable("app");
        let opt = tempfile::tempdir_in("/opt").unwrap();
        let bound = Mounted::bind(image.root.path(), opt.path());
        let mut service = image.start();
        service.ready_to_learn();
        until("the victim's launch is learned", || {
            launch(&image, &mut service, VICTIM).contains("kind=Learned")
        });
        until("its profile is stored", || profile_of(&image).is_some());
        let before = contents(&image, &profile_of(&image).unwrap());
        assert!(before.len() >= common::root::FILES, "{before:?}");
        Some(Scene {
            image,
            service,
            opt,
            _opt: bound,
            before,
            _turn: turn,
        })
    }

    /// A shell of the hostile user with the image as its root directory.
    fn inside(&self, script: &str) -> Command {
        let mut command = Command::new("chroot");
        command
            .arg(format!("--userspec={HOSTILE}:{HOSTILE}"))
            .arg(self.image.root.path())
            .args(["/bin/sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// A shell of the hostile user with this machine's root directory; the image is its first argument.
    fn outside(&self, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={HOSTILE}"), format!("--regid={HOSTILE}")])
            .args(["--clear-groups", "sh", "-c", script, "sh"])
            .arg(self.opt.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Has the victim launch the app: that is prefetched by his own profile, which is as it was.
    fn victim_is_unharmed(&mut self, after: &str) {
        let line = self.prefetched(after);
        let big = File::open(self.big()).unwrap();
        let cached = residency::cached(big.as_fd(), &(0..BIG_PAGES as u64)).unwrap();
        assert!(cached.is_empty(), "after {after}: {line}");
        self.profile_is_unharmed(after);
        let peak = assert_small(&self.service);
        eprintln!("after {after}: {peak}");
    }

    fn profile_is_unharmed(&self, after: &str) {
        let profile = profile_of(&self.image).unwrap();
        let now = contents(&self.image, &profile);
        let lost: Vec<_> = self.before.difference(&now).collect();
        assert!(lost.is_empty(), "after {after}: {lost:?}");
        // A launch of the victim's own may use another page of a library, by which process gets a processor first.
        let libraries = profile.files.iter();
        let is_library = |path: &Vec<u8>| path.starts_with(b"/lib");
        let libraries = libraries.filter(|file| file.path.as_ref().is_some_and(is_library));
        let libraries: BTreeSet<u64> = libraries.map(|file| file.ino).collect();
        let added = now.difference(&self.before);
        let added: Vec<_> = added.filter(|(ino, _)| !libraries.contains(ino)).collect();
        assert!(added.is_empty(), "after {after}: {added:?}");
        let own: BTreeSet<u64> = fs::read_dir(self.home())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap())
            .filter(|found| found.uid() == HOSTILE)
            .map(|found| found.ino())
            .collect();
        let strange: Vec<_> = now.iter().filter(|(ino, _)| own.contains(ino)).collect();
        assert!(strange.is_empty(), "after {after}: {strange:?}");
    }

    /// Launches from empty caches until that is prefetched: it may be learned again meanwhile.
    fn prefetched(&mut self, during: &str) -> String {
        let (image, service) = (&self.image, &mut self.service);
        let mut lines = (0..5).map(|_| launch(image, service, VICTIM));
        let found = lines.find(|line| line.contains("kind=Prefetched"));
        found.unwrap_or_else(|| panic!("not prefetched: {during}"))
    }

    fn home(&self) -> PathBuf {
        self.image.root.path().join("home/hostile")
    }

    fn big(&self) -> PathBuf {
        self.home().join("big")
    }
}

fn profile_of(image: &Image) -> Option<Profile> {
    let store = Store::open(image.root.state.path()).unwrap();
    store.find(VICTIM, image.id("app").as_ref()).unwrap()
}

/// Has the user launch the app from empty caches; returns what the service says of his launch.
fn launch(image: &Image, service: &mut Running, user: u32) -> String {
    drop_caches();
    let mut app = Command::new("chroot");
    app.arg(format!("--userspec={user}:{user}"))
        .arg(image.root.path())
        .arg("/app");
    succeed(&mut app);
    let app = format!("app=\"{}\"", image.id("app"));
    service.line(&["INFO launch ", &app, &format!(" uid={user} ")])
}

/// A program that goes on meanwhile; killed with its process group when this is dropped.
struct Meanwhile(Child);

impl Meanwhile {
    fn start(command: &mut Command) -> Meanwhile {
        use std::os::unix::process::CommandExt;
        Meanwhile(command.process_group(0).spawn().unwrap())
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        // It may have ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn a_hostile_user_changes_neither_launches_nor_profiles_of_others() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    preload(&mut scene);
    announce(&mut scene);
    link(&mut scene);
    change_roots(&mut scene);
    flood(&mut scene);
    fork(&mut scene);
    scene.service.stop();
}

/// The app with a library and an argument that have it read the user's own file.
fn preload(scene: &mut Scene) {
    for script in [
        "LD_PRELOAD=/home/hostile/library.so exec /app",
        "exec /app /home/hostile/big",
    ] {
        for _ in 0..2 {
            drop_caches();
            succeed(&mut scene.inside(script));
            let app = format!("app=\"{}\"", scene.image.id("app"));
            let user = format!(" uid={HOSTILE} ");
            scene.service.line(&["INFO launch ", &app, &user]);
        }
        scene.victim_is_unharmed(script);
    }
}

fn announce(scene: &mut Scene) {
    let victims = Meanwhile::start(Command::new("setpriv").args([
        &format!("--reuid={VICTIM}"),
        &format!("--regid={VICTIM}"),
        "--clear-groups",
        "sleep",
        "600",
    ]));
    let mut announcer = Command::new("python3");
    announcer
        .args(["-c", ANNOUNCE, &HOSTILE.to_string()])
        .arg(scene.image.run_dir().join("launch.sock"))
        .args([victims.0.id().to_string(), scene.image.id("app")]);
    let announcing = Meanwhile::start(&mut announcer);
    scene.victim_is_unharmed("announcements that go on");
    drop(announcing);
    succeed(&mut announcer);
    scene.victim_is_unharmed("announcements");
    let of_victim = format!("uid={VICTIM}");
    let taken = scene.service.heard(&["announced:", &of_victim]);
    assert_eq!(taken, [""; 0]);
}

/// Links to the app and its files, and other ways to say where they are.
fn link(scene: &mut Scene) {
    let names = "cd \"$1\"/home/hostile && ln -s /app app && ln -s /data data && ln -s big 0 && \
                 { ln ../../app hard || :; } && { ln ../../data/0 hard-0 || :; } && \
                 mkdir bin && ln -s ../big bin/app && cp own bin/cat";
    let mut made = scene.outside(names);
    succeed(made.stderr(Stdio::null()));
    for script in [
        "exec /home/hostile/app /home/hostile/big",
        "exec /data/../home/hostile/../../app /home/hostile/data/../home/hostile/big",
        "exec /bin/../home/hostile/own",
        "PATH=/home/hostile/bin:/bin exec /app",
        "[ ! -e /home/hostile/hard ] || exec /home/hostile/hard /home/hostile/big",
    ] {
        drop_caches();
        succeed(&mut scene.inside(script));
    }
    scene.victim_is_unharmed("links");
}

/// Another file at the app's path: in mounts of the user's own, and below a root directory of his.
fn change_roots(scene: &mut Scene) {
    let own_mounts = "mount --bind \"$1\"/home/hostile/own \"$1\"/app && exec chroot \"$1\" /app";
    let own_root = "cd \"$1\"/home/hostile && mkdir -p root/home/hostile && ln big root/home/hostile/big && \
                    cp -R ../../bin ../../lib* root && cp own root/app && exec chroot root /app";
    for script in [own_mounts, own_root] {
        let unshared =
            format!("exec unshare --user --map-root-user --mount sh -c '{script}' sh \"$1\"");
        drop_caches();
        succeed(&mut scene.outside(&unshared));
        scene.victim_is_unharmed(script);
    }
}

/// Calls of the app's name, most of them in vain, and of the app itself.
fn flood(scene: &mut Scene) {
    let script = "i=0; while [ $i -lt 2000 ]; do /nonexistent/app; /home/hostile/flood/app; \
                  i=$((i+1)); done; \
                  i=0; while [ $i -lt 100 ]; do /app; i=$((i+1)); done; :";
    let dir = scene.home().join("flood");
    fs::create_dir(&dir).unwrap();
    common::copy_program(scene.home().join("brief"), dir.join("app"));
    let mut calling = Meanwhile::start(scene.inside(script).stderr(Stdio::null()));
    for _ in 0..2 {
        scene.prefetched("the flood goes on");
    }
    assert!(calling.0.wait().unwrap().success());
    scene.victim_is_unharmed("a flood of calls");
}

/// 3000 processes at once, all of them in a launch of the app.
fn fork(scene: &mut Scene) {
    let bomb = "i=0; while [ $i -lt 3000 ]; do (read x < /home/hostile/gate) & i=$((i+1)); done; \
                echo > /home/hostile/peak; wait";
    fs::create_dir(scene.home().join("bomb")).unwrap();
    scene.image.script("home/hostile/bomb/cat", bomb);
    let gate = scene.home().join("gate");
    succeed(Command::new("mkfifo").args(["-m", "666"]).arg(&gate));
    // Each of its shells complains that there is no /dev/null.
    let mut bomb = scene.inside("PATH=/home/hostile/bomb exec /app");
    let bomb = Meanwhile::start(bomb.stderr(Stdio::null()));
    let peak = scene.home().join("peak");
    until("all children are there", || peak.exists());
    scene.victim_is_unharmed("a fork bomb at its peak");
    drop(bomb);
    scene.victim_is_unharmed("a fork bomb");
}
