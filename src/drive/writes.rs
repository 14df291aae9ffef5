//! Which drives are being written, how much, and by which scheduler. Devices are encoded as `st_dev`.

use std::fs;
use std::path::PathBuf;

use super::sysfs::{device_number, read};
use super::{DriveBelow, Sysfs};

/// Most disks that are looked at.
const MOST_DISKS: usize = 64;
/// Disks that are memory.
const IN_MEMORY: [&str; 2] = ["ram", "zram"];

/// What a drive has written since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Writes that have ended.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Writes that have begun and not ended.
    pub in_flight: u64,
    /// Reads that have begun and not ended.
    pub reads_in_flight: u64,
}

impl WriteCounters {
    /// From the contents of `stat` and `inflight` (Documentation/block/stat.rst). A kernel without `inflight` does not
    /// tell reads from writes in flight: then all count as writes.
    pub fn parse(stat: &str, inflight: Option<&str>) -> Option<Self> {
        const SECTOR: u64 = 512;
        let number = |text: &str, at: usize| -> Option<u64> {
            text.split_ascii_whitespace().nth(at)?.parse().ok()
        };
        let (reads_in_flight, in_flight) = match inflight {
            Some(text) => (number(text, 0)?, number(text, 1)?),
            None => (0, number(stat, 8)?),
        };
        Some(WriteCounters {
            requests: number(stat, 4)?,
            bytes: number(stat, 6)?.saturating_mul(SECTOR),
            in_flight,
            reads_in_flight,
        })
    }
}

/// The scheduler of a drive's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoScheduler {
    /// The one in force, such as `mq-deadline`, or `none`.
    pub name: String,
    /// All that can be chosen now. Others may be modules that are not loaded.
    pub available: Vec<String>,
}

impl IoScheduler {
    /// From the contents of `queue/scheduler`: names, and the one in force in brackets. `None` if none is.
    pub fn parse(text: &str) -> Option<Self> {
        let mut chosen = None;
        let available = text.split_ascii_whitespace().map(|word| {
            let inner = word
                .strip_prefix('[')
                .and_then(|word| word.strip_suffix(']'));
            chosen = chosen.take().or(inner.map(str::to_owned));
            inner.unwrap_or(word).to_owned()
        });
        let available = available.collect();
        Some(IoScheduler {
            name: chosen?,
            available,
        })
    }

    /// Whether a process that reads page by page is served before one that has many reads under way
    /// (block/bfq-iosched.c: `slice_idle`, weight raising).
    pub fn favours_readers(&self) -> bool {
        self.name == "bfq"
    }
}

impl Sysfs {
    /// The drive at the bottom of `dev`: a whole disk, or a loop device. A device on several drives (RAID, btrfs) has none.
    pub fn written_drive(&self, dev: u64) -> Option<u64> {
        match self.queues_below(dev)[..] {
            [DriveBelow { dev, .. }] => Some(dev),
            _ => None,
        }
    }

    /// All drives that are writing something. Disks that are memory do not count.
    pub fn writing_drives(&self) -> Vec<u64> {
        let disks = fs::read_dir(self.root.join("block")).into_iter().flatten();
        let disks = disks.flatten().take(MOST_DISKS).filter(|disk| {
            let name = disk.file_name().to_string_lossy().into_owned();
            !IN_MEMORY.iter().any(|&kind| name.starts_with(kind))
        });
        let drives = disks.filter_map(|disk| {
            let dev = device_number(&read(&disk.path().join("dev"))?)?;
            let is_drive = self.written_drive(dev) == Some(dev);
            (is_drive && self.write_counters(dev)?.in_flight > 0).then_some(dev)
        });
        drives.collect()
    }

    /// What the drive that `dev` is on has written. `None` if it has gone.
    pub fn write_counters(&self, dev: u64) -> Option<WriteCounters> {
        let disk = self.disk(dev)?;
        let inflight = read(&disk.join("inflight"));
        WriteCounters::parse(&read(&disk.join("stat"))?, inflight.as_deref())
    }

    /// The scheduler of the drive that `dev` is on. `None` if it has none: its driver has no request queue.
    pub fn scheduler(&self, dev: u64) -> Option<IoScheduler> {
        IoScheduler::parse(&read(&self.queue_knob(dev, "scheduler")?)?)
    }

