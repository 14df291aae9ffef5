//! Whether the threads of a launch wait for a drive or for a processor.

use std::collections::HashMap;

use crate::process::processes::{self, TaskState};

/// The unit of [`TaskState::ticks`] and [`TaskState::start_time`] (USER_HZ), in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// Ticks are too coarse to measure what a thread does in less time than this.
const LEAST_NS: u64 = 10 * TICK_NS;

/// Threads that are ready to run and together get less than one in so many of a processor wait for it.
const SHARE: u64 = 4;

/// The states of these threads. One that cannot be read has ended, and is left out.
pub fn thread_states(tids: impl IntoIterator<Item = i32>) -> impl Iterator<Item = TaskState> {
    let states = tids.into_iter().map(processes::one);
    states.filter_map(|state| state.ok().flatten())
}

/// Ids of the threads of a process; none if it has ended. Nothing is read before the first is asked for.
pub fn process_threads(pid: u32) -> impl Iterator<Item = i32> {
    std::iter::once(pid)
        .filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// What is known of the threads of a launch from earlier looks.
#[derive(Clone, Debug)]
pub(super) struct Starvation {
    /// The last look, CLOCK_BOOTTIME in nanoseconds.
    last_ns: u64,
    /// By id, the threads that were runnable then: when they were first known to be, and the ticks that they
    /// had had by then.
    runnable: HashMap<i32, (u64, u64)>,
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
    pub fn look(&mut self, threads: impl IntoIterator<Item = TaskState>, now_ns: u64) -> bool {
        let mut waits_for_drive = false;
        // The sum over all threads: of many that share the processors, none gets much.
        let (mut ran_ticks, mut longest_ns) = (0_u64, 0);
        let before = std::mem::take(&mut self.runnable);
        for thread in threads {
            waits_for_drive |= thread.state == b'D';
            if thread.state != b'R' {
                continue;
            }
            // A thread that was started since the last look has been runnable from its start; any other may
            // have slept since.
            let start_ns = thread.start_time.saturating_mul(TICK_NS);
            let is_new = start_ns >= self.last_ns;
            let known = before.get(&thread.pid).copied();
            let mut since = (now_ns, thread.ticks);
            if let Some((at_ns, ticks)) = known.or(is_new.then_some((start_ns, 0))) {
                let time_ns = now_ns.saturating_sub(at_ns);
                if time_ns < LEAST_NS {
                    since = (at_ns, ticks);
                } else {
                    ran_ticks = ran_ticks.saturating_add(thread.ticks.saturating_sub(ticks));
                    longest_ns = time_ns.max(longest_ns);
                }
            }
            self.runnable.insert(thread.pid, since);
        }
        self.last_ns = now_ns;
        waits_for_drive || ran_ticks.saturating_mul(TICK_NS * SHARE) < longest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sleeping(pid: i32) -> TaskState {
        TaskState {
            pid,
            parent: 1,
            state: b'S',
            ticks: 0,
            start_time: 5,
        }
    }

    fn runnable(pid: i32, ticks: u64) -> TaskState {
        TaskState {
            state: b'R',
            ticks,
            ..sleeping(pid)
        }
    }

    #[test]
    fn an_uninterruptible_thread_waits_for_a_drive() {
        let waiting = TaskState {
            state: b'D',
            ..sleeping(2)
        };
        assert!(Starvation::new(0).look([sleeping(1), waiting], 0));
        assert!(!Starvation::new(0).look([sleeping(1)], 0));
    }

    #[test]
    fn a_runnable_thread_with_little_processor_time_waits_for_a_processor() {
        let mut starvation = Starvation::new(0);
        // It was started at 50 ms.
        for (ms, thread, waits, why) in [
            (100, runnable(42, 1), false, "too soon to tell"),
            (150, runnable(42, 1), true, "known from its start on"),
            (200, runnable(42, 1), false, "too soon to tell"),
            (400, runnable(42, 6), true, "50 ms of 250"),
            (650, runnable(42, 20), false, "it runs"),
            (651, runnable(42, 20), false, "too soon to tell"),
            (850, sleeping(42), false, "it sleeps"),
            (1100, runnable(42, 20), false, "it may have slept"),
            (1350, runnable(42, 20), true, "nothing of 250 ms"),
            (1600, runnable(42, 21), true, "10 ms of 250"),
        ] {
            assert_eq!(starvation.look([thread], ms * MS), waits, "{ms}: {why}");
        }
    }

    #[test]
    fn threads_that_share_a_processor_do_not_wait() {
        let mut starvation = Starvation::new(1000 * MS);
        for (ms, ticks, wait) in [
            (1850, [21, 7], false),
            (2100, [22, 30], false),
            (2350, [23, 31], true),
        ] {
            let threads = [runnable(42, ticks[0]), runnable(43, ticks[1])];
            assert_eq!(starvation.look(threads, ms * MS), wait, "{ms}");
        }
    }

    #[test]
    fn our_own_threads_are_found_and_a_missing_one_is_left_out() {
        let tids: Vec<i32> = process_threads(std::process::id()).collect();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(tids.contains(&own));
        let states: Vec<TaskState> = thread_states([own, i32::MAX]).collect();
        // The thread that reads the state is running.
        assert!(states.len() == 1 && states[0].pid == own && states[0].state == b'R');
        assert_eq!(process_threads(u32::MAX).count(), 0);
    }
}
