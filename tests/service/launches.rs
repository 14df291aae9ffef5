//! Launches that nobody prefixes with anything.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use paralfetch::model::Place;
use paralfetch::model::{Profile, UserApp};
use paralfetch::profile::Store;
use paralfetch::service::registry::Registry;

use crate::running::{Image, LIMIT, Launched, Running, WAIT, files_in, number};
use crate::{seen_early_and_late, set_up};
use common::drop_caches;
use common::root::{install_as, pages_of};
use common::slowed::Slowed;
use common::succeed;

#[test]
fn a_plain_launch_is_learned_and_the_next_is_prefetched() {
    seen_early_and_late(|image| {
        image.enable("app");
        let mut service = image.start();
        image.learn(&mut service, "app");
        let line = image.launch_cold(&mut service, "app");
        assert!(line.contains("kind=Prefetched"), "{line}");
        // The app reads as fast as it is prefetched: who is first, chance decides.
        assert!(number(&line, "prefetched_bytes") > 1 << 20, "{line}");
        assert!(number(&line, "read_bytes") > 7 << 20, "{line}");
        service.stop();
        let names = files_in(image.root.state.path());
        assert!(names.iter().any(|name| name.ends_with(".pf")), "{names:?}");
        assert!(names.contains(&"managed.json".to_owned()), "{names:?}");
    });
}

#[test]
fn a_profile_and_the_registry_name_the_executable() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_recorded("app");
    // An app that is gone before it can be looked at is known by its path alone.
    for _ in 0..3 {
        image.launch_cold(&mut service, "app");
    }
    service.stop();
    let id = image.id("app");
    let file = fs::metadata(&id).unwrap();
    let state = image.root.state.path();
    let stored = Store::create(state).unwrap().list().unwrap();
    assert_eq!(stored.len(), 1);
    let app = stored[0].profile.as_ref().unwrap().app.clone();
    assert_eq!((app.dev, app.ino), (file.dev(), file.ino()));
    let (registry, damaged) = Registry::load(state).unwrap();
    assert_eq!(damaged, None);
    let app = registry.records[&UserApp::new(0, id.as_str())]
        .app
        .clone()
        .unwrap();
    assert_eq!((app.dev, app.ino), (file.dev(), file.ino()));
}

#[test]
fn two_launches_are_learned_and_what_either_used_is_prefetched() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure("prefetch.max_learned_launches = 2\n");
    image.script("app", "cat /data/1 $(cat /which)");
    image.enable("app");
    let mut service = image.start();
    let which = image.root.path().join("which");
    fs::write(&which, "/data/2").unwrap();
    image.learn(&mut service, "app");
    image.until_stored("app");
    fs::write(&which, "/data/3").unwrap();
    drop_caches();
    service.ready_to_learn();
    image.launch("app");
    let second = service.launch_of(&image.id("app"));
    assert!(second.contains("kind=Learned"), "{second}");
    assert!(number(&second, "prefetched_bytes") > 0, "{second}");
    let third = image.launch_cold(&mut service, "app");
    assert!(third.contains("kind=Prefetched"), "{third}");
    service.stop();
    let profile = image.root.show("app");
    for file in 1..=3 {
        let pages = pages_of(&profile, &format!("/data/{file}"));
        assert!(!pages.is_empty(), "/data/{file}");
    }
}

/// A link among the system's commands, as that of an app is; removed when this is dropped.
struct CommandLink(PathBuf);

impl CommandLink {
    fn to(file: &str) -> Self {
        let link = format!("/usr/local/bin/paralfetch-test-link-{}", std::process::id());
        symlink(file, &link).unwrap();
        CommandLink(link.into())
    }
}

impl Drop for CommandLink {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A link among this user's own commands; removed when this is dropped, with the directory if that was made for it.
struct OwnLink {
    link: PathBuf,
    made: Option<PathBuf>,
}

impl OwnLink {
    fn to(file: &str) -> Self {
        let account = succeed(Command::new("getent").args(["passwd", "0"]));
        let bin = Path::new(account.split(':').nth(5).unwrap()).join("bin");
        let made = fs::create_dir(&bin).is_ok().then(|| bin.clone());
        let link = bin.join(format!("paralfetch-own-link-{}", std::process::id()));
        symlink(file, &link).unwrap();
        OwnLink { link, made }
    }
}

impl Drop for OwnLink {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
        if let Some(made) = &self.made {
            let _ = fs::remove_dir(made);
        }
    }
}

