//! The limits of a drive's writes: what is set of it, in steps from tight to loose, and when the next step is due.

use std::fmt;

/// A drive is being written if it has written this much, in bytes per second: less is a log's now and then, which nobody waits
/// behind for long.
const WRITES: u64 = 1 << 20;
/// The I/O scheduler that can take few writes at a time (`async_depth`), and then the drive has few.
const FEW_WRITES: &str = "mq-deadline";
/// The I/O scheduler that gives each task its share of the drive.
const FAIR: &str = "bfq";
/// Largest request of the first step, in KiB, for drives that take many commands at a time, and for those that take
/// one. A drive that writes 80 MB/s has four of 128 KiB behind it in 7 ms, a card of 15 MB/s one of 64 KiB in 4 ms.
const REQUEST_KB: u64 = 128;
const REQUEST_KB_ONE_COMMAND: u64 = 64;
/// The first step's `async_depth`: one request in each part of mq-deadline's map of tags (`dd_limit_depth`), of which
/// there are four. Each step doubles it, and the largest request.
const ASYNC_DEPTH: u64 = 1;
/// The last step. Behind it nothing is set any more.
pub(super) const LAST_STEP: u32 = 2;
/// What the writers keep of their throughput, in percent: backups and copies go on at nearly their speed.
const KEPT_PERCENT: u128 = 80;
/// A looser step that gives them less than this of what they had before, in percent, shows that the limits were not what
/// they were slowed down by: each step doubles what it allows.
const GAIN_PERCENT: u128 = 105;

/// One look at a drive: a whole disk, with everything that lies on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveLook {
    /// Write requests under way.
    pub writes_in_flight: u64,
    /// Written since the last look, in bytes per second; `None` at the first.
    pub written: Option<u64>,
    /// The drive's I/O scheduler.
    pub scheduler: String,
    /// Schedulers that can be chosen, the present one included.
    pub schedulers: Vec<String>,
    /// Largest request, in KiB.
    pub max_sectors_kb: u64,
    /// Whether it takes one command at a time.
    pub one_command: bool,
}

impl DriveLook {
    /// Whether it is being written.
    pub fn is_written(&self) -> bool {
        self.writes_in_flight > 0 || self.written.is_some_and(|bytes| bytes >= WRITES)
    }
}

/// What is set of a drive; `None` is left as it is, or as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteLimits {
    /// The drive's I/O scheduler.
    pub scheduler: Option<String>,
    /// How many requests mq-deadline takes of writes and other asynchronous ones, in each part of its map of tags.
    pub async_depth: Option<u64>,
    /// Largest request, in KiB.
    pub max_sectors_kb: Option<u64>,
}

impl WriteLimits {
    /// What is set at a step, from 0, the tightest, of a drive that looked like this when nothing was set. `None`:
    /// nothing would change. A drive with bfq, which somebody has chosen, keeps it.
    pub(super) fn at(step: u32, drive: &DriveLook) -> Option<WriteLimits> {
        let known = [FEW_WRITES, FAIR];
        let has_one = known.contains(&drive.scheduler.as_str());
        let can_have = |name: &&str| drive.schedulers.iter().any(|known| known == name);
        let other = known.into_iter().find(can_have).filter(|_| !has_one);
        let takes_few = other.unwrap_or(&drive.scheduler) == FEW_WRITES;
        let largest = match drive.one_command {
            true => REQUEST_KB_ONE_COMMAND,
            false => REQUEST_KB,
        };
        let largest = largest << step;
        let limits = WriteLimits {
            scheduler: other.map(str::to_owned),
            async_depth: takes_few.then_some(ASYNC_DEPTH << step),
            max_sectors_kb: (drive.max_sectors_kb > largest).then_some(largest),
        };
        (limits != WriteLimits::default()).then_some(limits)
    }
}

impl fmt::Display for WriteLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduler = self
            .scheduler
            .as_ref()
            .map(|name| format!("scheduler {name}"));
        let few = self
            .async_depth
            .map(|depth| format!("few writes at a time (async_depth {depth})"));
        let largest = self
            .max_sectors_kb
            .map(|kib| format!("requests of {kib} KiB"));
        let parts: Vec<String> = [scheduler, few, largest].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// What the writers' throughput at a step asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The writers keep enough of their throughput.
    Stays,
    /// The writers lose too much of their throughput.
    Looser,
    /// The step before gave the writers as much: they have become slower by themselves, and this is what they get now.
    Tighter,
}

