//! When drives are measured, so that nobody waits for it, and when they are measured again.
//!
//! A drive is measured a little after a launch, when it is awake and the user has what he wanted, and seldom. Its model is
//! measured again when it is old, and when launches contradict it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long after a launch. Whether others use the drive is looked at then.
const REST: Duration = Duration::from_secs(10);

/// How long a drive that others use is left alone.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// How long nothing is looked at once all drives are measured, unless another profile is made.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Seconds after which a model is old: flash slows down as it fills and ages.
const OLD_S: u64 = 90 * 24 * 60 * 60;

/// Seconds after which a model that launches contradict is measured again. If they still do then, the reason is another, and
/// the model is believed until it is old.
const DOUBTED_S: u64 = 24 * 60 * 60;

/// A launch contradicts a model that expects it to take so many times as long, or as short. The simulation is wrong by
/// 8 % on average where a queue hides what it does not know, and by a factor of 1.8 on a disk that reorders distant
/// requests.
const TIMES_WRONG: f64 = 2.5;

/// Launches in a row that must contradict a model.
const CONTRADICTIONS: u32 = 3;

/// Drives whose contradictions are counted.
const MOST_DRIVES: usize = 64;

/// What came of measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEnd {
    /// No drive is left that should be measured and can be.
    Done,
    /// Others use one, or a launch has begun.
    Disturbed,
}

/// When drives are measured.
#[derive(Clone, Debug)]
pub struct ProbeTimes {
    /// Nothing is looked at before.
    not_before: Instant,
    /// Whether a launch that ends before has drives looked at then.
    tries_again: bool,
    /// When the last launch will be some time ago.
    at_rest: Option<Instant>,
    is_under_way: bool,
    /// Launches in a row that contradict the model of a drive, by its name.
    contradictions: HashMap<String, u32>,
    /// Drives that were measured again since launches contradicted their models.
    believed: HashSet<String>,
}

impl ProbeTimes {
    /// After the first launch that ends from `now` on.
    pub fn new(now: Instant) -> Self {
        ProbeTimes {
            not_before: now,
            tries_again: false,
            at_rest: None,
            is_under_way: false,
            contradictions: HashMap::new(),
            believed: HashSet::new(),
        }
    }

    /// A launch of a managed app is over. Says whether drives will be looked at for that.
    pub fn launch_ended(&mut self, now: Instant) -> bool {
        let counts = now >= self.not_before || self.tries_again;
        if counts {
            self.at_rest = Some((now + REST).max(self.not_before));
        }
        counts
    }

    /// There is another profile, perhaps on another drive.
    pub fn learned(&mut self, now: Instant) {
        self.not_before = now;
        self.at_rest = Some(now + REST);
    }

    /// Time until drives are to be looked at; `None` if nothing is planned. Nothing is done while launches are under way.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        let at_rest = self.at_rest.filter(|_| !self.is_under_way)?;
        Some(at_rest.saturating_duration_since(now))
    }

    /// Drives are being looked at.
    pub fn begin(&mut self) {
        self.is_under_way = true;
        self.at_rest = None;
    }

    /// That has ended.
    pub fn ended(&mut self, now: Instant, end: ProbeEnd) {
        self.is_under_way = false;
        self.tries_again = end == ProbeEnd::Disturbed;
        self.not_before = now
            + match end {
                ProbeEnd::Done => LOOK_AGAIN,
                ProbeEnd::Disturbed => TRY_AGAIN,
            };
        // What has come meanwhile may have been about another drive.
        if end == ProbeEnd::Done && self.at_rest.is_some() {
            self.not_before = now;
        }
    }

    /// A drive was measured.
    pub fn measured(&mut self, drive: &str) {
        let contradictions = self.contradictions.remove(drive).unwrap_or(0);
        self.believed.remove(drive);
        if contradictions >= CONTRADICTIONS && self.believed.len() < MOST_DRIVES {
            self.believed.insert(drive.to_owned());
        }
    }

    /// A cold launch from these drives took so long, in µs, where a simulation by their measured models expected so much.
    pub fn compare<'a>(
        &mut self,
        drives: impl IntoIterator<Item = &'a str>,
        expected_us: f64,
        took_us: f64,
    ) {
        let contradicts =
            expected_us > took_us * TIMES_WRONG || took_us > expected_us * TIMES_WRONG;
        for drive in drives {
            if !contradicts {
                self.contradictions.remove(drive);
            } else if let Some(count) = self.contradictions.get_mut(drive) {
                *count = count.saturating_add(1);
            } else if self.contradictions.len() < MOST_DRIVES {
                self.contradictions.insert(drive.to_owned(), 1);
            }
        }
    }

    /// The drives whose models launches contradict, and that were not measured for that before.
    pub fn doubted(&self) -> impl Iterator<Item = &str> {
        let counts = self.contradictions.iter();
        let doubted = counts.filter(|&(_, &count)| count >= CONTRADICTIONS);
        let doubted = doubted.map(|(drive, _)| drive.as_str());
        doubted.filter(|&drive| !self.believed.contains(drive))
    }
}