/// Launches an app that reads its standard input, lets it end once the service has seen it, and waits for the end of its
/// launch.
fn until_seen(service: &mut Running, id: &str, command: &mut Command) {
    let mut app = command.stdin(Stdio::piped()).spawn().unwrap();
    service.line(&["launch begins", id]);
    drop(app.stdin.take());
    let status = app.wait().unwrap();
    assert!(status.success(), "{status}");
    service.launch_of(id);
}

/// By none of both does the kernel tell the name that the app was enabled by.
#[test]
fn a_launch_by_a_link_among_the_commands_or_by_a_descriptor_is_the_apps() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    install_as(
        Path::new("/bin/cat"),
        Path::new("/reader"),
        image.root.path(),
    );
    let id = image.id("reader");
    let data = image.root.path().join("data/1");
    let link = CommandLink::to(&id);
    image.enable("reader");
    let mut service = image.start();
    service.line(&["executables were located"]);
    let launched = |service: &mut Running, command: &mut Command| {
        command.arg(&data).arg("-").stdout(Stdio::null());
        until_seen(service, &id, command);
    };
    launched(&mut service, &mut Command::new(&link.0));
    let execute =
        "import os, sys; os.execve(os.open(sys.argv[1], os.O_RDONLY), sys.argv[1:], os.environ)";
    launched(
        &mut service,
        Command::new("python3").args(["-c", execute, &id]),
    );
    // Through a link of another name, wherever it lies, and by the name that shells have for a descriptor.
    let elsewhere = image.root.path().join("elsewhere");
    symlink(&id, &elsewhere).unwrap();
    launched(&mut service, &mut Command::new(&elsewhere));
    let by_descriptor = ["-c", "exec 9<\"$0\"; exec /dev/fd/9 \"$@\"", &id];
    launched(&mut service, Command::new("sh").args(by_descriptor));
    // What has another name and another file is not.
    let other = image.root.path().join("other");
    common::copy_program("/bin/cat", &other);
    let read = Command::new(&other).arg(&data).output().unwrap();
    assert!(read.status.success() && !read.stdout.is_empty(), "{read:?}");
    launched(&mut service, &mut Command::new(&link.0));
    service.stop();
    let stats = image.paralfetch(&["stats", "--json", &id]);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["launches"].as_array().unwrap().len(), 5, "{stats}");
}

/// Of a script, the kernel knows the interpreter's file alone.
#[test]
fn a_script_is_seen_by_a_descriptor_and_by_a_link_among_its_users_own_commands() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script("tool", "cat");
    let id = image.id("tool");
    let own = OwnLink::to(&id);
    image.enable("tool");
    let mut service = image.start();
    service.until_located(1);
    until_seen(&mut service, &id, &mut Command::new(&id));
    for given in ["/dev/fd/9", "/proc/self/fd/9"] {
        let text = format!("exec 9<\"$0\"; exec {given}");
        let mut command = Command::new("sh");
        until_seen(&mut service, &id, command.args(["-c", &text, &id]));
    }
    let execute = "import os, sys; file = os.open(sys.argv[1], os.O_RDONLY); os.set_inheritable(file, True); \
                   os.execve(file, sys.argv[1:], os.environ)";
    let mut command = Command::new("python3");
    until_seen(&mut service, &id, command.args(["-c", execute, &id]));
    // The first launch was its user's first of all: his links are looked for since.
    service.until_located(2);
    until_seen(&mut service, &id, &mut Command::new(&own.link));
}

#[test]
fn other_programs_and_other_roots_are_left_alone() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    image.script("sub", "exit 0");
    let mut service = image.start();
    // The same name somewhere else, and the same path in a container's mount namespace.
    let elsewhere = tempfile::tempdir().unwrap();
    let twin = elsewhere.path().join("app");
    common::copy_program("/bin/true", &twin);
    let status = Command::new(&twin).stdout(Stdio::null()).status();
    assert!(status.unwrap().success());
    image.launch("sub");
    image.learn(&mut service, "app");
    let before = image.paralfetch(&["list", "--json"]);
    assert!(before.status.success(), "{before:?}");
    let text = String::from_utf8_lossy(&before.stdout);
    let twin = twin.to_str().unwrap();
    assert!(!text.contains(twin), "{text}");
    assert_eq!(service.heard(&["launch begins", twin]), [""; 0]);
    assert_eq!(service.heard(&["launch begins"]).len(), 1);
}