/// What to do about a step at which a drive writes `during`, in bytes per second. Without limits it wrote `before`,
/// and at the step before this one `tighter`, if there was one.
pub(super) fn judge(before: u64, tighter: Option<u64>, during: u64) -> Verdict {
    let percent_of = |rate: u64| u128::from(during) * 100 / u128::from(rate.max(1));
    if tighter.is_some_and(|tighter| percent_of(tighter) < GAIN_PERCENT) {
        Verdict::Tighter
    } else if percent_of(before) < KEPT_PERCENT {
        Verdict::Looser
    } else {
        Verdict::Stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(scheduler: &str, schedulers: &[&str], max_sectors_kb: u64) -> DriveLook {
        DriveLook {
            scheduler: scheduler.to_owned(),
            schedulers: schedulers.iter().map(|&name| name.to_owned()).collect(),
            max_sectors_kb,
            ..DriveLook::default()
        }
    }

    fn limits(scheduler: Option<&str>, depth: Option<u64>, kb: Option<u64>) -> Option<WriteLimits> {
        Some(WriteLimits {
            scheduler: scheduler.map(str::to_owned),
            async_depth: depth,
            max_sectors_kb: kb,
        })
    }

    #[test]
    fn a_drive_is_written_by_requests_under_way_or_by_what_was_written() {
        let is_written = |writes_in_flight, written| {
            let look = DriveLook {
                writes_in_flight,
                written,
                ..DriveLook::default()
            };
            look.is_written()
        };
        assert!(is_written(1, None) && is_written(0, Some(WRITES)));
        assert!(!is_written(0, None) && !is_written(0, Some(WRITES - 1)));
    }

    #[test]
    fn a_step_is_judged_by_what_writers_keep_and_by_what_the_one_before_gave() {
        use Verdict::{Looser, Stays, Tighter};
        for (tighter, during, expected) in [
            (None, KEPT_PERCENT - 1, Looser),
            (None, KEPT_PERCENT, Stays),
            (Some(100), GAIN_PERCENT - 1, Tighter),
            (Some(100), GAIN_PERCENT, Stays),
        ] {
            let found = judge(100, tighter, during as u64);
            assert_eq!(found, expected, "{tighter:?} {during}");
        }
    }

    #[test]
    fn the_limits_are_what_the_scheduler_allows() {
        let all = ["none", "mq-deadline", "bfq"];
        for (drive, expected) in [
            (
                drive("none", &all, 1280),
                limits(Some("mq-deadline"), Some(1), Some(128)),
            ),
            (
                drive("mq-deadline", &all, 1280),
                limits(None, Some(1), Some(128)),
            ),
            (drive("bfq", &all, 1280), limits(None, None, Some(128))),
            (
                drive("none", &["none", "bfq"], 1280),
                limits(Some("bfq"), None, Some(128)),
            ),
            (
                drive("none", &["none"], 1280),
                limits(None, None, Some(128)),
            ),
            (drive("none", &["none"], 128), None),
        ] {
            assert_eq!(WriteLimits::at(0, &drive), expected, "{drive:?}");
        }
        let card = DriveLook {
            one_command: true,
            ..drive("mq-deadline", &all, 256)
        };
        for (step, expected) in [
            (0, limits(None, Some(1), Some(64))),
            (1, limits(None, Some(2), Some(128))),
            (LAST_STEP, limits(None, Some(4), None)),
        ] {
            assert_eq!(WriteLimits::at(step, &card), expected, "{step}");
        }
        assert_eq!(
            WriteLimits::at(0, &drive("none", &all, 512))
                .unwrap()
                .to_string(),
            "scheduler mq-deadline, few writes at a time (async_depth 1), requests of 128 KiB"
        );
    }

    #[test]
    fn the_writers_keep_four_fifths_unless_the_limits_are_not_what_slows_them_down() {
        for (before, tighter, during, expected) in [
            (100, None, 80, Verdict::Stays),
            (100, None, 79, Verdict::Looser),
            (100, Some(60), 85, Verdict::Stays),
            (100, Some(60), 70, Verdict::Looser),
            (100, Some(60), 62, Verdict::Tighter),
            (0, None, 0, Verdict::Looser),
            (u64::MAX, None, u64::MAX, Verdict::Stays),
        ] {
            let verdict = judge(before, tighter, during);
            assert_eq!(verdict, expected, "{before} {tighter:?} {during}");
        }
    }
}
