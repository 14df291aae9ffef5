//! Whether the threads of a launch wait for a drive or for a processor.

use std::collections::HashMap;

/// A thread at the time of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Thread id.
    pub tid: i32,
    /// It sleeps uninterruptibly, as in a wait for a drive.
    pub uninterruptible: bool,
    /// It runs, or is ready to.
    pub runnable: bool,
    /// Processor time that it has had, in clock ticks.
    pub ticks: u64,
    /// When it was started, in clock ticks since boot.
    pub start_time: u64,
}

/// The unit of [`ThreadState::ticks`] and [`ThreadState::start_time`] (USER_HZ), in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// Ticks are too coarse to measure what a thread does in less time than this.
const LEAST_NS: u64 = 10 * TICK_NS;

/// Threads that are ready to run and together get less than one in so many of a processor wait for it.
const SHARE: u64 = 4;

/// What is known of the threads of a launch from earlier looks.
#[derive(Clone, Debug)]
pub(super) struct Starvation {
    /// The last look, CLOCK_BOOTTIME in nanoseconds.
    last_ns: u64,
    /// By id, the threads that were runnable then.
    runnable: HashMap<i32, RunnableSince>,
}

/// How much a runnable thread had run at an earlier look.
#[derive(Clone, Copy, Debug)]
struct RunnableSince {
    /// CLOCK_BOOTTIME in nanoseconds.
    at_ns: u64,
    ticks: u64,
}

impl Starvation {
    /// For threads that are looked at from now on; `now_ns` is CLOCK_BOOTTIME in nanoseconds.
    pub fn new(now_ns: u64) -> Self {
        Starvation {
            last_ns: now_ns,
            runnable: HashMap::new(),
        }
    }

    /// Whether one of these threads waits uninterruptibly, or the runnable ones have waited for a
    /// processor since the last look, as on a machine that is busy or that its host does not let run.
    /// `now_ns` is CLOCK_BOOTTIME in nanoseconds.
    pub fn look(&mut self, threads: impl IntoIterator<Item = ThreadState>, now_ns: u64) -> bool {
        let mut waits_for_drive = false;
        // The sum over all threads: of many that share the processors, none gets much.
        let (mut ran_ns, mut longest_ns) = (0_u64, 0);
        let before = std::mem::take(&mut self.runnable);
        for thread in threads {
            waits_for_drive |= thread.uninterruptible;
            if !thread.runnable {
                continue;
            }
            let mut since = RunnableSince {
                at_ns: now_ns,
                ticks: thread.ticks,
            };
            if let Some(earlier) = self.runnable_since(&thread, &before) {
                let time_ns = now_ns.saturating_sub(earlier.at_ns);
                if time_ns < LEAST_NS {
                    since = earlier;
                } else {
                    let ran = thread.ticks.saturating_sub(earlier.ticks);
                    ran_ns = ran.saturating_mul(TICK_NS).saturating_add(ran_ns);
                    longest_ns = time_ns.max(longest_ns);
                }
            }
            self.runnable.insert(thread.tid, since);
        }
        self.last_ns = now_ns;
        waits_for_drive || ran_ns.saturating_mul(SHARE) < longest_ns
    }

    /// Since when the thread is known to be runnable; `None` for one that may have slept meanwhile.
    fn runnable_since(
        &self,
        thread: &ThreadState,
        before: &HashMap<i32, RunnableSince>,
    ) -> Option<RunnableSince> {
        let start = RunnableSince {
            at_ns: thread.start_time.saturating_mul(TICK_NS),
            ticks: 0,
        };
        before
            .get(&thread.tid)
            .copied()
            .or_else(|| (start.at_ns >= self.last_ns).then_some(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sleeping(tid: i32) -> ThreadState {
        ThreadState {
            tid,
            uninterruptible: false,
            runnable: false,
            ticks: 0,
            start_time: 5,
        }
    }

    fn runnable(tid: i32, ticks: u64) -> ThreadState {
        ThreadState {
            runnable: true,
            ticks,
            ..sleeping(tid)
        }
    }

    #[test]
    fn an_uninterruptible_thread_waits_for_a_drive() {
        let waiting = ThreadState {
            uninterruptible: true,
            ..sleeping(2)
        };
        assert!(Starvation::new(0).look([sleeping(1), waiting], 0));
        assert!(!Starvation::new(0).look([sleeping(1)], 0));
        assert!(!Starvation::new(0).look([], 0));
    }

    #[test]
    fn a_runnable_thread_with_little_processor_time_waits_for_a_processor() {
        let mut starvation = Starvation::new(0);
        let mut look = |ms: u64, thread| starvation.look([thread], ms * MS);
        // It was started at 50 ms.
        assert!(!look(100, runnable(42, 1)));
        assert!(look(150, runnable(42, 1)));
        assert!(!look(200, runnable(42, 1)), "too soon to tell");
        assert!(look(400, runnable(42, 6)));
        assert!(!look(650, runnable(42, 20)), "it runs");
        assert!(!look(651, runnable(42, 20)));
        assert!(!look(850, sleeping(42)), "it sleeps");
        assert!(!look(1100, runnable(42, 20)), "it may have slept");
        assert!(look(1350, runnable(42, 20)));
        assert!(look(1600, runnable(42, 21)));
    }

    #[test]
    fn threads_that_share_a_processor_do_not_wait() {
        let mut starvation = Starvation::new(0);
        let mut look = |ms: u64, ticks: [u64; 2]| {
            starvation.look([runnable(42, ticks[0]), runnable(43, ticks[1])], ms * MS)
        };
        look(1850, [21, 7]);
        assert!(!look(2100, [22, 30]));
        assert!(look(2350, [23, 31]));
    }
}