/// They record, prefetch or measure a launch themselves.
#[test]
fn launches_of_our_own_commands_are_left_to_them() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.root.learn(&[], &["/app"]);
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
    let begun = ["launch begins", &format!("app=\"{}\"", image.id("app"))];
    assert_eq!(service.heard(&begun).len(), 2);
    service.stop();
}

/// A container has a root and mounts of its own. A path there is another file's, even if it reads the same.
#[test]
fn an_equal_path_in_a_container_is_not_taken_for_the_app() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    let (id, root) = (image.id("app"), image.root.path().to_str().unwrap());
    let run = |script: &str| {
        let mut container = Command::new("unshare");
        container.args(["--mount", "sh", "-ec", script, "sh", root, &id]);
        drop_caches();
        let status = container.stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{script}: {status}");
    };
    image.script("copy", "cat /data/1*");
    run("mkdir -p $1$1; cp $1/copy $1$1/app; mount --bind $1 /mnt; cd /mnt; exec chroot . $2");
    run("mount --bind $1/copy $2; exec chroot $1 /app");
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
    assert_eq!(service.heard(&["INFO launch ", &id]).len(), 2);
}

#[test]
fn names_of_any_length_are_seen() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let names = ["a", "vi", "cal", "gimp", "kword"];
    for name in names {
        image.script(name, "cat /data/*");
        image.enable(name);
    }
    let mut service = image.start();
    for name in names {
        image.launch(name);
        service.launch_of(&image.id(name));
    }
}

#[test]
fn what_records_goes_once_nothing_is_to_be_learned() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script_that_goes_on("app");
    image.enable("app");
    let mut service = image.start();
    let has_thread = |service: &Running| {
        let tasks = format!("/proc/{}/task", service.pid());
        std::fs::read_dir(tasks).unwrap().any(|task| {
            let name = std::fs::read_to_string(task.unwrap().path().join("comm"));
            name.is_ok_and(|name| name.trim() == "pf-learn")
        })
    };
    // Programs that are attached, and maps.
    let kept = |service: &Running| {
        let files = std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
        let names = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        names
            .filter(|name| name.to_string_lossy().contains("bpf"))
            .count()
    };
    service.ready_to_learn();
    // What sees pages is attached.
    let ready = kept(&service);
    assert!(!has_thread(&service));
    let app = image.spawn("app");
    service.line(&["launch begins"]);
    image.let_end();
    app.succeed();
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    // Attached, they would cost every process of the system.
    let begun = Instant::now();
    while has_thread(&service) || kept(&service) + 5 > ready {
        assert!(begun.elapsed() < LIMIT, "it is still there");
        std::thread::yield_now();
    }
}

#[test]
fn a_wrapper_and_what_it_executes_are_one_launch() {
    seen_early_and_late(|image| {
        image.script("wrapper", "exec /app");
        image.enable("wrapper");
        image.enable("app");
        let mut service = image.start();
        image.learn(&mut service, "wrapper");
        let line = image.launch_cold(&mut service, "wrapper");
        assert!(line.contains("kind=Prefetched"), "{line}");
        let of_app = format!("app=\"{}\"", image.id("app"));
        assert_eq!(service.heard(&[&of_app]), Vec::<&str>::new());
        // The app by itself is an app of its own, not launched so far.
        image.learn_in_the_end(&mut service, "app");
    });
}

#[test]
fn a_learned_script_is_prefetched_and_others_of_its_interpreter_are_left_alone() {
    seen_early_and_late(|image| {
        let path = |name: &str| image.root.path().join(name);
        // The shell stands in for Python: it takes a script in the same way.
        common::copy_program(path("bin/sh"), path("bin/python3"));
        for script in ["a.py", "b.py"] {
            fs::write(path(script), "cat /data/*\n").unwrap();
        }
        image.root.learn(&[], &["/bin/python3", "a.py"]);
        let mut service = image.start();
        let launch = |script: &str| {
            drop_caches();
            let mut launch = Command::new("chroot");
            launch.arg(image.root.path()).args(["/bin/python3", script]);
            launch.stdin(Stdio::null()).stdout(Stdio::null());
            assert!(launch.status().unwrap().success());
        };
        launch("b.py");
        launch("a.py");
        let line = service.launch_of(&image.id("a.py"));
        assert!(line.contains("kind=Prefetched"), "{line}");
        let of_others = |name: &str| format!("app=\"{}\"", image.id(name));
        for name in ["bin/python3", "b.py"] {
            assert_eq!(
                service.heard(&["launch begins", &of_others(name)]),
                Vec::<&str>::new()
            );
        }
    });
}

