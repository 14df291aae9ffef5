//! Opens that another program delays.
//!
//! A listener on permission events (fanotify(7), `FAN_OPEN_PERM`), as scanners of files and lists of allowed programs
//! have one, is asked before each file is opened. To open the files of a launch ahead makes it answer twice for each, and
//! the launch waits behind that: launches beside a listener that takes 2 ms a file took 1.8 times as long.
//!
//! A slow open alone shows nothing: it may wait for the drive. So the file is opened once more while it is open. Its inode
//! is in memory then, and whoever sleeps in that open without a read of the drive waits for an answer. One that answers
//! for a file at once the second time costs the launch nothing, which is asked about later, too.

use std::time::{Duration, Instant};

use super::sys::thread_use;

/// An open that takes this long is delayed, or waits for a drive. Of a file in memory, it takes some microseconds.
const LEAST: Duration = Duration::from_micros(500);

/// Delayed opens in a row that show that there is a listener.
const ENOUGH: usize = 3;

/// Second opens without a delay after which nobody is looked for any more.
const MOST_IN_TIME: u32 = 16;

/// How an open went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTime {
    /// How long it took.
    pub took: Duration,
    /// Whether the thread gave the processor up by itself: it waited for something.
    pub slept: bool,
    /// Whether it had a drive read something.
    pub has_read: bool,
}

impl OpenTime {
    /// Measures an open.
    pub fn of<T>(open: impl FnOnce() -> T) -> (T, Self) {
        let (before, begun) = (thread_use(), Instant::now());
        let opened = open();
        let (took, after) = (begun.elapsed(), thread_use());
        let time = OpenTime {
            took,
            slept: after.switches > before.switches,
            has_read: after.read_blocks > before.read_blocks,
        };
        (opened, time)
    }

    fn is_delayed(&self) -> bool {
        self.took >= LEAST && self.slept && !self.has_read
    }
}

/// Looks for a listener in the opens of one launch's files.
#[derive(Clone, Debug, Default)]
pub struct DelayedOpens {
    delayed: Vec<Duration>,
    in_time: u32,
}

impl DelayedOpens {
    /// Whether a file whose open took so long is to be opened once more.
    pub fn asks_again(&self, took: Duration) -> bool {
        took >= LEAST && self.in_time < MOST_IN_TIME && self.delay().is_none()
    }

    /// Takes how the second open of a file went.
    pub fn opened_again(&mut self, again: &OpenTime) {
        if again.is_delayed() {
            self.delayed.push(again.took);
        } else {
            self.in_time += 1;
            self.delayed.clear();
        }
    }

    /// How long a listener typically delays an open; `None` while there seems to be none.
    pub fn delay(&self) -> Option<Duration> {
        let mut delayed = self.delayed.clone();
        delayed.sort_unstable();
        delayed
            .get(ENOUGH / 2)
            .copied()
            .filter(|_| delayed.len() >= ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITED: OpenTime = OpenTime {
        took: Duration::from_millis(2),
        slept: true,
        has_read: false,
    };

    #[test]
    fn three_files_in_a_row_that_are_opened_late_twice_show_a_listener() {
        let mut opens = DelayedOpens::default();
        for ms in [3, 1] {
            let took = Duration::from_millis(ms);
            assert!(opens.asks_again(took));
            opens.opened_again(&OpenTime { took, ..WAITED });
            assert_eq!(opens.delay(), None);
        }
        opens.opened_again(&WAITED);
        assert_eq!(opens.delay(), Some(WAITED.took), "the median");
        assert!(!opens.asks_again(WAITED.took), "that is known");
    }

    #[test]
    fn waits_for_the_drive_or_the_processor_and_opens_in_time_show_none() {
        let opens = [
            OpenTime {
                has_read: true,
                ..WAITED
            },
            OpenTime {
                slept: false,
                ..WAITED
            },
            OpenTime {
                took: LEAST - Duration::from_nanos(1),
                ..WAITED
            },
        ];
        for other in opens {
            let mut seen = DelayedOpens::default();
            for open in [WAITED, WAITED, other, WAITED, WAITED] {
                seen.opened_again(&open);
            }
            assert_eq!(seen.delay(), None, "{other:?}");
        }
        let mut seen = DelayedOpens::default();
        assert!(!seen.asks_again(opens[2].took));
        for _ in 0..MOST_IN_TIME {
            assert!(seen.asks_again(LEAST));
            seen.opened_again(&opens[2]);
        }
        assert!(!seen.asks_again(LEAST));
    }

    #[test]
    fn a_sleep_is_seen_and_is_no_read() {
        let ((), time) = OpenTime::of(|| std::thread::sleep(LEAST));
        assert!(time.slept && !time.has_read, "{time:?}");
        assert!(time.is_delayed());
    }
}