/// Whether a drive is to be measured. `measured_s`: when it was, in seconds since the epoch, as `now_s`. `is_doubted`:
/// launches contradict its model.
pub fn is_to_be_measured(measured_s: Option<u64>, is_doubted: bool, now_s: u64) -> bool {
    let Some(measured_s) = measured_s else {
        return true;
    };
    // Where the clock was ahead, the model may seem to be of tomorrow.
    let age_s = now_s.abs_diff(measured_s);
    age_s >= if is_doubted { DOUBTED_S } else { OLD_S }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_measured_after_a_launch_and_seldom() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut times = ProbeTimes::new(start);
        assert_eq!(times.until_due(start), None);
        times.launch_ended(at(5));
        times.launch_ended(at(8));
        assert_eq!(times.until_due(at(8)), Some(REST));
        assert_eq!(times.until_due(at(60)), Some(Duration::ZERO));
        times.begin();
        assert_eq!(times.until_due(at(60)), None);
        times.ended(at(60), ProbeEnd::Disturbed);
        assert!(times.launch_ended(at(100)));
        assert_eq!(times.until_due(at(110)), Some(Duration::from_secs(550)));
        times.launch_ended(at(659));
        assert_eq!(times.until_due(at(660)), Some(Duration::from_secs(9)));
        times.begin();
        times.ended(at(670), ProbeEnd::Done);
        assert!(!times.launch_ended(at(7000)));
        assert_eq!(times.until_due(at(8000)), None);
        times.learned(at(9000));
        assert_eq!(times.until_due(at(9000)), Some(REST));
        times.begin();
        times.ended(at(9011), ProbeEnd::Done);
        times.launch_ended(at(9011 + 24 * 3600));
        assert!(times.until_due(at(9011 + 24 * 3600)).is_some());
    }

    #[test]
    fn what_is_learned_meanwhile_is_not_forgotten() {
        let now = Instant::now();
        for end in [ProbeEnd::Done, ProbeEnd::Disturbed] {
            let mut times = ProbeTimes::new(now);
            times.learned(now);
            times.begin();
            times.learned(now);
            assert_eq!(times.until_due(now), None);
            times.ended(now, end);
            assert_eq!(times.until_due(now), Some(REST), "{end:?}");
        }
    }

    #[test]
    fn three_launches_in_a_row_make_a_doubt_and_a_probe_ends_it() {
        let mut times = ProbeTimes::new(Instant::now());
        let doubted = |times: &ProbeTimes| times.doubted().collect::<Vec<_>>().join(" ");
        let mut compare = |expected_us, took_us| {
            times.compare(["sda"], expected_us, took_us);
            doubted(&times)
        };
        assert_eq!(compare(1e6, 2.6e6), "");
        assert_eq!(compare(2.6e6, 1e6), "");
        assert_eq!(compare(1e6, 2.4e6), "");
        assert_eq!(compare(1e6, 2.6e6), "");
        assert_eq!(compare(1e6, 2.6e6), "");
        assert_eq!(compare(1e6, 2.6e6), "sda");
        times.compare(["sdb"], 1e6, 1.0);
        assert_eq!(doubted(&times), "sda");
        times.measured("sda");
        assert_eq!(doubted(&times), "");
        for _ in 0..5 {
            times.compare(["sda"], 1e6, 2.6e6);
        }
        assert_eq!(doubted(&times), "", "the reason is another");
        times.measured("sda");
        for number in 0..=MOST_DRIVES {
            times.compare([number.to_string().as_str()], 1e6, 1.0);
        }
        assert_eq!(times.contradictions.len(), MOST_DRIVES);
    }

    #[test]
    fn old_and_doubted_models_are_measured_again() {
        let now_s = 1_000_000_000;
        assert!(is_to_be_measured(None, false, now_s));
        assert!(!is_to_be_measured(Some(now_s - OLD_S + 1), false, now_s));
        assert!(is_to_be_measured(Some(now_s - OLD_S), false, now_s));
        assert!(!is_to_be_measured(Some(now_s - DOUBTED_S + 1), true, now_s));
        assert!(is_to_be_measured(Some(now_s - DOUBTED_S), true, now_s));
        assert!(!is_to_be_measured(Some(now_s + 1), true, now_s));
        assert!(is_to_be_measured(Some(now_s + OLD_S), false, now_s));
    }
}