/// A fork server preloads what apps have in common, and forks. The child is the app, without execve.
#[test]
fn forked_apps_are_announced() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let mut service = image.start();
    let socket = image.run_dir().join("launch.sock");
    let files: Vec<String> = (0..common::root::FILES)
        .map(|file| image.id(&format!("data/{file}")))
        .collect();
    let mut server = Command::new("python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/common/fork_server.py"
        ))
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut answer = move || answers.next().expect("the server answers").unwrap();
    assert!(answer().starts_with("ready "));
    // The child waits for nobody: it reads once the service has begun what this waits for.
    let mut launch = |service: &mut Running, begun: &[&str]| {
        drop_caches();
        writeln!(stdin, "launch mail").unwrap();
        let launched = answer();
        let pid = launched.split(' ').nth(1).unwrap();
        assert!(answer().starts_with("read "), "{launched}");
        service.line(begun);
        writeln!(stdin, "read {pid} {}", files.join(" ")).unwrap();
        let read = answer();
        assert!(read.starts_with("read "), "{launched}, {read}");
        writeln!(stdin, "end {pid}").unwrap();
        assert_eq!(answer(), format!("ended {pid}"));
        service.launch_of("announced:mail")
    };
    let begins = ["launch begins", "announced:mail"];
    // Nobody knows it yet: nothing is there to learn it with.
    launch(&mut service, &begins);
    service.ready_to_learn();
    let line = launch(&mut service, &["recording"]);
    assert!(line.contains("kind=Learned"), "{line}");
    let line = launch(&mut service, &begins);
    assert!(line.contains("kind=Prefetched"), "{line}");
    drop(stdin);
    server.wait().unwrap();
}

/// Launches from empty caches until that was prefetched, and what it missed noted; now and then a launch is only measured,
/// to compare. The app ends once nothing more is read ahead for it: a prefetch that is cut off tells nothing.
fn prefetched_cold(image: &Image, service: &mut Running, name: &str) {
    for _ in 0..3 {
        image.hold();
        drop_caches();
        let app = image.spawn(name);
        let begins = service.line(&["launch begins"]);
        let is_prefetched = begins.contains("plan=Prefetch");
        if is_prefetched {
            service.line(&["nothing more is read ahead"]);
        }
        image.let_end();
        app.succeed();
        let line = service.launch_of(&image.id(name));
        if is_prefetched {
            assert!(line.contains("kind=Prefetched"), "{line}");
            service.line(&["what the launch missed was noted"]);
            return;
        }
        assert!(line.contains("kind=Withheld"), "{line}");
    }
    panic!("{name} was not prefetched");
}

#[test]
fn only_reads_of_what_the_profile_lacks_lead_back_to_learning() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // What is scheduled anew meanwhile takes in nothing.
    image.configure("prefetch.dynamic = false\n");
    // As fast as its prefetching: it makes many requests of its own, all for what is scheduled.
    image.script("reader", &format!("cat $(cat /list); {WAIT}"));
    image.let_end();
    let list = image.root.path().join("list");
    fs::write(&list, "/data/[1-5]?").unwrap();
    image.enable("reader");
    let mut service = image.start();
    service.ready_to_learn();
    let line = image.launch_cold(&mut service, "reader");
    assert!(line.contains("kind=Learned"), "{line}");
    for _ in 0..4 {
        let line = image.launch_cold(&mut service, "reader");
        assert!(line.contains("kind=Prefetched"), "{line}");
    }
    // One launch proves nothing: it may have been another document.
    for files in ["/data/[6-7]?", "/data/[8-9]?", "/data/[8-9]?"] {
        let heard = service.heard(&["will be learned again"]);
        assert!(heard.is_empty(), "{heard:?}");
        fs::write(&list, files).unwrap();
        image.root.image.sync();
        prefetched_cold(&image, &mut service, "reader");
    }
    service.ready_to_learn();
    let line = image.launch_cold(&mut service, "reader");
    assert!(line.contains("kind=Learned"), "{line}");
    let words = ["will be learned again", "as in an earlier launch"];
    let reasons = service.heard(&words);
    assert_eq!(reasons.len(), 1);
    service.stop();
}

