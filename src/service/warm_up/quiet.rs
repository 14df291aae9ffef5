//! Whether nothing happens in the system: whether tasks wait for drives or for memory (PSI).

use std::time::{Duration, Instant};

use crate::fs::virtual_file;

/// Most of the time, in percent, in which some task may wait for a drive while the system counts as quiet. A desktop
/// writes its logs.
const IO_PERCENT: u128 = 10;

/// Most of the time, in percent, in which some task may wait for memory.
const MEMORY_PERCENT: u128 = 1;

/// How long tasks have waited so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// For drives, since the system started.
    pub io: Duration,
    /// For memory.
    pub memory: Duration,
    /// When that was read.
    pub at: Instant,
}

impl Pressure {
    /// As it is at this time; `None` where the kernel does not report it.
    pub fn read(at: Instant) -> Option<Self> {
        let total = |path: &str| {
            let text = virtual_file::read(path).ok()?;
            total(std::str::from_utf8(&text).ok()?)
        };
        Some(Pressure {
            io: total("/proc/pressure/io")?,
            memory: total("/proc/pressure/memory")?,
            at,
        })
    }

    /// Whether the system was quiet from `before` until now.
    pub fn is_quiet_since(&self, before: &Pressure) -> bool {
        let passed = self.at.saturating_duration_since(before.at).as_micros();
        let is_below = |now: Duration, before: Duration, percent: u128| {
            now.saturating_sub(before).as_micros() * 100 <= passed * percent
        };
        is_below(self.io, before.io, IO_PERCENT)
            && is_below(self.memory, before.memory, MEMORY_PERCENT)
    }
}

/// How long some task has waited so far (Documentation/accounting/psi.rst), in microseconds there.
fn total(psi: &str) -> Option<Duration> {
    let some = psi.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?;
    total.trim().parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_quiet_while_hardly_anybody_waits() {
        let begun = Instant::now();
        let after = |s: u64, io_ms, memory_ms| Pressure {
            io: Duration::from_secs(70) + Duration::from_millis(io_ms),
            memory: Duration::from_millis(memory_ms),
            at: begun + Duration::from_secs(s),
        };
        let before = after(0, 0, 0);
        for (now, expected) in [
            (after(10, 1000, 100), true),
            (after(10, 1001, 0), false),
            (after(10, 0, 101), false),
        ] {
            assert_eq!(now.is_quiet_since(&before), expected, "{now:?}");
        }
    }

    #[test]
    fn the_kernels_report_is_read() {
        let text = "some avg10=0.00 avg60=0.00 avg300=1.38 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(Duration::from_millis(2500)));
        assert_eq!(total(""), None);
    }
}
