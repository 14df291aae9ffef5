//! The real kernel and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{major, makedev, minor};

use super::apply::{MeasurePlace, settings};
use super::core::{LookFor, NotTaken, ShieldWorld};
use super::describe::describe;
use super::groups::Groups;
use super::memory;
use super::writers::{Writers, processes};
use crate::drive::{ChangeId, KnobError, Knobs, Setting, Sysfs, Undone, WrittenDrive};
use crate::model::DriveClass;
use crate::policy::{DriveLook, Measure, MemoryLook, ShieldLook};
use crate::process::{Clocks, TaskState, task_state};

/// Rates are of looks that are this far apart.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);
/// The journals' threads are searched for this often.
const JOURNALS_EVERY: Duration = Duration::from_secs(60);
/// The keeper hears this often that this process does not hang; its limit is above a minute.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// Of a measure that others have changed while it was in force.
const LEFT_ALONE: &str = "others have set it meanwhile, and it was left alone";

/// The running system.
pub(super) struct KernelWorld {
    sysfs: Sysfs,
    knobs: Knobs,
    groups: Groups,
    writers: Writers,
    drives: BTreeMap<u32, SeenDrive>,
    memory: MemoryLook,
    /// Since the last pause.
    has_looked: bool,
    taken: BTreeMap<u64, Vec<(SettingKey, ChangeId)>>,
    /// Changes that could not be undone.
    stuck: Vec<ChangeId>,
    /// When the keeper's limit was renewed.
    renewed: Duration,
}

struct SeenDrive {
    drive: WrittenDrive,
    /// When, and what had been written by then.
    counted: Option<(Duration, u64)>,
    rate: Option<u64>,
    /// When they were searched for, and as they were then.
    journals: Option<(Duration, Vec<TaskState>)>,
}

/// What a setting sets, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettingKey(String);

impl SettingKey {
    fn of(setting: &Setting) -> Self {
        SettingKey(match setting {
            Setting::File { path, .. } => path.display().to_string(),
            Setting::UnitProperty { unit, property, .. } => format!("{unit} {}", property.name()),
            Setting::IoPriority { tid, .. } => tid.to_string(),
        })
    }
}

impl KernelWorld {
    /// With knobs that nothing was changed of.
    pub fn new(sysfs: Sysfs, knobs: Knobs, groups: Groups) -> Self {
        KernelWorld {
            sysfs,
            knobs,
            groups,
            writers: Writers::default(),
            drives: BTreeMap::new(),
            memory: MemoryLook::default(),
            has_looked: false,
            taken: BTreeMap::new(),
            stuck: Vec::new(),
            renewed: Duration::ZERO,
        }
    }

    fn seen(&mut self, device: u32) -> Option<&mut SeenDrive> {
        let drive = self.sysfs.written_drive(dev_of(device))?;
        let new = SeenDrive {
            drive,
            counted: None,
            rate: None,
            journals: None,
        };
        let seen = self.drives.entry(device).or_insert(new);
        Some(seen)
    }

