//! The share of the time in which launches of one user are recorded.
//!
//! While anything is recorded, programs are attached that cost every process of the system, and page faults map one page
//! each. A user can have his launches learned without end, by announcing ever new names.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::allowance::Allowance;

/// How long launches of one user may be recorded at once: two minutes are the first launches of a dozen apps, one after the
/// other. Launches that are recorded at the same time count once, so that all apps that start at a login are one.
const MOST: Duration = Duration::from_secs(120);

/// How much of it comes back in a second, in milliseconds: a tenth of the time for long.
const BACK_MS: u64 = 100;

/// How long launches of each user were recorded lately. Root's have no bound.
pub(super) struct RecordingShare {
    /// In milliseconds.
    used: Allowance,
    /// The users whose launches are being recorded: how many, and since when any.
    running: HashMap<u32, (usize, Instant)>,
}

impl Default for RecordingShare {
    fn default() -> Self {
        RecordingShare {
            used: Allowance::new(MOST.as_millis() as u64, BACK_MS),
            running: HashMap::new(),
        }
    }
}

impl RecordingShare {
    /// Whether another launch of this user may be recorded.
    pub fn has_left(&self, uid: u32, now: Instant) -> bool {
        let running = self.running.get(&uid).filter(|_| uid != 0);
        let running_ms = running.map_or(0, |(_, since)| ms_between(*since, now));
        self.used.left(uid, now) > running_ms
    }

    /// A launch of this user is recorded from now on.
    pub fn started(&mut self, uid: u32, now: Instant) {
        self.running.entry(uid).or_insert((0, now)).0 += 1;
    }

    /// A launch of this user is recorded no longer.
    pub fn ended(&mut self, uid: u32, now: Instant) {
        let Some((launches, since)) = self.running.get_mut(&uid) else {
            return;
        };
        *launches -= 1;
        if *launches == 0 {
            let spent_ms = ms_between(*since, now);
            self.running.remove(&uid);
            self.used.charge(uid, spent_ms, now);
        }
    }
}

fn ms_between(since: Instant, now: Instant) -> u64 {
    now.saturating_duration_since(since).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u32 = 1000;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_user_who_has_all_launches_learned_gets_a_tenth_of_the_time_for_long() {
        let begun = Instant::now();
        let mut share = RecordingShare::default();
        let (mut now, mut recorded) = (begun, Duration::ZERO);
        while now < begun + s(10_000) {
            if share.has_left(USER, now) {
                share.started(USER, now);
                now += s(3);
                recorded += s(3);
                share.ended(USER, now);
            }
            now += Duration::from_millis(500);
        }
        let share_of_time = recorded.as_secs_f64() / 10_000.0;
        assert!(share_of_time > 0.1, "{share_of_time}");
        assert!(
            share_of_time < 0.1 + 1.1 * MOST.as_secs_f64() / 10_000.0,
            "{share_of_time}"
        );
    }

    #[test]
    fn a_login_that_starts_many_apps_is_learned_and_others_and_root_are_not_touched() {
        let begun = Instant::now();
        let mut share = RecordingShare::default();
        // Four at once for half a minute, four times in a row.
        for round in 0..4 {
            let now = begun + s(round * 30);
            for _ in 0..4 {
                assert!(share.has_left(USER, now), "{round}");
                share.started(USER, now);
            }
            for _ in 0..4 {
                share.ended(USER, now + s(30));
            }
        }
        assert!(
            share.has_left(USER, begun + s(120)),
            "a tenth came back meanwhile"
        );
        let later = begun + s(120);
        for uid in [USER, 0] {
            share.started(uid, later);
            share.ended(uid, later + s(300));
        }
        let later = later + s(300);
        assert!(!share.has_left(USER, later));
        assert!(share.has_left(USER + 1, later) && share.has_left(0, later));
        // What goes on counts before it has ended.
        share.started(USER + 1, later);
        assert!(share.has_left(USER + 1, later + s(119)));
        assert!(!share.has_left(USER + 1, later + s(120)));
    }
}
