//! Disks whose I/O scheduler favours a process that reads page by page over one that has many reads under way.
//!
//! bfq waits for the next read of the former (`slice_idle`), and gives a program that has just begun most of the drive
//! (`low_latency`, its weight raising). That is the app, and what is read ahead for it in one sweep hardly gets on: the
//! launch takes three quarters of a cold one. Without both, bfq serves the sweep, and the app finds its pages.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{HeldKnobs, KeeperCommand, KnobError, SharedKnobs, Sysfs};

/// How long the settings of a process that hangs or is stopped stay changed. One that reads ahead renews this every 8 MiB.
const KEEPER_LIMIT: Duration = Duration::from_secs(10);

/// Where changes are recorded, within the directory of all settings to restore.
pub const ELEVATORS_DIR: &str = "elevators";

/// The attributes of a queue that are 0 while launches are read ahead.
const FAVOURS: [&str; 2] = ["iosched/slice_idle", "iosched/low_latency"];

/// The elevators of disks with heads, for the time in which launches are read ahead.
pub struct Elevators {
    sysfs: Sysfs,
    shared: Arc<SharedKnobs>,
}

impl Elevators {
    /// Nothing is changed yet. Changes are recorded below `run_dir`, in [`ELEVATORS_DIR`].
    pub fn new(sysfs: Sysfs, run_dir: &Path, keeper: KeeperCommand) -> Arc<Self> {
        Arc::new(Elevators {
            sysfs,
            shared: SharedKnobs::new(&run_dir.join(ELEVATORS_DIR), keeper),
        })
    }

    /// Has the elevators of these disks, encoded as `st_dev`, favour nobody until the last of what this returns is
    /// dropped, or is not [renewed](HeldKnobs::renew) for ten seconds. `None` if they favour nobody anyway, or another process
    /// has the guard.
    ///
    /// # Errors
    /// When a setting, or the record of it, cannot be written.
    pub fn favour_nobody(
        &self,
        disks: impl Iterator<Item = u64>,
    ) -> Result<Option<HeldKnobs>, KnobError> {
        let queues = disks.flat_map(|dev| self.sysfs.queues_below(dev));
        let favouring = queues.filter(|queue| {
            let scheduler = self.sysfs.scheduler(queue.dev);
            scheduler.is_some_and(|scheduler| scheduler.favours_readers())
        });
        let knobs = favouring.flat_map(|queue| {
            FAVOURS
                .iter()
                .filter_map(move |name| self.sysfs.queue_knob(queue.dev, name))
        });
        let settings: Vec<(PathBuf, String)> = knobs.map(|knob| (knob, "0".to_owned())).collect();
        if settings.is_empty() {
            return Ok(None);
        }
        let held = self.shared.hold(&settings)?;
        if let Some(held) = &held {
            held.start_keeper(KEEPER_LIMIT)?;
        }
        Ok(held)
    }

    /// Restores all now and for good: the process is about to end.
    ///
    /// # Errors
    /// When a setting cannot be restored.
    pub fn close(&self) -> Result<(), KnobError> {
        self.shared.close()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    #[test]
    fn bfq_favours_nobody_while_a_launch_is_read_ahead() {
        let (root, sysfs) = fake(
            &[("8:0", "sda"), ("8:16", "sdb")],
            &[
                ("devices/sda/queue/scheduler", "none mq-deadline [bfq]\n"),
                ("devices/sda/queue/iosched/slice_idle", "8\n"),
                ("devices/sda/queue/iosched/low_latency", "1\n"),
                ("devices/sdb/queue/scheduler", "none [mq-deadline] bfq\n"),
            ],
        );
        let values = || {
            let iosched = root.path().join("devices/sda/queue/iosched");
            ["slice_idle", "low_latency"].map(|knob| {
                let value = fs::read_to_string(iosched.join(knob)).unwrap();
                value.trim().to_owned()
            })
        };
        let elevators = Elevators::new(sysfs, root.path(), |_, _| None);
        let disks = [makedev(8, 0), makedev(8, 16)];
        let held = elevators.favour_nobody(disks.into_iter()).unwrap().unwrap();
        assert_eq!(values(), ["0", "0"]);
        drop(held);
        assert_eq!(values(), ["8", "1"]);
        let other = [makedev(8, 16)].into_iter();
        assert!(elevators.favour_nobody(other).unwrap().is_none());
    }
}
