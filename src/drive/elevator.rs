//! Disks whose I/O scheduler favours a process that reads page by page over one that has many reads under way.
//!
//! bfq waits for the next read of the former (`slice_idle`), and gives a program that has just begun most of the drive
//! (`low_latency`, its weight raising). That is the app, and what is read ahead for it in one sweep hardly gets on: the
//! launch takes three quarters of a cold one. Without both, bfq still serves each read of the app by itself, a seek away
//! from the sweep and one back: half of a cold one. mq-deadline sorts these reads into the sweep: a quarter
//! (docs/results.md).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{HeldKnobs, IoScheduler, KeeperCommand, KnobError, SharedKnobs, Sysfs};

/// How long the settings of a process that hangs or is stopped stay changed. One that reads ahead renews this every 8 MiB.
const KEEPER_LIMIT: Duration = Duration::from_secs(10);

/// Where changes are recorded, within the directory of all settings to restore.
pub const ELEVATORS_DIR: &str = "elevators";

/// The scheduler that disks have while launches are read ahead.
const SORTING: &str = "mq-deadline";

/// The attribute of a queue that names its scheduler.
const SCHEDULER: &str = "scheduler";

/// The attributes of a queue that are 0 meanwhile where the scheduler stays.
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
    /// has the guard. Waits for the requests under way on a disk whose scheduler is changed.
    ///
    /// # Errors
    /// When a setting, or the record of it, cannot be written, or the keeper cannot be started.
    pub fn favour_nobody(
        &self,
        disks: impl Iterator<Item = u64>,
    ) -> Result<Option<HeldKnobs>, KnobError> {
        let queues = disks.flat_map(|dev| self.sysfs.queues_below(dev));
        let settings: Vec<(PathBuf, String)> =
            queues.flat_map(|queue| self.settings(queue.dev)).collect();
        if settings.is_empty() {
            return Ok(None);
        }
        // The keeper comes first: the process may be killed while it waits for the requests of a slow disk.
        self.shared.hold(&settings, Some(KEEPER_LIMIT))
    }

    /// What is to be set of a queue. What another launch has set of it is needed by this one, too, and nothing beside it:
    /// when a scheduler goes, so do its attributes, and what they were before.
    fn settings(&self, queue: u64) -> Vec<(PathBuf, String)> {
        let knob = |name: &str| self.sysfs.queue_knob(queue, name);
        let is_changed = |name: &str| knob(name).is_some_and(|knob| self.shared.has_changed(&knob));
        // Before the scheduler is read: this waits while another launch changes it.
        let is_replaced = is_changed(SCHEDULER);
        let favours_nobody = FAVOURS.into_iter().any(is_changed);
        let Some(scheduler) = self.sysfs.scheduler(queue) else {
            return Vec::new();
        };
        let (names, value): (&[&str], &str) = if is_replaced && scheduler.name == SORTING {
            (&[SCHEDULER], SORTING)
        } else if !scheduler.favours_readers() {
            return Vec::new();
        } else if favours_nobody || !self.may_sort(queue, &scheduler) {
            (&FAVOURS, "0")
        } else {
            (&[SCHEDULER], SORTING)
        };
        let knobs = names.iter().filter_map(|name| knob(name));
        knobs.map(|knob| (knob, value.to_owned())).collect()
    }

    /// Whether a queue may be given the sorting scheduler. To change a scheduler takes until all requests that it holds have
    /// been carried out, so it stays while the disk is being written.
    fn may_sort(&self, queue: u64, scheduler: &IoScheduler) -> bool {
        let counters = self.sysfs.write_counters(queue);
        let is_written = counters.is_none_or(|counters| counters.in_flight > 0);
        !is_written && scheduler.available.iter().any(|name| name == SORTING)
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
    use tempfile::TempDir;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    /// What the disks' schedulers, and bfq's attributes, are.
    fn values(root: &Path) -> [String; 4] {
        [
            "sda/queue/scheduler",
            "sda/queue/iosched/slice_idle",
            "sda/queue/iosched/low_latency",
            "sdb/queue/scheduler",
        ]
        .map(|knob| {
            let value = fs::read_to_string(root.join("devices").join(knob)).unwrap();
            value.trim().to_owned()
        })
    }

    /// A disk with bfq, with these schedulers to choose and so many writes under way, and one with mq-deadline.
    fn disks(schedulers: &str, writes: u64) -> (TempDir, Sysfs) {
        fake(
            &[("8:0", "sda"), ("8:16", "sdb")],
            &[
                ("devices/sda/queue/scheduler", schedulers),
                ("devices/sda/queue/iosched/slice_idle", "8\n"),
                ("devices/sda/queue/iosched/low_latency", "1\n"),
                ("devices/sda/stat", "1 0 8 0 1 0 8 0 0 0 0 0 0 0 0 0 0\n"),
                ("devices/sda/inflight", &format!("0 {writes}\n")),
                ("devices/sdb/queue/scheduler", "none [mq-deadline] bfq\n"),
            ],
        )
    }

    #[test]
    fn a_disk_sorts_all_reads_while_a_launch_is_read_ahead() {
        let (root, sysfs) = disks("none mq-deadline [bfq]\n", 0);
        let elevators = Elevators::new(sysfs, root.path(), |_, _| None);
        let held = elevators.favour_nobody([makedev(8, 0), makedev(8, 16)].into_iter());
        let held = held.unwrap().unwrap();
        assert_eq!(values(root.path())[0], "mq-deadline");
        drop(held);
        assert_eq!(values(root.path())[..3], ["bfq", "8", "1"]);
        let other = [makedev(8, 16)].into_iter();
        assert!(elevators.favour_nobody(other).unwrap().is_none());
    }

    #[test]
    fn bfq_stays_and_favours_nobody_where_it_has_writes_to_carry_out_or_stands_alone() {
        for (schedulers, writes) in [("none mq-deadline [bfq]\n", 3), ("none [bfq]\n", 0)] {
            let (root, sysfs) = disks(schedulers, writes);
            let elevators = Elevators::new(sysfs, root.path(), |_, _| None);
            let held = elevators.favour_nobody([makedev(8, 0)].into_iter());
            let held = held.unwrap().unwrap();
            assert_eq!(values(root.path())[..3], [schedulers.trim(), "0", "0"]);
            drop(held);
            assert_eq!(values(root.path())[1..3], ["8", "1"]);
        }
    }

    #[test]
    fn of_launches_at_one_time_the_first_chooses_and_the_last_restores() {
        for (writes, expected) in [
            (0, ["none [mq-deadline] bfq", "8", "1"]),
            (3, ["none mq-deadline [bfq]", "0", "0"]),
        ] {
            let (root, sysfs) = disks("none mq-deadline [bfq]\n", writes);
            let sda = root.path().join("devices/sda");
            let elevators = Elevators::new(sysfs, root.path(), |_, _| None);
            let hold = || elevators.favour_nobody([makedev(8, 0)].into_iter());
            let first = hold().unwrap().unwrap();
            // As the kernel tells it, with the other number of writes.
            fs::write(sda.join("queue/scheduler"), expected[0]).unwrap();
            fs::write(sda.join("inflight"), format!("0 {}\n", 3 - writes)).unwrap();
            let second = hold().unwrap().unwrap();
            assert_eq!(values(root.path())[..3], expected);
            drop(first);
            assert_eq!(values(root.path())[..3], expected);
            drop(second);
            assert_eq!(values(root.path())[1..3], ["8", "1"]);
            let scheduler = &values(root.path())[0];
            assert!(
                scheduler == "bfq" || scheduler.contains("[bfq]"),
                "{scheduler}"
            );
        }
    }
}
