//! Launches beside a writer: settings are changed while such a launch is under way, and are as before whatever becomes
//! of the service, of its keeper, or of the settings meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::running::{Image, Launched, Running, WAIT};
use crate::set_up;
use common::until;

/// A launch is over when its app exits, and not before.
pub const UNTIL_EXIT: &str = "[launch]\nquiet_window_ms = 60000\ntimeout_s = 120\n";

/// All settings that the shield may change, as they were: they are written back if a test fails.
struct Settings(BTreeMap<PathBuf, String>);

impl Settings {
    fn of(image: &Image) -> Settings {
        Settings(
            Settings::paths(image)
                .map(|path| {
                    let value = value(&path);
                    (path, value)
                })
                .collect(),
        )
    }

    fn paths(image: &Image) -> impl Iterator<Item = PathBuf> {
        let device = image.root.image.device().file_name().unwrap();
        let queue = Path::new("/sys/block").join(device).join("queue");
        ["scheduler", "max_sectors_kb"]
            .map(|name| queue.join(name))
            .into_iter()
    }

    fn are_as_before(&self) -> bool {
        self.0.iter().all(|(path, before)| value(path) == *before)
    }

    /// Those that are not as before.
    fn changed(&self) -> Vec<&Path> {
        let changed = self
            .0
            .iter()
            .filter(|(path, before)| value(path) != **before);
        changed.map(|(path, _)| path.as_path()).collect()
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        for (path, before) in &self.0 {
            if value(path) != *before
                && let Err(error) = fs::write(path, before)
            {
                eprintln!("{}: {error}", path.display());
            }
        }
    }
}

/// A user who is logged in, as far as logind's files tell; he is not any more when this is dropped.
struct LoggedIn(PathBuf);

