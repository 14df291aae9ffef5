//! How much a drive is being written, and by which scheduler. Devices are encoded as `st_dev`.

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