    fn drive_look(&mut self, device: u32, now: Duration, is_first: bool) -> Option<DriveLook> {
        let writes = self.sysfs.write_counters(dev_of(device))?;
        let seen = self.seen(device)?;
        let interval = seen.counted.map(|(at, _)| now.saturating_sub(at));
        if let (Some((_, before)), Some(interval)) = (seen.counted, interval)
            && (LEAST_INTERVAL..=LONGEST_INTERVAL).contains(&interval)
        {
            let bytes = u128::from(writes.bytes.saturating_sub(before));
            let rate = bytes * 1_000_000 / interval.as_micros();
            seen.rate = u64::try_from(rate).ok();
        }
        if interval.is_none_or(|interval| interval >= LEAST_INTERVAL) {
            if interval.is_none_or(|interval| interval > LONGEST_INTERVAL) {
                seen.rate = None;
            }
            seen.counted = Some((now, writes.bytes));
        }
        let found = seen.journals.as_ref().map(|(at, _)| *at);
        let is_recent = found.is_some_and(|at| now.saturating_sub(at) <= JOURNALS_EVERY);
        if !(is_first || is_recent) {
            seen.journals = Some((now, journals(&seen.drive.names())));
        }
        let (rate, drive) = (seen.rate, seen.drive.clone());
        let journals = seen.journals.iter().flat_map(|(_, found)| found);
        let journals = journals.map(|journal| journal.pid).collect();
        let scheduler = self.sysfs.scheduler(drive.dev);
        let (scheduler, schedulers) = match scheduler {
            Some(found) => (found.name, found.available),
            None => ("none".to_owned(), Vec::new()),
        };
        let largest = self.sysfs.queue_knob(drive.dev, "max_sectors_kb");
        let largest = largest.and_then(|file| fs::read_to_string(file).ok());
        Some(DriveLook {
            device,
            writes_in_flight: writes.in_flight,
            written: rate,
            has_strict_limit: drive.has_strict_limit(&self.sysfs),
            scheduler,
            schedulers,
            max_sectors_kb: largest
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0),
            one_command: self.sysfs.class(drive.dev) == DriveClass::NoCommandQueuing,
            journals,
        })
    }

    /// Whether the measure is for a journal's thread that has ended. Another task may have its id by now.
    fn is_for_ended_journal(&self, measure: &Measure) -> bool {
        let Measure::Priority {
            device,
            tid,
            waits: false,
        } = measure
        else {
            return false;
        };
        let seen = self.drives.get(device);
        let mut journals = seen
            .and_then(|seen| seen.journals.as_ref())
            .into_iter()
            .flat_map(|(_, found)| found);
        let journal = journals.find(|journal| journal.pid == *tid);
        journal.is_some_and(|journal| {
            kernel_thread(*tid).is_none_or(|thread| !thread.is_same(journal))
        })
    }

    fn settings(&mut self, measure: &Measure) -> Result<Vec<Setting>, NotTaken> {
        if matches!(measure, Measure::Backlog { .. }) {
            // A hold that has just ended had raised the limits that the drive's are a share of.
            self.memory = memory::look();
        }
        let device = match measure {
            Measure::Backlog { device, .. } | Measure::Requests { device, .. } => Some(device),
            _ => None,
        };
        let place = MeasurePlace {
            sysfs: &self.sysfs,
            groups: &self.groups,
            drive: device.and_then(|device| Some(&self.drives.get(device)?.drive)),
            memory: &self.memory,
        };
        let settings = settings(measure, &place);
        match settings.is_empty() {
            true => Err(NotTaken::Gone),
            false => Ok(settings),
        }
    }

    /// Makes these settings beside those that the measure has made. What it sets again must be its own still: the
    /// later change takes the original over, and a value that others have set would be lost.
    fn make(&mut self, id: u64, settings: Vec<Setting>) -> Result<(), NotTaken> {
        for setting in settings {
            let key = SettingKey::of(&setting);
            let mut taken = self.taken.get(&id).into_iter().flatten();
            if let Some((_, earlier)) = taken.find(|(known, _)| *known == key)
                && !self.knobs.has_our_value(*earlier).map_err(not_taken)?
            {
                return Err(NotTaken::Failed(format!("{}: {LEFT_ALONE}", key.0)));
            }
            let Some(change) = self.knobs.change(setting).map_err(not_taken)? else {
                continue;
            };
            let taken = self.taken.entry(id).or_default();
            let earlier = taken.iter_mut().find(|(known, _)| *known == key);
            let Some((_, earlier)) = earlier else {
                taken.push((key, change));
                continue;
            };
            let earlier = std::mem::replace(earlier, change);
            self.knobs.undo(earlier).map_err(not_taken)?;
        }
        Ok(())
    }
}

fn not_taken(error: KnobError) -> NotTaken {
    let is_gone = match &error {
        KnobError::Task { error, .. } => error.raw_os_error() == Some(libc::ESRCH),
        KnobError::File { error, .. } => {
            error.kind() == std::io::ErrorKind::NotFound
                || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
        }
        _ => false,
    };
    match is_gone {
        true => NotTaken::Gone,
        false => NotTaken::Failed(error.to_string()),
    }
}