impl LoggedIn {
    fn new() -> LoggedIn {
        let users = Path::new("/run/systemd/users");
        fs::create_dir_all(users).unwrap();
        let user = users.join("54321");
        fs::write(&user, "STATE=active\n").unwrap();
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

fn value(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The scheduler in force is in brackets.
    let chosen = text.split_whitespace().find(|word| word.starts_with('['));
    let chosen = chosen.map(|word| word.trim_matches(['[', ']']));
    chosen.unwrap_or(text.trim()).to_owned()
}

/// A program that writes to the image all the time, for some minutes at most; ended when this is dropped.
struct Writer {
    process: Child,
    /// The statistics of the drive.
    stat: PathBuf,
}

impl Writer {
    fn start(image: &Image) -> Writer {
        let file = image.root.path().join("written");
        let script = format!(
            "n=0; while [ $n -lt 3000 ]; do \
             dd if=/dev/zero of={} bs=1M count=24 conv=notrunc,fsync 2>/dev/null; n=$((n + 1)); done",
            file.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::null());
        let device = image.root.image.device().file_name().unwrap();
        let writer = Writer {
            process: command.process_group(0).spawn().unwrap(),
            stat: Path::new("/sys/block").join(device).join("stat"),
        };
        let before = writer.written();
        until("the drive is being written", || {
            writer.written() > before + (32 << 20) / 512
        });
        writer
    }

    /// Sectors that the drive has written.
    fn written(&self) -> u64 {
        let stat = fs::read_to_string(&self.stat).unwrap();
        stat.split_whitespace().nth(6).unwrap().parse().unwrap()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}

/// A service with these settings, beside a writer, and somebody who is logged in.
fn beside_writer(image: &Image, settings: &str) -> (Running, Writer, LoggedIn) {
    let user = LoggedIn::new();
    image.script_that_goes_on("app");
    image.configure(&format!("{UNTIL_EXIT}{settings}"));
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    // A first launch is shielded if its drive is known by then.
    service.until_located(1);
    (service, Writer::start(image), user)
}

/// A launch for which settings have been changed.
fn shielded(image: &Image, before: &Settings) -> Launched {
    let app = image.spawn("app");
    until("settings are changed for the launch", || {
        !before.are_as_before()
    });
    app
}

/// The process that restores knobs for this service's shield.
fn keeper(image: &Image) -> Option<Pid> {
    let dir = image.run_dir().join("shield");
    let dir = dir.to_str().unwrap();
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    processes.find_map(|process| {
        let line = fs::read_to_string(process.path().join("cmdline")).ok()?;
        let is_keeper = line.contains("keep-knobs") && line.contains(dir);
        let pid = process.file_name().to_str()?.parse().ok()?;
        is_keeper.then(|| Pid::from_raw(pid)).flatten()
    })
}

/// The last launch in the history.
fn last_launch(image: &Image) -> serde_json::Value {
    image.until_recorded("app");
    let output = image.paralfetch(&["stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    stats["launches"][0].clone()
}

/// Whether the service has written down what it has made of a setting. Until then, what somebody else sets counts as what
/// the kernel has made of the service's value.
fn is_recorded(image: &Image, setting: &Path) -> bool {
    let record = image.run_dir().join("shield/knobs.json");
    let Ok(record) = fs::read(record) else {
        return false;
    };
    let setting = fs::canonicalize(setting).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let changes = record["changes"].as_array().unwrap().iter();
    let mut of_setting = changes
        .map(|change| &change["file"])
        .filter(|file| file["to"]["path"].as_str().map(Path::new) == Some(&*setting));
    of_setting.any(|file| !file["ours"].is_null())
}

/// What the administrator changes meanwhile is kept.
#[test]
fn a_launch_is_shielded_until_its_drive_is_written_no_longer() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let before = Settings::of(&image);
    let largest = Settings::paths(&image)
        .find(|path| path.ends_with("max_sectors_kb"))
        .unwrap();
    let (mut service, writer, _user) = beside_writer(&image, "");
    let app = shielded(&image, &before);
    until("requests are smaller", || {
        before.changed().contains(&&*largest) && is_recorded(&image, &largest)
    });
    fs::write(&largest, "96").unwrap();
    // Other settings follow this one.
    service.until_said(&["a drive is shielded"]);
    image.let_end();
    app.succeed();
    service.launch_of(&image.id("app"));
    drop(writer);
    until("the others are as before", || {
        before.changed() == [&*largest]
    });
    service.stop();
    assert_eq!(value(&largest), "96");

    let launch = last_launch(&image);
    assert_eq!(launch["background_writes"], true, "{launch}");
    let output = image.paralfetch(&["stats", &image.id("app")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("1 launch beside other programs' writes"),
        "{text}"
    );
}

#[test]
fn nothing_is_touched_with_the_shield_switched_off() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let before = Settings::of(&image);
    let (mut service, writer, _user) = beside_writer(&image, "[writes]\nshield = false\n");
    let app = image.spawn("app");
    service.line(&["launch begins"]);
    let written = writer.written() + (64 << 20) / 512;
    until("the drive was written meanwhile", || {
        assert!(before.are_as_before(), "{:?}", before.changed());
        writer.written() > written
    });
    image.let_end();
    app.succeed();
    service.launch_of(&image.id("app"));
    assert!(before.are_as_before(), "{:?}", before.changed());
    assert_eq!(keeper(&image), None);
    service.stop();
    let launch = last_launch(&image);
    assert_eq!(launch["background_writes"], false, "{launch}");
}

#[test]
fn settings_are_restored_when_the_service_is_stopped_or_killed() {
    for signal in [Signal::TERM, Signal::KILL] {
        let Some((image, _turn)) = set_up() else {
            return;
        };
        let before = Settings::of(&image);
        // The kernel raises it with each change of the largest request.
        let device = image.root.image.device().file_name().unwrap();
        let readahead = Path::new("/sys/block")
            .join(device)
            .join("queue/read_ahead_kb");
        let readahead_before = value(&readahead);
        let (service, writer, _user) = beside_writer(&image, "");
        let app = shielded(&image, &before);
        until("there is a keeper", || keeper(&image).is_some());
        if signal == Signal::TERM {
            service.stop();
            assert!(before.are_as_before(), "{:?}", before.changed());
        } else {
            // systemd asks all processes of a service to end when its first has been killed.
            kill_process(keeper(&image).unwrap(), Signal::TERM).unwrap();
            service.kill();
            until("the keeper has restored the settings", || {
                before.are_as_before()
            });
        }
        until("the keeper has ended", || keeper(&image).is_none());
        assert_eq!(value(&readahead), readahead_before);
        image.let_end();
        app.succeed();
        drop(writer);
    }
}

#[test]
fn the_next_service_restores_what_one_killed_with_its_keeper_had_changed() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let before = Settings::of(&image);
    let (service, writer, _user) = beside_writer(&image, "");
    let app = shielded(&image, &before);
    // Stopped, it lets nothing go.
    service.signal(Signal::STOP);
    kill_process(keeper(&image).unwrap(), Signal::KILL).unwrap();
    service.kill();
    until("the keeper has ended", || keeper(&image).is_none());
    assert!(!before.are_as_before(), "nobody can have restored it");
    // Even one that is to change nothing any more restores it.
    image.configure("[writes]\nshield = false\n");
    let service = image.start();
    assert!(before.are_as_before(), "{:?}", before.changed());
    service.stop();
    image.let_end();
    app.succeed();
    drop(writer);
}

/// An app that `run` starts, which goes on until it is let end.
fn run(image: &Image, options: &[&str]) -> Launched {
    image.hold();
    let command = [&["run"], options].concat();
    let mut run = image.root.paralfetch(&command, &["/bin/sh", "-c", WAIT]);
    Launched(run.stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_launch_by_hand_is_shielded_and_all_is_restored_behind_it() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let before = Settings::of(&image);
    let (_writer, _user) = (Writer::start(&image), LoggedIn::new());
    for is_killed in [false, true] {
        let mut app = run(&image, &[]);
        until("settings are changed for the launch", || {
            !before.are_as_before()
        });
        if is_killed {
            app.0.kill().unwrap();
            app.0.wait().unwrap();
            until("the keeper has restored the settings", || {
                before.are_as_before()
            });
            image.let_end();
        } else {
            image.let_end();
            app.succeed();
            assert!(before.are_as_before(), "{:?}", before.changed());
        }
    }
}

#[test]
fn a_launch_by_hand_touches_nothing_if_it_is_not_to_be_shielded() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let before = Settings::of(&image);
    let (writer, _user) = (Writer::start(&image), LoggedIn::new());
    let app = run(&image, &["--no-shield"]);
    let written = writer.written() + (64 << 20) / 512;
    until("the drive was written meanwhile", || {
        assert!(before.are_as_before(), "{:?}", before.changed());
        writer.written() > written
    });
    image.let_end();
    app.succeed();
    assert!(before.are_as_before(), "{:?}", before.changed());
}

#[test]
fn other_settings_are_taken_at_a_reload() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let before = Settings::of(&image);
    let (mut service, _writer, _user) = beside_writer(&image, "");
    let app = shielded(&image, &before);
    image.configure(&format!("{UNTIL_EXIT}[writes]\nshield = false\n"));
    service.signal(Signal::HUP);
    service.line(&["the configuration was read again"]);
    until("everything is restored", || before.are_as_before());
    until("the keeper has ended", || keeper(&image).is_none());
    image.let_end();
    app.succeed();
    service.launch_of(&image.id("app"));
    service.stop();
}
