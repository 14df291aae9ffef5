//! How much a drive is being written, and what limits it. Devices are encoded as `st_dev`.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::Sysfs;
use super::sysfs::read;

/// What a drive has written since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Writes that have ended.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Time that they took from their beginning to their end, summed up, in milliseconds.
    pub milliseconds: u64,
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
            milliseconds: number(stat, 7)?,
            in_flight,
            reads_in_flight,
        })
    }
}

/// The files that limit how much memory may be dirty for a device (/sys/class/bdi), as far as this kernel has them:
/// `strict_limit` and `max_bytes` are there from 6.2 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtyLimits {
    /// 1: the device's limits hold even while the whole system is below its own.
    pub strict_limit: Option<PathBuf>,
    /// Most dirty memory, in bytes. The kernel keeps it as a share of what may be dirty: what is read back is not exactly
    /// what was written, and changes with free memory.
    pub max_bytes: Option<PathBuf>,
    /// Most dirty memory, in percent of what may be dirty.
    pub max_ratio: Option<PathBuf>,
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

    /// Whether it heeds the priorities of ioprio_set(2).
    pub fn honours_priorities(&self) -> bool {
        ["bfq", "mq-deadline"].contains(&self.name.as_str())
    }
}

impl Sysfs {
    /// What the drive that `dev` is on has written. `None` if it has gone.
    pub fn write_counters(&self, dev: u64) -> Option<WriteCounters> {
        let disk = self.disk(dev)?;
        let inflight = read(&disk.join("inflight"));
        WriteCounters::parse(&read(&disk.join("stat"))?, inflight.as_deref())
    }

    /// The files that limit the dirty memory of `dev`.
    pub fn dirty_limits(&self, dev: u64) -> DirtyLimits {
        DirtyLimits {
            strict_limit: self.bdi_knob(dev, "strict_limit"),
            max_bytes: self.bdi_knob(dev, "max_bytes"),
            max_ratio: self.bdi_knob(dev, "max_ratio"),
        }
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

/// Memory that waits to be written to drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyMemory {
    /// Bytes that no one has begun to write.
    pub dirty: u64,
    /// Bytes that are being written.
    pub writeback: u64,
}

impl DirtyMemory {
    /// Reads /proc/meminfo.
    ///
    /// # Errors
    /// As open(2) and read(2), and when it is not as proc(5) describes it.
    pub fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/meminfo")?;
        DirtyMemory::parse(&text).ok_or_else(|| {
            let why = "/proc/meminfo is not as proc(5) describes it";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }

    /// From the contents of /proc/meminfo.
    pub fn parse(meminfo: &str) -> Option<Self> {
        let bytes = |name: &str| -> Option<u64> {
            let mut lines = meminfo.lines();
            let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        Some(DirtyMemory {
            dirty: bytes("Dirty")?,
            writeback: bytes("Writeback")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;

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
                ("class/bdi/8:0/max_ratio", "100\n"),
            ],
        );
        let part = makedev(8, 1);
        let written = WriteCounters {
            requests: 500,
            bytes: 7000 * 512,
            milliseconds: 800,
            in_flight: 7,
            reads_in_flight: 2,
        };
        assert_eq!(sysfs.write_counters(part), Some(written));
        assert_eq!(sysfs.write_counters(makedev(9, 9)), None);
        let scheduler = sysfs.scheduler(part).unwrap();
        assert_eq!(scheduler.available, ["none", "mq-deadline", "bfq"]);
        assert!(scheduler.honours_priorities());
        assert_eq!(sysfs.queue_knob(part, "nr_requests"), None);
        // As before 6.2.
        let limits = sysfs.dirty_limits(part);
        assert!(limits.max_ratio.unwrap().ends_with("8:0/max_ratio"));
        assert_eq!((limits.strict_limit, limits.max_bytes), (None, None));
    }

    #[test]
    fn counters_of_kernels_without_inflight_are_read_too() {
        let counters = WriteCounters::parse("1 2 3 4 5 6 7 8 9 10 11", None).unwrap();
        assert_eq!((counters.in_flight, counters.reads_in_flight), (9, 0));
        for stat in ["", "1 2 3", "1 2 3 4 5 6 7 x 9"] {
            assert_eq!(WriteCounters::parse(stat, None), None, "{stat}");
        }
    }

    #[test]
    fn only_some_schedulers_honour_priorities() {
        for (text, honours) in [
            ("[bfq] none", true),
            ("[none] bfq", false),
            ("[kyber]", false),
        ] {
            let scheduler = IoScheduler::parse(text).unwrap();
            assert_eq!(scheduler.honours_priorities(), honours, "{text}");
        }
        assert_eq!(IoScheduler::parse("none\n"), None);
    }

    #[test]
    fn dirty_memory_is_told_from_memory_under_writeback() {
        let text = "MemTotal: 9 kB\nDirty:     12 kB\nWriteback:   3 kB\nWritebackTmp: 7 kB\n";
        let found = DirtyMemory::parse(text).unwrap();
        assert_eq!((found.dirty, found.writeback), (12 << 10, 3 << 10));
        assert_eq!(DirtyMemory::parse("Dirty: 1 kB\n"), None);
        DirtyMemory::read().unwrap();
    }
}