impl ShieldWorld for KernelWorld {
    fn now(&self) -> Duration {
        Duration::from_nanos(Clocks::now().boottime_ns)
    }

    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn drive(&mut self, device: u32) -> Option<u32> {
        Some(number_of(self.sysfs.written_drive(dev_of(device))?.dev))
    }

    fn writing_drives(&mut self) -> Vec<u32> {
        let drives = self.sysfs.writing_drives().into_iter();
        drives.map(|drive| number_of(drive.dev)).collect()
    }

    fn group(&mut self, pid: i32) -> Option<String> {
        self.groups.of(pid)
    }

    fn look(&mut self, look_for: &LookFor) -> ShieldLook {
        let now = self.now();
        self.memory = memory::look();
        // A launch that begins waits for nothing: processes are walked through at the second look.
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let drives = look_for.drives.iter();
        ShieldLook {
            memory: self.memory,
            drives: drives
                .filter_map(|&device| self.drive_look(device, now, is_first))
                .collect(),
            writers: match is_first || !look_for.writers {
                true => Vec::new(),
                false => self.writers.look(now, &self.groups, &look_for.limited),
            },
            foreground: look_for.foreground.clone(),
        }
    }

    fn pause(&mut self) {
        self.has_looked = false;
        self.writers.forget();
        self.groups.forget();
        self.drives.clear();
    }

    fn take(&mut self, id: u64, measure: &Measure) -> Result<(), NotTaken> {
        if self.is_for_ended_journal(measure) {
            return Err(NotTaken::Gone);
        }
        let made = self
            .settings(measure)
            .and_then(|settings| self.make(id, settings));
        made.inspect_err(|_| self.undo(id))
    }

    fn adjust(&mut self, id: u64, measure: &Measure) -> Result<(), NotTaken> {
        let settings = self.settings(measure)?;
        self.make(id, settings)
    }

    fn end(&mut self, id: u64) -> Result<Option<&'static str>, String> {
        let (mut note, mut failed) = (None, None);
        for (_, change) in self.taken.remove(&id).unwrap_or_default().into_iter().rev() {
            match self.knobs.undo(change) {
                Ok(Undone::Restored | Undone::Gone) => {}
                Ok(Undone::ChangedByOthers) => note = Some(LEFT_ALONE),
                Err(error) => {
                    self.stuck.push(change);
                    failed = Some(error.to_string());
                }
            }
        }
        failed.map_or(Ok(note), Err)
    }

    fn retry(&mut self) -> bool {
        self.renew();
        // Each attempt may have to wait for systemd: the first that fails is the last.
        while let Some(&change) = self.stuck.first() {
            match self.knobs.undo(change) {
                Ok(_) | Err(KnobError::NotChanged) => {
                    self.stuck.remove(0);
                }
                Err(_) => {
                    // The next time, another one is the first.
                    self.stuck.rotate_left(1);
                    break;
                }
            }
        }
        self.knobs.undo_orphans() || !self.stuck.is_empty()
    }

    fn target(&self, measure: &Measure) -> String {
        let drive = |device: &u32| {
            let name = self.sysfs.drive_name(dev_of(*device));
            name.unwrap_or_else(|| format!("{}:{}", device >> 20, device & 0xf_ffff))
        };
        describe(measure, drive)
    }
}

impl KernelWorld {
    /// Has the keeper's limit begin anew while measures are in force: they may last longer without a change.
    fn renew(&mut self) {
        let now = self.now();
        if !self.taken.is_empty() && now.saturating_sub(self.renewed) >= RENEW_EVERY {
            self.renewed = now;
            // Without a keeper, the next change fails, and says why.
            let _ = self.knobs.renew();
        }
    }

    fn undo(&mut self, id: u64) {
        // What cannot be undone is tried again.
        let _ = self.end(id);
    }
}

/// Threads that write the journals of file systems on these devices.
fn journals(devices: &BTreeSet<String>) -> Vec<TaskState> {
    let is_named = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_journals_name(name.trim(), devices)
    };
    // A user may give his own processes such a name.
    processes()
        .filter(is_named)
        .filter_map(kernel_thread)
        .collect()
}

