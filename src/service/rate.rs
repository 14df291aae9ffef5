//! A bound on how often each user may do something.

use std::collections::HashMap;
use std::time::Duration;

/// How many users are told apart at a time. A user with a range of subordinate ids can appear as
/// thousands.
const MAX_USERS: usize = 256;

/// A token bucket for each user. Times are of a clock that does not go back.
#[derive(Debug)]
pub(super) struct Rate {
    /// How often a user may do it at once.
    burst: u32,
    /// How long it takes until he may do it once more.
    interval: Duration,
    /// When the bucket of a user is full again. A user that is missing has a full one.
    full_at: HashMap<u32, Duration>,
}

impl Rate {
    /// A rate of `burst` times at once, and of once in an interval for long.
    pub fn new(burst: u32, interval: Duration) -> Self {
        Rate {
            burst,
            interval,
            full_at: HashMap::new(),
        }
    }

    /// Whether `uid` may do it at `now`. If so, it is counted.
    ///
    /// While 256 users have done it lately, others have to wait, but for root.
    pub fn take(&mut self, uid: u32, now: Duration) -> bool {
        if !self.full_at.contains_key(&uid) && self.full_at.len() >= MAX_USERS {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= MAX_USERS && uid != 0 {
                return false;
            }
        }
        let full_at = self.full_at.entry(uid).or_insert(now);
        let after = (*full_at).max(now) + self.interval;
        let allowed = after <= now + self.interval * self.burst;
        if allowed {
            *full_at = after;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn allowed(rate: &mut Rate, uid: u32, now: Duration, tries: u32) -> usize {
        (0..tries).filter(|_| rate.take(uid, now)).count()
    }

    #[test]
    fn twenty_at_once_then_five_a_second() {
        let mut rate = Rate::new(20, ms(200));
        assert_eq!(allowed(&mut rate, 1000, ms(0), 100), 20);
        assert_eq!(allowed(&mut rate, 1000, ms(199), 100), 0);
        assert_eq!(allowed(&mut rate, 1000, ms(200), 100), 1);
        assert_eq!(allowed(&mut rate, 1000, ms(1200), 100), 5);
        assert_eq!(allowed(&mut rate, 1000, ms(100_000), 100), 20);
    }

    #[test]
    fn memory_is_bounded_and_root_keeps_its_place() {
        let mut rate = Rate::new(20, ms(200));
        for uid in 1..100_000 {
            rate.take(uid, ms(0));
        }
        assert_eq!(rate.full_at.len(), MAX_USERS);
        assert!(rate.take(0, ms(0)));
        assert!(!rate.take(100_000, ms(0)));
        assert!(rate.take(100_000, ms(200)));
        assert!(rate.full_at.len() <= MAX_USERS);
    }
}
