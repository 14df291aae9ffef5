//! Drives as the shield sees and sets them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::drive::{ChangeId, KnobError, Knobs, Setting, Sysfs, Undone};
use crate::model::DriveClass;
use crate::policy::{DriveLook, WriteLimits};

/// Rates are of looks that are this far apart.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3);
/// The keeper hears this often that this process does not hang; its limit is above a minute.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// Of a setting that others have changed while it was in force.
pub(super) const LEFT_ALONE: &str = "others have set it meanwhile, and it was left alone";

/// Drives and the guard of what is set of them. Drives are encoded as `st_dev`.
pub(super) struct Drives {
    sysfs: Sysfs,
    knobs: Knobs,
    counted: BTreeMap<u64, Counted>,
    set: BTreeMap<u64, Vec<(PathBuf, ChangeId)>>,
    /// Changes that could not be undone.
    stuck: Vec<ChangeId>,
    /// When the keeper's limit was renewed.
    renewed: Duration,
}

/// What a drive had written at this time, and its rate then, in bytes per second.
struct Counted {
    at: Duration,
    bytes: u64,
    rate: Option<u64>,
}

impl Drives {
    pub fn new(sysfs: Sysfs, knobs: Knobs) -> Self {
        Drives {
            sysfs,
            knobs,
            counted: BTreeMap::new(),
            set: BTreeMap::new(),
            stuck: Vec::new(),
            renewed: Duration::ZERO,
        }
    }

    /// The drive below a file system's device; `None` if it lies on several.
    pub fn below(&self, dev: u64) -> Option<u64> {
        self.sysfs.written_drive(dev)
    }

    /// The drives that are writing something.
    pub fn writing(&self) -> Vec<u64> {
        self.sysfs.writing_drives()
    }

    /// Looks at a drive; `None` if it has gone.
    pub fn look(&mut self, drive: u64, now: Duration) -> Option<DriveLook> {
        let writes = self.sysfs.write_counters(drive)?;
        let new = Counted {
            at: now,
            bytes: writes.bytes,
            rate: None,
        };
        let counted = self.counted.entry(drive).or_insert(new);
        let interval = now.saturating_sub(counted.at);
        if interval >= LEAST_INTERVAL {
            let bytes = u128::from(writes.bytes.saturating_sub(counted.bytes));
            let rate = u64::try_from(bytes * 1_000_000 / interval.as_micros()).ok();
            *counted = Counted {
                at: now,
                bytes: writes.bytes,
                rate: rate.filter(|_| interval <= LONGEST_INTERVAL),
            };
        }
        let written = counted.rate;
        let scheduler = self.sysfs.scheduler(drive);
        let (scheduler, schedulers) = match scheduler {
            Some(found) => (found.name, found.available),
            None => ("none".to_owned(), Vec::new()),
        };
        Some(DriveLook {
            writes_in_flight: writes.in_flight,
            written,
            scheduler,
            schedulers,
            max_sectors_kb: self.sysfs.max_sectors_kib(drive).unwrap_or(0),
            one_command: self.sysfs.class(drive) == DriveClass::NoCommandQueuing,
        })
    }

    /// Sets this of the drive, and restores what else was set of it.
    ///
    /// # Errors
    /// Why it cannot be, or that others have set it. Then the caller releases the drive.
    pub fn set(&mut self, drive: u64, limits: &WriteLimits) -> Result<(), String> {
        let wanted = self.settings(drive, limits);
        let earlier = self.set.remove(&drive).unwrap_or_default();
        let mut kept = Vec::new();
        let mut done = Ok(());
        for (path, change) in earlier {
            if wanted.iter().any(|(wanted, _)| *wanted == path) {
                kept.push((path, change));
            } else {
                done = done.and(self.undo(change).map(drop));
            }
        }
        for (path, value) in wanted {
            if done.is_err() {
                break;
            }
            done = self.change(&mut kept, path, value);
        }
        self.set.insert(drive, kept);
        done
    }

