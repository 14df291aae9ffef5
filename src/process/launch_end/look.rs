//! What [`super::EndDetector`] needs to know of the system: clocks, and the threads of a launch.

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{Clocks, ThreadState};
use crate::process::processes;

impl Clocks {
    /// Reads both clocks.
    pub fn now() -> Self {
        let ns = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Clocks {
            monotonic_ns: ns(clock_gettime(ClockId::Monotonic)),
            boottime_ns: ns(clock_gettime(ClockId::Boottime)),
        }
    }
}

/// The states of these threads. One that cannot be read has ended, and is left out.
pub fn thread_states(tids: impl IntoIterator<Item = i32>) -> impl Iterator<Item = ThreadState> {
    tids.into_iter().filter_map(|tid| {
        let entry = processes::one(tid).ok().flatten()?;
        Some(ThreadState {
            tid,
            uninterruptible: entry.uninterruptible,
            runnable: entry.runnable,
            ticks: entry.ticks,
            start_time: entry.start_time,
        })
    })
}

/// Ids of the threads of a process; none if it has ended. Nothing is read before the first is asked for.
pub fn process_threads(pid: u32) -> impl Iterator<Item = i32> {
    std::iter::once(pid)
        .filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_run() {
        let now = Clocks::now();
        assert!(now.monotonic_ns > 0 && now.boottime_ns >= now.monotonic_ns);
    }

    #[test]
    fn our_own_threads_are_found_and_a_missing_one_is_left_out() {
        let tids: Vec<i32> = process_threads(std::process::id()).collect();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(tids.contains(&own));
        let states: Vec<ThreadState> = thread_states([own, i32::MAX]).collect();
        assert_eq!(states.len(), 1);
        // The thread that reads the state is running.
        assert!(states[0].tid == own && states[0].runnable);
        assert_eq!(process_threads(u32::MAX).count(), 0);
    }
}
