//! A launch under way.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::kernel::HeldExec;
use crate::kernel::LaunchCounts;
use crate::model::App;
use crate::model::PrefetchReport;
use crate::policy::Plan;
use crate::prefetch::Prefetch;
use crate::process::EndDetector;

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
    /// Decides when it is over.
    pub end: EndDetector,
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