    /// A file of `/sys/block/X/queue` of the drive that `dev` is on, such as `nr_requests`. `None` if it does not exist.
    pub fn queue_knob(&self, dev: u64, name: &str) -> Option<PathBuf> {
        let knob = self.disk(dev)?.join("queue").join(name);
        knob.exists().then_some(knob)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;
    use tempfile::TempDir;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    /// sda with sda1, on which dm-0 lies; sdb and sdc with md0 on both; zram0. All are being written.
    fn stack() -> (TempDir, Sysfs) {
        let devices = [
            ("8:0", "sda"),
            ("8:1", "sda/sda1"),
            ("8:16", "sdb"),
            ("8:32", "sdc"),
            ("253:0", "dm-0"),
            ("9:0", "md0"),
            ("252:0", "zram0"),
        ];
        let (root, sysfs) = fake(&devices, &[("devices/sda/sda1/partition", "1")]);
        let device = |name: &str| root.path().join("devices").join(name);
        fs::create_dir(root.path().join("block")).unwrap();
        for (_, name) in devices {
            fs::write(device(name).join("stat"), "1 0 8 0 2 0 2048 0 3 0 0\n").unwrap();
            fs::write(device(name).join("inflight"), "       0        3\n").unwrap();
            if !name.contains('/') {
                symlink(device(name), root.path().join("block").join(name)).unwrap();
            }
        }
        for (above, below) in [("dm-0", "sda/sda1"), ("md0", "sdb"), ("md0", "sdc")] {
            let slaves = device(above).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            symlink(device(below), slaves.join(below.replace('/', "!"))).unwrap();
        }
        (root, sysfs)
    }

    #[test]
    fn a_stack_of_devices_is_one_drive() {
        let (_root, sysfs) = stack();
        let disk = makedev(8, 0);
        for dev in [disk, makedev(8, 1), makedev(253, 0)] {
            assert_eq!(sysfs.written_drive(dev), Some(disk));
        }
        assert_eq!(sysfs.written_drive(makedev(9, 0)), None, "on two drives");
        assert_eq!(sysfs.written_drive(makedev(7, 7)), None);
    }

    #[test]
    fn drives_that_write_are_found() {
        let (root, sysfs) = stack();
        let writing = || {
            let mut writing = sysfs.writing_drives();
            writing.sort_unstable();
            writing
        };
        assert_eq!(writing(), [makedev(8, 0), makedev(8, 16), makedev(8, 32)]);
        fs::write(root.path().join("devices/sdb/inflight"), "1 0").unwrap();
        assert_eq!(writing(), [makedev(8, 0), makedev(8, 32)]);
    }

    #[test]
    fn a_partition_is_written_as_its_drive_is() {
        let stat = "  100 2 3000 40  500 60 7000 800  9 1000 1100 0 0 0 0 12 13\n";
        let (_root, sysfs) = fake(
            &[("8:0", "sda"), ("8:1", "sda/sda1")],
            &[
                ("devices/sda/sda1/partition", "1"),
                ("devices/sda/stat", stat),
                ("devices/sda/inflight", "       2        7\n"),
                ("devices/sda/queue/scheduler", "none [mq-deadline] bfq\n"),
            ],
        );
        let part = makedev(8, 1);
        let written = WriteCounters {
            requests: 500,
            bytes: 7000 * 512,
            in_flight: 7,
            reads_in_flight: 2,
        };
        assert_eq!(sysfs.write_counters(part), Some(written));
        assert_eq!(sysfs.write_counters(makedev(9, 9)), None);
        let scheduler = sysfs.scheduler(part).unwrap();
        assert_eq!(scheduler.available, ["none", "mq-deadline", "bfq"]);
        assert_eq!(sysfs.queue_knob(part, "nr_requests"), None);
    }

    #[test]
    fn counters_of_kernels_without_inflight_are_read_too() {
        let counters = WriteCounters::parse("1 2 3 4 5 6 7 8 9 10 11", None).unwrap();
        assert_eq!((counters.in_flight, counters.reads_in_flight), (9, 0));
        for stat in ["", "1 2 3", "1 2 3 4 5 6 x 8 9"] {
            assert_eq!(WriteCounters::parse(stat, None), None, "{stat}");
        }
    }
}