/// Whether the journal's thread of a file system on one of these devices has this name: `jbd2/DEVICE-INODE`.
fn is_journals_name(name: &str, devices: &BTreeSet<String>) -> bool {
    let device = name
        .strip_prefix("jbd2/")
        .and_then(|rest| rest.rsplit_once('-'));
    device.is_some_and(|(device, _)| devices.contains(device))
}

/// The thread of the kernel with this id; `None` if there is none, or it is a user's.
fn kernel_thread(tid: i32) -> Option<TaskState> {
    let task = task_state(tid).ok().flatten()?;
    task.is_kernel_thread().then_some(task)
}

/// The kernel's dev_t as `st_dev` has it.
fn dev_of(device: u32) -> u64 {
    makedev(device >> 20, device & 0xf_ffff)
}

/// And back.
fn number_of(dev: u64) -> u32 {
    major(dev) << 20 | minor(dev)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::fs::mounts::MountTable;

    #[test]
    fn device_numbers_are_converted() {
        for (large, small) in [(8, 1), (259, 3), (7, 300_000)] {
            assert_eq!(number_of(dev_of(large << 20 | small)), large << 20 | small);
        }
    }

    #[test]
    fn a_name_alone_makes_no_journals_thread() {
        let devices = BTreeSet::from(["dm-0".to_owned()]);
        for (name, expected) in [
            ("jbd2/dm-0-8", true),
            ("jbd2/dm-1-8", false),
            ("jbd2/dm-0", false),
            ("dm-0-8", false),
        ] {
            assert_eq!(is_journals_name(name, &devices), expected, "{name}");
        }
        assert_eq!(kernel_thread(1), None, "init is no thread of the kernel");
        assert_eq!(kernel_thread(i32::MAX), None);
    }

    /// A world whose only knobs are these files, each of which is 1.
    fn world(dir: &Path, names: [&str; 2]) -> (KernelWorld, [PathBuf; 2]) {
        let files = names.map(|name| dir.join(name));
        for file in &files {
            fs::write(file, "1").unwrap();
        }
        let knobs = Knobs::acquire(&dir.join("run"), None).unwrap();
        let groups = Groups::new(MountTable::parse(b""));
        (KernelWorld::new(Sysfs::at(dir), knobs, groups), files)
    }

    fn file(path: &Path, value: &str) -> Setting {
        Setting::File {
            path: path.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn what_others_have_set_is_not_adjusted() {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, [one, two]) = world(dir.path(), ["one", "two"]);
        for value in ["2", "3"] {
            let settings = vec![file(&one, value), file(&two, value)];
            world.make(1, settings).unwrap();
        }
        fs::write(&one, "7").unwrap();
        let made = world.make(1, vec![file(&one, "4"), file(&two, "4")]);
        assert!(matches!(made, Err(NotTaken::Failed(_))), "{made:?}");
        assert_eq!(world.end(1), Ok(Some(LEFT_ALONE)));
        let values = [one, two].map(|file| fs::read_to_string(file).unwrap());
        assert_eq!(values, ["7", "1"]);
        assert!(!world.retry());
    }

    #[test]
    fn what_cannot_be_restored_is_tried_again_until_an_attempt_fails() {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, [one, two]) = world(dir.path(), ["one", "two"]);
        world
            .make(1, vec![file(&one, "2"), file(&two, "2")])
            .unwrap();
        for file in [&one, &two] {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }
        assert!(world.end(1).is_err());
        let comes_back = |file: &Path| {
            fs::remove_dir(file).unwrap();
            fs::write(file, "2").unwrap();
        };
        comes_back(&one);
        assert!(world.retry());
        assert_eq!(fs::read_to_string(&one).unwrap(), "2", "not tried yet");
        assert!(world.retry());
        assert_eq!(fs::read_to_string(&one).unwrap(), "1");
        comes_back(&two);
        assert!(!world.retry());
        assert_eq!(fs::read_to_string(&two).unwrap(), "1");
    }
}
