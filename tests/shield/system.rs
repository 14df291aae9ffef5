//! An image that is being written, a shield beside it, and the knobs that it may change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use paralfetch::drive::Sysfs;
use paralfetch::shield::{People, Shield, ShieldOptions};
use tempfile::TempDir;

use crate::writer::{SlowDrive, Writer};
use common::{LoopExt4, until};

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
    /// With mq-deadline.
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

    /// A setting of its drive's queue.
    pub fn queue(&self, knob: &str) -> PathBuf {
        let drive = Path::new("/sys/block").join(name(&self.image));
        drive.join("queue").join(knob)
    }

    /// The knobs that the shield may change, with what they say now.
    pub fn knobs(&self) -> BTreeMap<PathBuf, String> {
        let knobs = [
            "scheduler",
            "iosched/async_depth",
            "max_sectors_kb",
            "nr_requests",
        ];
        let knobs = knobs.map(|knob| self.queue(knob)).into_iter();
        knobs.map(|file| (file.clone(), read(&file))).collect()
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

    /// The image's device, as stat(2) numbers it.
    pub fn dev(&self) -> u64 {
        let number = number(&self.image);
        let (major, minor) = number.split_once(':').unwrap();
        rustix::fs::makedev(major.parse().unwrap(), minor.parse().unwrap())
    }

    /// A shield in this process.
    pub fn shield(&self) -> Shield {
        shield(self.run_dir.path())
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

/// Nobody is logged in, and nobody's waits are reported: pressure is of the whole machine, and other drives are no affair
/// of these tests. A user's launch tells that somebody is there.
pub fn nobody() -> People {
    let nowhere = Path::new("/nonexistent");
    People {
        users: nowhere.join("users"),
        slices: nowhere.join("slices"),
        pressure: nowhere.join("pressure"),
    }
}

/// A shield with a keeper and its knobs' record in this directory.
pub fn shield(run_dir: &Path) -> Shield {
    let mut keeper = Command::new(common::program());
    keeper.args(["keep-knobs", "90", "--run-dir"]).arg(run_dir);
    let options = ShieldOptions {
        guard_dir: run_dir.to_owned(),
        keeper: Some(keeper),
        sysfs: Sysfs::default(),
        people: nobody(),
    };
    Shield::start(options).unwrap()
}

/// Waits until the drive is shielded, and all of that is set.
pub fn until_in_force(shield: &Shield) {
    until("the drive is shielded", || {
        !shield.status().in_force.is_empty()
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
