//! When a launch is over.

use std::time::Duration;

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
