//! An image that is being written, a shield beside it, and the knobs that it may change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use paralfetch::drive::Sysfs;
use paralfetch::policy::{MeasureKind, ShieldSettings};
use paralfetch::shield::{Shield, ShieldOptions, ShieldStatus};
use tempfile::TempDir;

use crate::writer::{SlowDrive, Writer};
use common::{LoopExt4, succeed, until};

/// The user whose launches these are.
pub const USER: u32 = 1000;

/// An ext4 on a slow drive, and its writer.
pub struct WrittenImage {
    writer: Option<Writer>,
    slow: Option<SlowDrive>,
    pub image: LoopExt4,
    /// The guard's directory.
    pub run_dir: TempDir,
    before: BTreeMap<PathBuf, String>,
    scheduler: (PathBuf, String),
}

impl WrittenImage {
    /// With a scheduler that heeds priorities.
    pub fn new() -> WrittenImage {
        let image = LoopExt4::new(160, &[]);
        let queue = Path::new("/sys/block").join(name(&image)).join("queue");
        let scheduler = queue.join("scheduler");
        let before = chosen(&read(&scheduler));
        fs::write(&scheduler, "mq-deadline").unwrap();
        let mut written = WrittenImage {
            writer: Some(Writer::start(image.mount_point())),
            slow: Some(SlowDrive::new(&number(&image))),
            image,
            run_dir: tempfile::tempdir().unwrap(),
            before: BTreeMap::new(),
            scheduler: (scheduler, before),
        };
        written.before = written.knobs();
        written
    }

    /// The knobs that the shield may change, with what they say now. `max_bytes` and the like change with memory.
    pub fn knobs(&self) -> BTreeMap<PathBuf, String> {
        let vm = [
            "dirty_background_bytes",
            "dirty_background_ratio",
            "dirty_bytes",
            "dirty_ratio",
            "dirty_expire_centisecs",
            "dirty_writeback_centisecs",
        ];
        let vm = vm.map(|name| Path::new("/proc/sys/vm").join(name));
        let bdi = Path::new("/sys/class/bdi").join(number(&self.image));
        let bdi = ["strict_limit", "max_ratio_fine", "max_ratio"].map(|name| bdi.join(name));
        let queue = Path::new("/sys/block")
            .join(name(&self.image))
            .join("queue");
        let of_queue = [
            "scheduler",
            "iosched/async_depth",
            "max_sectors_kb",
            "nr_requests",
        ];
        let queue = of_queue.map(|name| queue.join(name));
        let files = vm.into_iter().chain(bdi).chain(queue);
        let mut knobs: BTreeMap<PathBuf, String> = files
            .filter(|file| file.exists())
            .map(|file| (file.clone(), read(&file)))
            .collect();
        let journal = self.journal();
        let priority = succeed(Command::new("ionice").args(["-p", &journal.to_string()]));
        knobs.insert("the journal's priority".into(), priority.trim().to_owned());
        knobs
    }

    /// What a knob says now.
    pub fn knob(&self, name: &str) -> String {
        let knobs = self.knobs();
        let found = knobs.iter().find(|(path, _)| path.ends_with(name));
        found.unwrap_or_else(|| panic!("no {name}")).1.clone()
    }

    /// Waits until all knobs are as they were.
    pub fn is_as_before(&self) {
        until("the knobs are as before", || self.knobs() == self.before);
    }

    /// Whether some knob is not as it was.
    pub fn is_changed(&self) -> bool {
        self.knobs() != self.before
    }

    /// The thread that writes the journal.
    fn journal(&self) -> i32 {
        let name = format!("jbd2/{}-8", name(&self.image));
        let is_it = |pid: &i32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim() == name
        };
        let entries = fs::read_dir("/proc").unwrap();
        let mut pids =
            entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.find(is_it).expect("the journal has a thread")
    }

    /// The image's device, as the kernel numbers it.
    pub fn device(&self) -> u32 {
        let number = number(&self.image);
        let (major, minor) = number.split_once(':').unwrap();
        major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap()
    }

    /// A shield in this process.
    pub fn shield(&self, settings: ShieldSettings) -> Shield {
        shield(self.run_dir.path(), settings)
    }

    /// The writer ends.
    pub fn stop_writing(&mut self) {
        // At full speed.
        self.slow = None;
        self.writer = None;
    }
}

impl Drop for WrittenImage {
    fn drop(&mut self) {
        self.stop_writing();
        // Loop devices keep their scheduler when they are detached.
        let (file, before) = &self.scheduler;
        if let Err(error) = fs::write(file, before) {
            eprintln!("{}: {error}", file.display());
        }
    }
}

/// Pressure is of the whole machine, and other drives are no affair of these tests.
pub fn quiet(settings: ShieldSettings) -> ShieldSettings {
    ShieldSettings {
        pressure: false,
        ..settings
    }
}

/// A shield with a keeper and its knobs' record in this directory.
pub fn shield(run_dir: &Path, settings: ShieldSettings) -> Shield {
    let mut keeper = Command::new(common::program());
    keeper.args(["keep-knobs", "90", "--run-dir"]).arg(run_dir);
    let options = ShieldOptions {
        guard_dir: run_dir.to_owned(),
        keeper: Some(keeper),
        settings,
        sysfs: Sysfs::default(),
    };
    Shield::start(options).unwrap()
}

/// The kinds of measures in force, sorted.
pub fn in_force(status: &ShieldStatus) -> Vec<MeasureKind> {
    let mut kinds: Vec<MeasureKind> = status.in_force.iter().map(|report| report.kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Waits until a measure of this kind is in force.
pub fn until_in_force(shield: &Shield, kind: MeasureKind) {
    until(&format!("{kind} is in force"), || {
        in_force(&shield.status()).contains(&kind)
    });
}

pub fn read(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|error| format!("{error}"));
    text.trim().to_owned()
}

/// The word in brackets.
pub fn chosen(text: &str) -> String {
    let mut words = text.split_whitespace();
    let word = words.find(|word| word.starts_with('['));
    word.unwrap_or("none").trim_matches(['[', ']']).to_owned()
}

fn name(image: &LoopExt4) -> String {
    image
        .device()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

/// As "7:0".
fn number(image: &LoopExt4) -> String {
    read(&Path::new("/sys/block").join(name(image)).join("dev"))
}
