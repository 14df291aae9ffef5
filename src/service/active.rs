//! A launch under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::kernel::HeldExec;
use crate::kernel::LaunchCounts;
use crate::model::App;
use crate::model::LaunchLimits;
use crate::model::PrefetchReport;
use crate::policy::Plan;
use crate::prefetch::Prefetch;

/// What is done with a launch.
pub struct Active {
    /// Id of the app.
    pub id: String,
    /// Whose profile it has or will have.
    pub app: App,
    /// What was planned.
    pub plan: Plan,
    /// Its first process.
    pub pid: u32,
    /// When it was seen first.
    pub begun: Instant,
    /// The same in seconds since the epoch.
    pub begun_s: u64,
    /// Whether execve has succeeded.
    pub confirmed: bool,
    /// Whether the learning thread has it.
    pub learning: bool,
    /// The prefetch under way.
    pub prefetch: Option<Prefetch>,
    /// Whether it is under way, for other threads.
    pub prefetching: Arc<AtomicBool>,
    /// Thread id of the prefetch thread, once it runs; 0 before.
    pub helper: Arc<AtomicU32>,
    /// What the prefetch thread did, once it has ended.
    pub report: Option<PrefetchReport>,
    /// Context switches until then.
    pub switches: u64,
    /// Whether it goes on.
    pub quiet: Quiet,
    /// What holds the app at its execve, until the learning thread has let it go.
    pub held: Option<Hold>,
    /// What went wrong, if anything.
    pub note: Option<String>,
}

/// A prefetch under way, until this is dropped: also if its thread cannot be started, or panics.
pub struct UnderWay(Arc<AtomicBool>);

impl UnderWay {
    /// From now on.
    pub fn begin(flag: &Arc<AtomicBool>) -> Self {
        flag.store(true, Ordering::Release);
        UnderWay(Arc::clone(flag))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A held program that two may let go: the learning thread when it is ready, and the event loop when that
/// takes too long.
#[derive(Clone)]
pub struct Hold(Arc<Mutex<Option<HeldExec>>>);

impl Hold {
    /// Holds on.
    pub fn new(held: HeldExec) -> Self {
        Hold(Arc::new(Mutex::new(Some(held))))
    }

    /// Lets the program go, if nobody has so far; says whether that was so.
    pub fn let_go(&self) -> bool {
        // Nothing can panic while it is locked.
        self.0.lock().is_ok_and(|mut held| held.take().is_some())
    }
}

/// Lets the program go when it is dropped.
pub struct LetGo(pub Hold);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// Says when a launch is over, from how many reads were counted at which times (design §4.3). Looking now
/// and then, it sees the end of a quiet window a little late, which nobody is waiting for.
pub struct Quiet {
    limits: LaunchLimits,
    /// Reads counted so far and when, the oldest a window ago.
    seen: VecDeque<(Instant, u64)>,
    begun: Instant,
}

/// Windows without a single read after which a launch that has read nothing is called warm, and over.
const WARM_WINDOWS: u32 = 3;

impl Quiet {
    /// For a launch that begins now.
    pub fn new(limits: LaunchLimits, begun: Instant) -> Self {
        Quiet {
            limits,
            seen: VecDeque::new(),
            begun,
        }
    }

    /// The machine was suspended: what was not read meanwhile says nothing.
    pub fn resume(&mut self) {
        self.seen.clear();
    }

    /// Takes the number of reads by now; true if the launch is over.
    pub fn is_over(&mut self, now: Instant, reads: u64) -> bool {
        let age = now.saturating_duration_since(self.begun);
        if age >= self.limits.timeout {
            return true;
        }
        self.seen.push_back((now, reads));
        let window = self.limits.window;
        // The youngest that is a window old is what the last window is measured from.
        while self
            .seen
            .get(1)
            .is_some_and(|(time, _)| now.saturating_duration_since(*time) >= window)
        {
            self.seen.pop_front();
        }
        let Some(&(time, before)) = self.seen.front() else {
            return false;
        };
        if now.saturating_duration_since(time) < window || self.limits.min_reads == 0 {
            return false;
        }
        if reads == 0 {
            return age >= window * WARM_WINDOWS;
        }
        reads.saturating_sub(before) < self.limits.min_reads as u64
    }
}

/// Length of a launch that was counted, in microseconds: until its completion page was used, or its last
/// task exited, or else its last read.
pub fn duration_us(counts: &LaunchCounts, exited_ns: Option<u64>) -> u64 {
    let end = match (counts.completed_ns, exited_ns) {
        (0, Some(exited)) => exited,
        (0, None) => counts.last_ns,
        (completed, _) => completed,
    };
    end.saturating_sub(counts.start_ns) / 1000
}

/// How often to look at launches under way.
pub const TICK: Duration = Duration::from_millis(100);

/// How long a program may be held. Attaching takes a few milliseconds.
pub const HOLD_LIMIT: Duration = Duration::from_secs(1);

/// How long execve may take between its call and its success.
pub const CALL_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms at launches with these numbers of reads in each 100 ms.
    fn over_after_ms(reads: &[u64]) -> Option<u64> {
        let begun = Instant::now();
        let mut quiet = Quiet::new(LaunchLimits::default(), begun);
        let mut total = 0;
        let more = reads.iter().copied().chain(std::iter::repeat(0));
        for (tick, count) in (1..=400).zip(more) {
            total += count;
            if quiet.is_over(begun + TICK * tick, total) {
                return Some(u64::from(tick) * 100);
            }
        }
        None
    }

    #[test]
    fn fewer_than_ten_reads_in_a_second_end_it() {
        assert_eq!(over_after_ms(&[50; 20]), Some(3000));
        assert_eq!(over_after_ms(&[1; 400]), Some(30_000), "ten a second go on");
        let rare: Vec<u64> = (0..400).map(|tick| u64::from(tick % 2 == 0)).collect();
        assert!(over_after_ms(&rare).unwrap() < 2000);
    }

    #[test]
    fn a_suspended_launch_goes_on() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut quiet = Quiet::new(LaunchLimits::default(), begun);
        assert!(!quiet.is_over(at(100), 50));
        quiet.resume();
        // Starting drivers took longer than a window.
        assert!(!quiet.is_over(at(2100), 50));
        assert!(!quiet.is_over(at(2200), 90));
        assert!(quiet.is_over(at(3200), 90));
    }

    #[test]
    fn a_warm_launch_is_over_soon() {
        assert_eq!(over_after_ms(&[]), Some(3000));
    }

    #[test]
    fn a_launch_has_a_length() {
        let counts = LaunchCounts {
            start_ns: 1_000_000,
            last_ns: 5_000_000,
            ..LaunchCounts::default()
        };
        assert_eq!(duration_us(&counts, None), 4000);
        assert_eq!(duration_us(&counts, Some(9_000_000)), 8000);
        let completed = LaunchCounts {
            completed_ns: 3_000_000,
            ..counts
        };
        assert_eq!(duration_us(&completed, Some(9_000_000)), 2000);
    }
}