    /// Gives one file its value. A later change takes the original over from an earlier one, and what others have set
    /// would be lost: the file must have our value still.
    fn change(
        &mut self,
        kept: &mut Vec<(PathBuf, ChangeId)>,
        path: PathBuf,
        value: String,
    ) -> Result<(), String> {
        let known = kept.iter().position(|(known, _)| *known == path);
        if let Some(at) = known
            && !self.knobs.has_our_value(kept[at].1).map_err(why)?
        {
            return Err(format!("{}: {LEFT_ALONE}", path.display()));
        }
        let setting = Setting {
            path: path.clone(),
            value,
        };
        let Some(change) = self.knobs.change(setting).map_err(why)? else {
            return Ok(());
        };
        match known {
            Some(at) => {
                let earlier = std::mem::replace(&mut kept[at].1, change);
                self.knobs.undo(earlier).map(drop).map_err(why)
            }
            None => {
                kept.push((path, change));
                Ok(())
            }
        }
    }

    /// The files that limits are, with their values, in the order in which they are set.
    fn settings(&self, drive: u64, limits: &WriteLimits) -> Vec<(PathBuf, String)> {
        let knob = |name: &str| self.sysfs.queue_knob(drive, name);
        let scheduler = limits.scheduler.as_ref();
        let scheduler = scheduler.and_then(|name| Some((knob("scheduler")?, name.clone())));
        // The file is there once the scheduler is.
        let depth = limits.async_depth.and_then(|depth| {
            let path = knob("scheduler")?.with_file_name("iosched/async_depth");
            Some((path, depth.to_string()))
        });
        let largest = limits
            .max_sectors_kb
            .and_then(|kib| Some((knob("max_sectors_kb")?, kib.to_string())));
        [scheduler, depth, largest].into_iter().flatten().collect()
    }

    /// Restores everything of the drive, the latest first. Whether others had set something of it, which was left alone.
    ///
    /// # Errors
    /// When something cannot be restored now: that is tried again.
    pub fn release(&mut self, drive: u64) -> Result<bool, String> {
        let (mut is_others, mut done) = (false, Ok(()));
        for (_, change) in self
            .set
            .remove(&drive)
            .unwrap_or_default()
            .into_iter()
            .rev()
        {
            match self.undo(change) {
                Ok(undone) => is_others |= undone == Undone::ChangedByOthers,
                Err(error) => done = done.and(Err(error)),
            }
        }
        done.map(|()| is_others)
    }

    fn undo(&mut self, change: ChangeId) -> Result<Undone, String> {
        let undone = self.knobs.undo(change);
        if undone.is_err() {
            self.stuck.push(change);
        }
        undone.map_err(why)
    }

    /// Tries again what could not be restored. Whether something is left.
    pub fn retry(&mut self) -> bool {
        let (knobs, stuck) = (&mut self.knobs, &mut self.stuck);
        stuck.retain(|&change| !matches!(knobs.undo(change), Ok(_) | Err(KnobError::NotChanged)));
        knobs.undo_orphans() || !stuck.is_empty()
    }

    /// Has the keeper's limit begin anew while something is set: it may last longer without a change.
    pub fn renew(&mut self, now: Duration) {
        if !self.set.is_empty() && now.saturating_sub(self.renewed) >= RENEW_EVERY {
            self.renewed = now;
            // Without a keeper, the next change fails, and says why.
            let _ = self.knobs.renew();
        }
    }

    /// Forgets what the drives had written that are not looked at any more.
    pub fn keep_counts_of(&mut self, drives: &[u64]) {
        self.counted.retain(|drive, _| drives.contains(drive));
    }

    /// Name of the drive, for readers.
    pub fn name(&self, drive: u64) -> String {
        let name = self.sysfs.drive_name(drive);
        name.unwrap_or_else(|| format!("{}:{}", rustix::fs::major(drive), rustix::fs::minor(drive)))
    }
}

