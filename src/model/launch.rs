//! A launch: what the kernel counts of it, and when it is over.

use std::ops::Range;
use std::time::Duration;

use super::{By, InodeId};

/// A read request that a launch tree made itself, or a helper meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRead {
    /// The file; inode number 0 for metadata of the device.
    pub inode: InodeId,
    /// The pages, of 4 KiB.
    pub pages: Range<u64>,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// [`By::Tree`] or [`By::Helper`].
    pub by: By,
}

/// What was counted of a launch so far. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchCounts {
    /// When execve was called, or had succeeded where calls are not seen.
    pub start_ns: u64,
    /// Tasks of the launch tree that are alive.
    pub tasks: u64,
    /// Whether waits were counted from the launch's beginning on. If not, [`LaunchCounts::switches`] and
    /// [`LaunchCounts::waiting_ns`] say nothing.
    pub waits_counted: bool,
    /// Whether the programs that see the use of completion pages were attached too late for the launch: it may have been
    /// complete before [`LaunchCounts::completed_ns`].
    pub completion_late: bool,
    /// Context switches of the tree into a wait for the drive (`in_iowait`).
    pub switches: u64,
    /// Time of these waits, summed up over tasks.
    pub waiting_ns: u64,
    /// Read requests that the tree made itself.
    pub requests: u64,
    /// Size of the tree's own requests, in bytes.
    pub bytes: u64,
    /// Read requests of the prefetch thread.
    pub prefetch_requests: u64,
    /// Size of the prefetch thread's requests, in bytes.
    pub prefetch_bytes: u64,
    /// Time of the prefetch thread's first request; 0 if there was none.
    pub first_prefetch_ns: u64,
    /// Whether the kernel looks for the use of completion pages.
    pub has_completion: bool,
    /// When enough of the completion pages had been used; 0 if that was not, or is not known.
    pub completed_ns: u64,
    /// [`LaunchCounts::requests`] at that time.
    pub completed_requests: u64,
}

/// Quiet windows in a row that end a launch that is learned.
const LESSON_WINDOWS: u32 = 3;

/// When a launch counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// A window with fewer reads than this is quiet. With 0 no window ever is, and only the
    /// time limit ends a launch.
    pub min_reads: usize,
    /// Length of the window.
    pub window: Duration,
    /// Longest launch, from its start; whatever is read later does not belong to it.
    pub timeout: Duration,
}

impl Default for LaunchLimits {
    /// 10 reads in a second, 30 seconds.
    fn default() -> Self {
        LaunchLimits {
            min_reads: 10,
            window: Duration::from_secs(1),
            timeout: Duration::from_secs(30),
        }
    }
}

impl LaunchLimits {
    /// The limits of a launch that is learned, which has to be quiet for three times as long, at the same rate of reads: it
    /// may compute for longer than one window before it reads the rest, and its profile would lack that for good. GIMP does for
    /// 2.1 s on a slow processor. Unchanged if the launch would have no time for that.
    pub fn for_lesson(self) -> LaunchLimits {
        let window = self.window.saturating_mul(LESSON_WINDOWS);
        if window >= self.timeout {
            return self;
        }
        LaunchLimits {
            min_reads: self.min_reads.saturating_mul(LESSON_WINDOWS as usize),
            window,
            ..self
        }
    }

    pub(crate) fn window_ns(&self) -> u64 {
        nanoseconds(self.window)
    }

    /// When a launch that started at `start_ns` is given up.
    pub(crate) fn last_ns(&self, start_ns: u64) -> u64 {
        start_ns.saturating_add(nanoseconds(self.timeout))
    }
}

/// Durations beyond 584 years become "never".
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_nanoseconds_never_overflow() {
        let limits = LaunchLimits::default();
        let second = 1_000_000_000;
        assert_eq!(limits.window_ns(), second);
        assert_eq!(limits.last_ns(5), 30 * second + 5);
        let endless = LaunchLimits {
            window: Duration::MAX,
            timeout: Duration::MAX,
            ..limits
        };
        assert_eq!(endless.window_ns(), u64::MAX);
        assert_eq!(endless.last_ns(5), u64::MAX);
    }

    #[test]
    fn a_lesson_is_quiet_for_three_windows_if_there_is_time() {
        let usual = LaunchLimits::default();
        let lesson = usual.for_lesson();
        assert_eq!(
            (lesson.min_reads, lesson.window, lesson.timeout),
            (30, Duration::from_secs(3), usual.timeout)
        );
        let short = LaunchLimits {
            timeout: Duration::from_secs(3),
            ..usual
        };
        assert_eq!(short.for_lesson(), short);
        let endless = LaunchLimits {
            min_reads: 0,
            ..usual
        };
        assert_eq!(endless.for_lesson().min_reads, 0);
    }
}