/// What its first process, a shell, starts waits for the drive, and the shell for that.
#[test]
fn a_launch_goes_on_while_any_thread_of_its_tree_waits_for_the_drive() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let Some((slowed, _, read)) = Slowed::reading(&image.root) else {
        return;
    };
    image.script("app", &format!("{read} >/dev/null; : >/done; {WAIT}"));
    fs::create_dir(image.root.path().join("dev")).unwrap();
    image.enable("app");
    assert!(
        image
            .paralfetch(&["disable", &image.id("app")])
            .status
            .success()
    );
    let mut service = image.start();
    // Each of its reads is a pause that is longer than a quiet window.
    let mut app = Launched(slowed.command(&image.launcher("app")).spawn().unwrap());
    service.launch_of(&image.id("app"));
    assert!(
        image.root.path().join("done").exists(),
        "it has read everything"
    );
    image.let_end();
    assert!(app.0.wait().unwrap().success());
    service.stop();
}

#[test]
fn apps_that_are_started_at_once_are_all_learned() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // None of them is over before it is let end.
    image.configure("[launch]\nquiet_window_ms = 20000\n");
    // Each reads 30 files of its own.
    let apps = [("first", "[1-3]"), ("second", "[4-6]"), ("third", "[7-9]")];
    for (name, tens) in apps {
        image.script(name, &format!("cat /data/{tens}?; {WAIT}"));
        image.enable(name);
    }
    let mut service = image.start();
    // A recorder is ready for one of them. It may come too late for what the others do first, and for all of it.
    service.ready_to_learn();
    let running = apps.map(|(name, _)| image.spawn(name));
    for _ in apps {
        service.line(&["launch begins"]);
    }
    image.let_end();
    running.into_iter().for_each(Launched::succeed);
    let lines = apps.map(|_| service.line(&["INFO launch "]));
    assert!(
        lines.iter().any(|line| line.contains("kind=Learned")),
        "{lines:?}"
    );
    for (name, _) in apps {
        let id = format!("{}\"", image.id(name));
        let line = lines.iter().find(|line| line.contains(&id)).unwrap();
        if !line.contains("kind=Learned") {
            assert!(
                line.contains("its first moments were not recorded"),
                "{line}"
            );
            image.learn_in_the_end(&mut service, name);
        }
    }
    for (name, _) in apps {
        image.until_stored(name);
    }
    service.stop();
    let stored = Store::create(image.root.state.path())
        .unwrap()
        .list()
        .unwrap();
    for (name, tens) in apps {
        let mut of_app = stored
            .iter()
            .map(|stored| stored.profile.as_ref().unwrap())
            .filter(|profile| profile.app.path.ends_with(name.as_bytes()));
        let scheduled = data_files(of_app.next().unwrap());
        let wanted = (10..100).filter(|number| {
            let first = char::from_digit(number / 10, 10).unwrap();
            (tens.as_bytes()[1]..=tens.as_bytes()[3]).contains(&(first as u8))
        });
        let wanted: BTreeSet<String> = wanted.map(|number| format!("/data/{number}")).collect();
        assert_eq!(scheduled, wanted, "{name}");
    }
}

/// Files in /data that the profile's schedule reads.
fn data_files(profile: &Profile) -> BTreeSet<String> {
    let places = profile.entries.iter().map(|entry| entry.span.place);
    places
        .filter_map(|place| match place {
            Place::Data { file } => profile.files[file as usize].path.clone(),
            Place::Metadata { .. } => None,
        })
        .map(|path| String::from_utf8(path).unwrap())
        .filter(|path| path.starts_with("/data/"))
        .collect()
}

/// The file that is read last in the launch that is learned is read in no other.
#[test]
fn the_time_of_a_launch_is_told_though_it_leaves_out_what_the_learned_one_read_last() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let path = |name: &str| image.root.path().join(name);
    fs::copy(path("data/0"), path("last")).unwrap();
    fs::write(path("background"), "").unwrap();
    image.script(
        "app",
        "if [ -e /background ]; then cat /data/* /last; else cat /data/*; fi",
    );
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    fs::remove_file(path("background")).unwrap();
    for _ in 0..2 {
        image.launch_cold(&mut service, "app");
    }
    service.stop();
    let profile = image.root.show("app");
    let pages = profile["completion"].as_array().unwrap();
    assert!(pages.len() > 1, "{pages:?}");
    let stats = image.paralfetch(&["stats", "--json", &image.id("app")]);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    let launches = stats["launches"].as_array().unwrap();
    assert_eq!(launches.len(), 3, "{stats}");
    for launch in launches {
        assert!(launch["duration_us"].is_u64(), "{launch}");
    }
}
