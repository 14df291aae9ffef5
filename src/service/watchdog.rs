//! What systemd's watchdog is told: that the event loop and the threads that it depends on still work.
//!
//! Threads that have nothing to do must not be woken for this more often than the watchdog wants to hear of them. So
//! each is asked once in an interval, and any work that it has done since counts as its answer. Threads that learn and
//! prefetch have limits of their own: see [`super::launch_threads`].

use std::time::{Duration, Instant};

/// A thread that the watchdog sees. The event loop is the one that looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedThread {
    /// Looks files up and schedules anew.
    Worker,
    /// Writes state and answers from the history.
    State,
    /// Finds executables.
    Executables,
    /// Serves the bus.
    Bus,
    /// Makes and frees the tables of recorders.
    Tables,
    /// Has waits counted, and the use of completion pages watched.
    Attach,
}

impl WatchedThread {
    const ALL: [WatchedThread; 6] = [
        WatchedThread::Worker,
        WatchedThread::State,
        WatchedThread::Executables,
        WatchedThread::Bus,
        WatchedThread::Tables,
        WatchedThread::Attach,
    ];

    /// How long it may take to answer, in intervals of the watchdog. What the bus does takes milliseconds;
    /// the others wait for drives, or for the kernel on a busy system.
    fn patience(self) -> u32 {
        match self {
            WatchedThread::Bus => 1,
            _ => 10,
        }
    }
}

/// When systemd is to be told that the service works.
pub struct Watchdog {
    interval: Duration,
    next: Instant,
    /// Since when the threads have not answered, in the order of [`WatchedThread::ALL`]; `None`: they were not asked.
    asked: [Option<Instant>; WatchedThread::ALL.len()],
}

impl Watchdog {
    /// A watchdog that wants to hear of the service in such intervals.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Watchdog {
            interval,
            next: now + interval,
            asked: Default::default(),
        }
    }

    /// Time until [`Watchdog::look`] is due.
    pub fn until_next(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// Looks at the threads: `has_answered` says whether one has done anything since it was asked. Returns those that
    /// are to be asked now.
    ///
    /// # Errors
    /// The threads that have not answered for too long: systemd is not to be told that the service works.
    pub fn look(
        &mut self,
        now: Instant,
        has_answered: impl Fn(WatchedThread) -> bool,
    ) -> Result<Vec<WatchedThread>, Vec<WatchedThread>> {
        self.next = now + self.interval;
        let (mut to_ask, mut stuck) = (Vec::new(), Vec::new());
        for (thread, asked) in WatchedThread::ALL.into_iter().zip(&mut self.asked) {
            match *asked {
                Some(since) if !has_answered(thread) => {
                    if now.saturating_duration_since(since) >= self.interval * thread.patience() {
                        stuck.push(thread);
                    }
                }
                _ => {
                    *asked = Some(now);
                    to_ask.push(thread);
                }
            }
        }
        match stuck.is_empty() {
            true => Ok(to_ask),
            false => Err(stuck),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(90);

    /// The answer of each look, an interval apart, while only these threads answer.
    fn looks(count: u32, answering: &[WatchedThread]) -> Vec<Result<usize, Vec<WatchedThread>>> {
        let begun = Instant::now();
        let mut watchdog = Watchdog::new(INTERVAL, begun);
        let look = |nth| {
            let now = begun + INTERVAL * nth;
            let looked = watchdog.look(now, |thread| answering.contains(&thread));
            assert_eq!(watchdog.until_next(now), INTERVAL);
            looked.map(|asked| asked.len())
        };
        (1..=count).map(look).collect()
    }

    #[test]
    fn threads_that_answer_keep_the_service_alive() {
        assert_eq!(
            looks(20, &WatchedThread::ALL),
            vec![Ok(WatchedThread::ALL.len()); 20]
        );
    }

    /// All threads but one.
    fn all_but(silent: WatchedThread) -> Vec<WatchedThread> {
        let all = WatchedThread::ALL.into_iter();
        all.filter(|thread| *thread != silent).collect()
    }

    #[test]
    fn a_bus_that_does_not_answer_is_stuck_at_the_next_look() {
        let stuck = looks(2, &all_but(WatchedThread::Bus));
        assert_eq!(
            stuck,
            [Ok(WatchedThread::ALL.len()), Err(vec![WatchedThread::Bus])]
        );
    }

    #[test]
    fn threads_that_wait_for_drives_or_the_kernel_may_be_busy_for_longer() {
        use WatchedThread::{Attach, Executables, State, Tables, Worker};
        for silent in [Worker, State, Executables, Tables, Attach] {
            let busy = looks(12, &all_but(silent));
            assert!(busy[..10].iter().all(Result::is_ok), "{busy:?}");
            assert_eq!(busy[10], Err(vec![silent]));
        }
    }
}
