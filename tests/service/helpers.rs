//! What other processes do for an app that the service learns: a service that a bus starts, and an older process of
//! the app's user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::running::{Image, Launched, Running, WAIT};
use crate::{Turn, set_up};
use common::fake_bus::{APP, Cgroups, make_pipes, reading, served};
use common::root::{WHOLE, pages_of};
use common::{drop_caches, lacking};

/// A user who has no name, and no processes but those of these tests.
const USER: &str = "--userspec=64123:64123";

fn with_bus() -> Option<(Image, Turn)> {
    let (image, turn) = set_up()?;
    make_pipes(image.root.path());
    image.script("app", APP);
    image.enable("app");
    Some((image, turn))
}

/// What launches the app in that user's name, after a shell has done what `first` says.
fn launcher(image: &Image, first: &str) -> Command {
    let root = image.root.path().display();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{first}exec chroot {USER} {root} /app")]);
    shell.stdin(Stdio::null());
    shell
}

/// Has a launch learned that the bus serves from these files, or another process serves if there are none. Both the
/// launch and the service do what `first` says before.
fn learn(image: &Image, service: &mut Running, files: &[usize], first: &str) {
    service.ready_to_learn();
    let app = launcher(image, first);
    match files {
        [] => Launched({ app }.stdout(Stdio::null()).spawn().unwrap()).succeed(),
        files => {
            let reading = format!("{first}{}", reading(image.root.path(), 0, files));
            served(image.root.path(), &reading, app);
        }
    }
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    image.until_stored("app");
}

fn learned(image: &Image, file: usize) -> Vec<u64> {
    pages_of(&image.root.show("app"), &format!("/data/{file}"))
}

/// The files that helpers of the learned launch accessed, by their inodes.
fn helper_inodes(image: &Image) -> Vec<u64> {
    let profile = image.root.show("app");
    let helpers = profile["helpers"].as_array().unwrap().iter();
    helpers
        .map(|read| read["inode"].as_u64().unwrap())
        .collect()
}

/// A service that learns the app again.
fn start_to_learn_again(image: &Image, service: Running) -> Running {
    service.stop();
    let asked = image.paralfetch(&["relearn", &image.id("app")]);
    assert!(asked.status.success(), "{asked:?}");
    image.start()
}

#[test]
fn reads_of_a_helper_are_learned_when_they_recur() {
    let Some((image, _turn)) = with_bus() else {
        return;
    };
    let mut service = image.start();
    learn(&image, &mut service, &[50, 51], "");
    assert!(learned(&image, 1).into_iter().eq(WHOLE));
    assert!(learned(&image, 50).is_empty(), "it may have been chance");
    let noted = helper_inodes(&image);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert!(noted.contains(&inode(&image.root.path().join("data/50"))));
    // What records a launch starts a process of the same program.
    assert!(!noted.contains(&inode(common::program().as_ref())));
    let mut service = start_to_learn_again(&image, service);
    learn(&image, &mut service, &[50, 52], "");
    service.stop();
    assert!(learned(&image, 50).into_iter().eq(WHOLE));
    for chance in [51, 52] {
        assert!(learned(&image, chance).is_empty(), "/data/{chance}");
    }
}

#[test]
fn processes_in_the_launchs_own_cgroup_belong_to_the_launch() {
    let Some((image, _turn)) = with_bus() else {
        return;
    };
    let cgroups = Cgroups::new();
    let mut service = image.start();
    service.ready_to_learn();
    let (root, enter) = (image.root.path(), cgroups.enter());
    // A launch may be over before the service has looked at its cgroup, so what is served to it waits for that.
    let wait = WAIT.replace("/go", root.join("go").to_str().unwrap());
    let serve = format!("{wait}; {enter}{}", reading(root, 0, &[50]));
    thread::scope(|scope| {
        scope.spawn(|| {
            service.line(&["all of its cgroup belongs to the launch"]);
            image.let_end();
        });
        served(root, &serve, launcher(&image, &enter));
    });
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    image.until_stored("app");
    service.stop();
    assert!(learned(&image, 50).into_iter().eq(WHOLE));
}

/// Tried where the io controller is one of the hierarchy of version 2.
#[test]
fn a_launch_whose_cgroup_limits_reads_is_not_prefetched() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let cgroups = Cgroups::new();
    let above = cgroups.own.parent().unwrap();
    let controllers = fs::read_to_string(above.join("cgroup.controllers")).unwrap();
    if !controllers.split_ascii_whitespace().any(|it| it == "io") {
        lacking("the io controller is not one of the hierarchy of version 2");
        return;
    }
    fs::write(above.join("cgroup.subtree_control"), "+io").unwrap();
    let dev = fs::metadata(image.root.path()).unwrap().dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let limit = format!("{major}:{minor} rbps=104857600");
    fs::write(cgroups.own.join("io.max"), limit).unwrap();
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.prefetch_in_the_end(&mut service, "app");
    drop_caches();
    let enter = cgroups.enter();
    let root = image.root.path().display();
    let launch = format!("{enter} exec chroot {root} /app > /dev/null");
    let launched = Command::new("sh").args(["-c", &launch]).status().unwrap();
    assert!(launched.success());
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("is limited (io.max)"), "{line}");
    image.prefetch_in_the_end(&mut service, "app");
    service.stop();
}

#[test]
fn a_cgroup_with_an_older_process_is_not_the_launchs_own() {
    let Some((image, _turn)) = with_bus() else {
        return;
    };
    let cgroups = Cgroups::new();
    let mut service = image.start();
    let older = format!("{}exec sleep 1000", cgroups.enter());
    let older = Launched(Command::new("sh").args(["-c", &older]).spawn().unwrap());
    learn(&image, &mut service, &[50], &cgroups.enter());
    service.stop();
    assert!(learned(&image, 50).is_empty());
    drop(older);
}

#[test]
fn what_an_older_process_of_the_user_reads_is_learned_when_it_recurs() {
    let Some((image, _turn)) = with_bus() else {
        return;
    };
    let mut service = image.start();
    for (round, other) in [51, 52].into_iter().enumerate() {
        if round > 0 {
            service = start_to_learn_again(&image, service);
        }
        drop_caches();
        // A shell that reads by itself, and starts nothing.
        let read = |file| format!("while read -r line; do :; done < /data/{file}");
        let serve = format!(
            "read -r asked < /ask; {}; {}; echo done > /answer",
            read(50),
            read(other)
        );
        let mut daemon = Command::new("chroot");
        daemon
            .arg(USER)
            .arg(image.root.path())
            .args(["/bin/sh", "-c", &serve]);
        let daemon = Launched(daemon.spawn().unwrap());
        learn(&image, &mut service, &[], "");
        daemon.succeed();
    }
    service.stop();
    assert!(learned(&image, 50).into_iter().eq(WHOLE));
    for chance in [51, 52] {
        assert!(learned(&image, chance).is_empty(), "/data/{chance}");
    }
}
