//! The service is killed (SIGKILL) in each phase of its life. Whatever it was doing: the app goes on, what
//! is stored can be used, and nothing is left behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use libbpf_rs::query::ProgInfoIter;

use crate::running::{Image, Launched, Running, files_in};
use crate::set_up;
use common::{drop_caches, until};

/// What must be after a kill as it was before the service was started.
struct Before {
    programs: BTreeSet<u32>,
    settings: Vec<String>,
}

impl Before {
    fn look(image: &Image) -> Before {
        Before {
            programs: programs(),
            settings: settings(image),
        }
    }

    /// Kills the service; the app must end well, and nothing of the service be left.
    fn kill(&self, image: &Image, service: Running, app: Option<Launched>) {
        service.kill();
        if let Some(app) = app {
            app.succeed();
        }
        // The kernel frees programs a moment after the last descriptor is closed.
        until("no program is left", || {
            programs().is_subset(&self.programs)
        });
        assert_eq!(settings(image), self.settings);
        let listed = image.paralfetch(&["list", "--json"]);
        assert!(listed.status.success(), "{listed:?}");
    }
}

/// Ids of the BPF programs that are loaded.
fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}

/// What learning by hand changes, and the service never does.
fn settings(image: &Image) -> Vec<String> {
    let device = image.root.image.device().file_name().unwrap();
    let device = device.to_str().unwrap();
    let read = |path: String| fs::read_to_string(path).unwrap();
    vec![
        read(format!("/sys/block/{device}/queue/read_ahead_kb")),
        read(format!("/sys/fs/ext4/{device}/inode_readahead_blks")),
    ]
}

/// The next service finds everything in order, and tidies up.
fn start_again(image: &Image) -> Running {
    let mut service = image.start();
    let said = service.listen(Duration::ZERO);
    let warning = said.iter().find(|line| line.contains("WARN"));
    assert_eq!(warning, None);
    let names = files_in(image.root.state.path());
    assert!(
        names
            .iter()
            .all(|name| !name.ends_with(".tmp") && !name.ends_with(".damaged")),
        "{names:?}"
    );
    service
}

fn set_going_on(image: &Image, go: bool) {
    let path = image.root.path().join("go");
    match go {
        true => image.let_end(),
        false => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn while_it_starts() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let before = Before::look(&image);
    // It opens more and more files and loads programs: each of these is another moment.
    for open in [4, 6, 8, 12, 20, 30, 40] {
        let starting = image.start_command(image.service());
        let dir = format!("/proc/{}/fd", starting.running.pid());
        until("files are open, or all is ready", || {
            let count = fs::read_dir(&dir).unwrap().count();
            count >= open || image.run_dir().join("fetch_app").exists()
        });
        before.kill(&image, starting.running, Some(image.spawn("app")));
        // What a service makes, those after it find.
        let made = image.run_dir().join("fetch_app");
        if made.exists() {
            fs::remove_file(made).unwrap();
        }
    }
    let mut service = start_again(&image);
    image.learn(&mut service, "app");
}

#[test]
fn while_a_launch_is_learned_and_when_that_is_resolved_and_written() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script_that_goes_on("app");
    image.enable("app");
    let before = Before::look(&image);

    let mut service = image.start();
    service.ready_to_learn();
    let app = image.spawn("app");
    service.line(&["launch begins", "Learn"]);
    set_going_on(&image, true);
    before.kill(&image, service, Some(app));

    // The app has exited: now what was seen of it is resolved.
    let mut service = start_again(&image);
    service.ready_to_learn();
    image.launch("app");
    before.kill(&image, service, None);

    // Profile, registry and history are written right after this line.
    let mut service = start_again(&image);
    image.learn(&mut service, "app");
    before.kill(&image, service, None);

    let mut service = start_again(&image);
    let line = image.launch_cold(&mut service, "app");
    if !is_known(&line) {
        image.learn_in_the_end(&mut service, "app");
    }
    // Whichever of the two it was, what is stored can be used.
    image.prefetch_in_the_end(&mut service, "app");
}

/// Whether a profile was stored before this launch, or was made of it.
fn is_known(line: &str) -> bool {
    ["kind=Prefetched", "kind=Learned"]
        .iter()
        .any(|kind| line.contains(kind))
}

#[test]
fn while_a_launch_is_prefetched_and_while_its_profile_is_looked_through() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script_that_goes_on("app");
    set_going_on(&image, true);
    image.enable("app");
    let before = Before::look(&image);
    let mut service = image.start();
    image.learn(&mut service, "app");
    service.stop();

    let mut service = start_again(&image);
    set_going_on(&image, false);
    drop_caches();
    let app = image.spawn("app");
    service.line(&["launch begins", "Prefetch"]);
    set_going_on(&image, true);
    before.kill(&image, service, Some(app));

    // A file of the app is replaced: its profile is written anew after the launch.
    let mut service = start_again(&image);
    let data = image.root.path().join("data");
    fs::copy(data.join("7"), data.join("new")).unwrap();
    fs::rename(data.join("new"), data.join("7")).unwrap();
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
    before.kill(&image, service, None);

    let mut service = start_again(&image);
    image.prefetch_in_the_end(&mut service, "app");
}

/// At moments spread over a launch, its learning and writing, by the same sequence each time.
#[test]
fn at_any_moment() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure("[launch]\nquiet_window_ms = 100\n");
    for name in ["one", "two"] {
        image.script(name, "cat /data/*");
        image.enable(name);
    }
    let before = Before::look(&image);
    let mut seed: u64 = 20_260_101;
    for round in 0..4 {
        let mut service = start_again(&image);
        if round % 3 != 0 {
            service.listen(Duration::from_millis(seed % 300));
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 1;
        drop_caches();
        let app = image.spawn(["one", "two"][round % 2]);
        service.listen(Duration::from_millis(seed % 400));
        before.kill(&image, service, Some(app));
        assert_few_files(image.root.state.path());
    }
    let mut service = start_again(&image);
    for name in ["one", "two"] {
        let line = image.launch_cold(&mut service, name);
        if !is_known(&line) {
            image.learn_in_the_end(&mut service, name);
        }
        image.prefetch_in_the_end(&mut service, name);
    }
}

/// Two profiles with their sequences, the registry, the history and its journal, and what one kill can
/// have left.
fn assert_few_files(state: &Path) {
    let names = files_in(state);
    assert!(names.len() <= 8, "{names:?}");
}