fn why(error: KnobError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::makedev;
    use tempfile::{TempDir, tempdir};

    use super::*;

    /// Number of the drive sda, as makedev(3) has it.
    const SDA: u64 = 0x800;

    /// A system with one drive, which has mq-deadline.
    struct Fake {
        _root: TempDir,
        queue: PathBuf,
        drives: Drives,
    }

    impl Fake {
        fn new() -> Fake {
            let root = tempdir().unwrap();
            let base = fs::canonicalize(root.path()).unwrap();
            let disk = base.join("devices/sda");
            let queue = disk.join("queue");
            for directory in [&queue.join("iosched"), &base.join("dev/block")] {
                fs::create_dir_all(directory).unwrap();
            }
            for (name, text) in [
                ("dev", "8:0"),
                ("stat", "0 0 0 0 5 0 2048 0 3 0 0"),
                ("inflight", "1 3"),
                ("queue/scheduler", "none [mq-deadline]"),
                ("queue/iosched/async_depth", "48"),
                ("queue/nr_requests", "64"),
                ("queue/max_sectors_kb", "1280"),
            ] {
                fs::write(disk.join(name), text).unwrap();
            }
            symlink(&disk, base.join("dev/block/8:0")).unwrap();
            let knobs = Knobs::acquire(&base.join("run"), None).unwrap();
            Fake {
                _root: root,
                queue,
                drives: Drives::new(Sysfs::at(&base), knobs),
            }
        }

        fn values(&self) -> [String; 2] {
            ["iosched/async_depth", "max_sectors_kb"]
                .map(|name| fs::read_to_string(self.queue.join(name)).unwrap())
        }

        fn set(&mut self, depth: u64, kb: Option<u64>) -> Result<(), String> {
            let limits = WriteLimits {
                scheduler: None,
                async_depth: Some(depth),
                max_sectors_kb: kb,
            };
            self.drives.set(SDA, &limits)
        }
    }

    #[test]
    fn a_drive_is_seen_as_sysfs_has_it() {
        let mut fake = Fake::new();
        assert_eq!(fake.drives.below(SDA), Some(SDA));
        let look = fake.drives.look(SDA, Duration::from_secs(1)).unwrap();
        assert_eq!((look.writes_in_flight, look.written), (3, None));
        assert_eq!(
            (&*look.scheduler, look.max_sectors_kb),
            ("mq-deadline", 1280)
        );
        let stat = fake.queue.with_file_name("stat");
        fs::write(stat, "0 0 0 0 9 0 6144 0 0 0 0").unwrap();
        let mut written = |ms| {
            let look = fake.drives.look(SDA, Duration::from_millis(ms));
            look.unwrap().written
        };
        assert_eq!(written(1010), None, "too early");
        assert_eq!(written(2000), Some(4096 * 512));
        assert_eq!(written(9000), None, "too long ago");
        assert_eq!(fake.drives.look(makedev(8, 16), Duration::ZERO), None);
    }

    #[test]
    fn a_looser_step_restores_what_it_does_not_set() {
        let mut fake = Fake::new();
        let before = fake.values();
        fake.set(1, Some(128)).unwrap();
        assert_eq!(fake.values(), ["1", "128"]);
        fake.set(4, None).unwrap();
        assert_eq!(fake.values(), ["4", "1280"]);
        assert_eq!(fake.drives.release(SDA), Ok(false));
        assert_eq!(fake.values(), before);
        assert_eq!(fake.drives.release(SDA), Ok(false), "nothing is set");
    }

    #[test]
    fn what_others_have_set_is_left_alone() {
        let mut fake = Fake::new();
        fake.set(1, Some(128)).unwrap();
        fs::write(fake.queue.join("max_sectors_kb"), "512").unwrap();
        assert!(fake.set(2, Some(256)).unwrap_err().contains(LEFT_ALONE));
        assert_eq!(fake.drives.release(SDA), Ok(true));
        assert_eq!(fake.values(), ["48", "512"]);
        assert!(!fake.drives.retry());
    }

    #[test]
    fn what_cannot_be_restored_is_tried_again() {
        let mut fake = Fake::new();
        fake.set(1, Some(128)).unwrap();
        let file = fake.queue.join("max_sectors_kb");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(fake.drives.release(SDA).is_err());
        assert!(fake.drives.retry());
        fs::remove_dir(&file).unwrap();
        fs::write(&file, "128").unwrap();
        assert!(!fake.drives.retry());
        assert_eq!(fake.values(), ["48", "1280"]);
    }

    #[test]
    fn a_setting_that_cannot_be_made_is_an_error_that_names_it() {
        let mut fake = Fake::new();
        fs::remove_file(fake.queue.join("iosched/async_depth")).unwrap();
        let error = fake.set(1, Some(128)).unwrap_err();
        assert!(error.contains("async_depth"), "{error}");
        assert!(Path::new(&fake.queue).exists());
        assert_eq!(fake.drives.release(SDA), Ok(false));
    }
}
