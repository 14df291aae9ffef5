//! What is read ahead before launches of an app begin, and what becomes of it.

use serde::{Deserialize, Serialize};

use crate::policy::likely::Worth;

const DAY_S: u64 = 24 * 60 * 60;

/// Seconds within which what was read is used, or was read for nobody.
const USED_WITHIN_S: u64 = DAY_S;

/// The bytes that were read before launches of one app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBefore {
    /// Bytes that wait for a launch.
    waiting: u64,
    /// When the first of them were read, in seconds since the epoch.
    since_s: u64,
    /// What launches found, and what none found within a day or before the system was started again.
    worth: Worth,
    /// When that has faded last, in seconds since the epoch.
    faded_s: u64,
}

impl ReadBefore {
    /// Drives have read so many bytes for the app at `now_s`, in seconds since the epoch.
    pub fn read(&mut self, bytes: u64, now_s: u64) {
        if self.waiting == 0 {
            self.since_s = now_s;
        }
        self.waiting = self.waiting.saturating_add(bytes);
    }

    /// A launch begins. Returns how many bytes were read before it and count for it. The system was started at `booted_s`.
    pub fn launched(&mut self, now_s: u64, booted_s: u64) -> u64 {
        self.settle(now_s, booted_s);
        let found = std::mem::take(&mut self.waiting);
        self.worth = self.worth.with(found, 0);
        found
    }

    /// Counts as unused what has waited for more than a day, or was lost when the system was started at `booted_s`.
    pub fn settle(&mut self, now_s: u64, booted_s: u64) {
        // Where the clock was ahead and has been corrected, it begins anew.
        self.since_s = self.since_s.min(now_s);
        self.faded_s = self.faded_s.min(now_s);
        let days = (now_s - self.faded_s) / DAY_S;
        self.worth = self.worth.faded(days);
        self.faded_s += days * DAY_S;
        if self.since_s < booted_s || now_s - self.since_s > USED_WITHIN_S {
            let lost = std::mem::take(&mut self.waiting);
            self.worth = self.worth.with(0, lost);
        }
    }

    /// What has become of the bytes of the last weeks, older ones counting less.
    pub fn worth(&self) -> Worth {
        self.worth
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_S: u64 = 1_700_000_000;
    const BOOTED_S: u64 = NOW_S - 60;

    #[test]
    fn what_a_launch_finds_within_a_day_and_since_the_boot_is_used() {
        for (launched_s, booted_s, found) in [
            (NOW_S + DAY_S, BOOTED_S, 100),
            (NOW_S + DAY_S + 1, BOOTED_S, 0),
            (NOW_S + 60, NOW_S + 30, 0),
            // It was read as soon as the system was started.
            (NOW_S + 60, NOW_S, 100),
            // The clock was set back.
            (NOW_S - DAY_S, NOW_S - DAY_S - 60, 100),
        ] {
            let mut before = ReadBefore::default();
            before.read(60, NOW_S);
            before.read(40, NOW_S + 10);
            assert_eq!(before.launched(launched_s, booted_s), found);
            let worth = before.worth();
            assert_eq!((worth.used_bytes, worth.wasted_bytes), (found, 100 - found));
            assert_eq!(before.launched(launched_s, booted_s), 0, "counted once");
        }
    }

    #[test]
    fn an_app_whose_bytes_are_read_for_nobody_is_left_out_for_weeks() {
        let mut before = ReadBefore::default();
        before.read(1 << 30, NOW_S);
        let mut now_s = NOW_S + DAY_S + 1;
        before.settle(now_s, BOOTED_S);
        let mut hours = 0;
        while !before.worth().pays() {
            // It is looked at more often than it fades.
            hours += 1;
            now_s += 3600;
            before.settle(now_s, BOOTED_S);
        }
        assert!((13 * 24..=15 * 24).contains(&hours), "{hours}");
    }

    proptest! {
        /// Whatever was stored, and whatever the clock says: nothing overflows, and no byte counts twice.
        #[test]
        fn bytes_are_used_or_unused_once(
            (waiting, since_s, faded_s) in (0..u64::MAX / 8, any::<u64>(), any::<u64>()),
            (used_bytes, wasted_bytes) in (0..u64::MAX / 8, 0..u64::MAX / 8),
            (now_s, booted_s, bytes) in (any::<u64>(), any::<u64>(), 0..u64::MAX / 8),
        ) {
            let worth = Worth { used_bytes, wasted_bytes };
            let mut before = ReadBefore { waiting, since_s, worth, faded_s };
            before.read(bytes, now_s);
            let found = before.launched(now_s, booted_s);
            prop_assert!(found == 0 || found == waiting + bytes);
            // Fractions of bytes fade, too.
            let most = |bytes: u64| bytes + bytes / 1024;
            prop_assert!(before.worth().used_bytes <= most(used_bytes + found));
            prop_assert!(before.worth().wasted_bytes <= most(wasted_bytes + waiting + bytes - found));
            prop_assert_eq!(before.waiting, 0);
        }
    }
}
