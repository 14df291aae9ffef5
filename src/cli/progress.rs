//! How far a command is: on a terminal a line on standard error that is drawn again and again, and removed in the end;
//! elsewhere, such as in a log, a line of its own from time to time.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::say;
use super::terminal::draws;

/// Time from which on a rate says something.
const LEAST: Duration = Duration::from_millis(500);

/// Time between two lines where none can be drawn anew.
const LINES_APART: Duration = Duration::from_secs(10);

/// The line. Dropping it removes it.
pub struct Progress {
    is_drawn: bool,
    begun: Instant,
    /// When the last line was said.
    said: Instant,
}

impl Progress {
    /// Of work that begins now. Where standard error is no terminal, or one that cannot draw, it is a line every ten seconds.
    pub fn new() -> Self {
        let begun = Instant::now();
        Progress {
            is_drawn: draws(&io::stderr()),
            begun,
            said: begun,
        }
    }

    /// Draws what was done, and the time that is left if this share of all has taken the time until now.
    pub fn show(&mut self, what: &str, share: f64) {
        let left = time_left(self.begun.elapsed(), share);
        let left = left.map_or(String::new(), |left| format!("; {} left", short(left)));
        let line = format!("{what}{left}");
        if self.is_drawn {
            self.draw(&line);
        } else if self.is_due(Instant::now()) {
            say(&line);
        }
    }

    /// Whether another line is to be said now; then none is for a while.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.said) >= LINES_APART;
        if is_due {
            self.said = now;
        }
        is_due
    }

    /// A failed write does not stop the work.
    fn draw(&self, line: &str) {
        if self.is_drawn {
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.draw("");
    }
}

/// The time that the rest of the work takes at the rate of the share that was done; `None` while that says nothing.
fn time_left(elapsed: Duration, share: f64) -> Option<Duration> {
    let is_known = elapsed >= LEAST && share > 0.0 && share < 1.0;
    let left = || elapsed.as_secs_f64() * (1.0 - share) / share;
    is_known
        .then(left)
        .and_then(|left| Duration::try_from_secs_f64(left).ok())
}

/// Whole seconds, or minutes and seconds.
fn short(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        let seconds = Duration::from_secs;
        assert_eq!(time_left(seconds(3), 0.25), Some(seconds(9)));
        for nothing in [0.0, 1.0, f64::NAN, -1.0] {
            assert_eq!(time_left(seconds(3), nothing), None, "{nothing}");
        }
        assert_eq!(time_left(Duration::from_millis(3), 0.01), None);
        assert_eq!(time_left(seconds(3), f64::MIN_POSITIVE), None);
    }

    #[test]
    fn lines_of_their_own_are_some_seconds_apart() {
        let begun = Instant::now();
        let mut progress = Progress {
            is_drawn: false,
            begun,
            said: begun,
        };
        let due = [0, 9, 10, 11, 20].map(|s| progress.is_due(begun + Duration::from_secs(s)));
        assert_eq!(due, [false, false, true, false, true]);
    }

    #[test]
    fn times_are_rounded_up() {
        assert_eq!(short(Duration::from_millis(1200)), "2 s");
        assert_eq!(short(Duration::from_secs(125)), "2 min 05 s");
    }
}
