//! How many announcements are refused before their socket rests.
//!
//! The socket's filter bounds what each user sends, but for root, and for containers whose root may take any user id. The
//! event loop is to be there for launches: so what refusing costs is bounded for all senders together. After some hundred
//! refusals the socket is left alone until the rest is over. What arrives meanwhile waits in the kernel's queue, and senders
//! that find it full wait or go on without.

use std::time::{Duration, Instant};

/// How long a period lasts, and so how long the socket rests at most.
const PERIOD: Duration = Duration::from_millis(100);

/// Cost of the refusals of a period, in datagrams that are thrown away unread: each takes some 2 µs, so that all take
/// half a percent of a processor.
const MOST_COST: u32 = 256;

/// Cost of a refusal for which processes were looked at in /proc: some 60 µs.
const LOOKED_AT: u32 = 32;

/// Refusals of a period that are logged one by one.
const MOST_LOGGED: u32 = 4;

/// What was refused lately.
#[derive(Debug, Default)]
pub(super) struct RefusalLimit {
    /// When the period ends; `None` before the first refusal.
    until: Option<Instant>,
    cost: u32,
    refused: u32,
}

impl RefusalLimit {
    /// An announcement is refused, after processes were looked at for it or not. Returns whether the log is to have it.
    pub fn refused(&mut self, looked: bool, now: Instant) -> bool {
        if self.until.is_none_or(|until| until <= now) {
            *self = RefusalLimit {
                until: Some(now + PERIOD),
                ..RefusalLimit::default()
            };
        }
        self.cost += if looked { LOOKED_AT } else { 1 };
        self.refused += 1;
        if self.cost >= MOST_COST {
            let refused = self.refused;
            tracing::debug!(
                refused,
                "too many announcements are refused: the socket rests"
            );
        }
        self.refused <= MOST_LOGGED
    }

    /// How long the socket still rests; `None` if it does not.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let until = self.until.filter(|_| self.cost >= MOST_COST)?;
        until.checked_duration_since(now).filter(|it| !it.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals that are made in this time if so many are always there, looked at or not, and how many of them are
    /// logged.
    fn flood(looked: bool, seconds: u64) -> (u32, u32) {
        let begun = Instant::now();
        let mut limit = RefusalLimit::default();
        let (mut refused, mut logged) = (0, 0);
        let mut now = begun;
        while now < begun + Duration::from_secs(seconds) {
            match limit.rest(now) {
                Some(rest) => now += rest,
                None => {
                    refused += 1;
                    logged += u32::from(limit.refused(looked, now));
                    now += Duration::from_micros(if looked { 60 } else { 2 });
                }
            }
        }
        (refused, logged)
    }

    #[test]
    fn a_flood_costs_a_hundredth_of_a_processor_and_some_lines() {
        let (refused, logged) = flood(false, 10);
        assert_eq!((refused, logged), (256 * 100, 4 * 100));
        assert!(refused * 2 <= 10_000_000 / 100);
        let (refused, logged) = flood(true, 10);
        assert_eq!((refused, logged), (8 * 100, 4 * 100));
        assert!(refused * 60 <= 10_000_000 / 100);
    }

    #[test]
    fn a_few_refusals_now_and_then_never_make_the_socket_rest() {
        let begun = Instant::now();
        let mut limit = RefusalLimit::default();
        for turn in 0..1000 {
            let now = begun + PERIOD * turn;
            for _ in 1..MOST_COST {
                limit.refused(false, now);
            }
            assert_eq!(limit.rest(now), None);
        }
    }

    #[test]
    fn the_rest_ends_with_the_period_that_the_first_refusal_began() {
        let begun = Instant::now();
        let mut limit = RefusalLimit::default();
        assert_eq!(limit.rest(begun), None);
        limit.refused(false, begun);
        let later = begun + PERIOD / 4;
        for _ in 1..MOST_COST {
            assert_eq!(limit.rest(later), None);
            limit.refused(false, later);
        }
        assert_eq!(limit.rest(later), Some(PERIOD * 3 / 4));
        assert_eq!(limit.rest(begun + PERIOD), None);
    }
}
