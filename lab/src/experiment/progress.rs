//! How far a session has come, and how long it will take.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows one line of progress on standard error.
pub struct Progress {
    begun: Instant,
    of: usize,
    done: usize,
}

impl Progress {
    /// For `of` launches.
    pub fn new(of: usize) -> Self {
        Progress {
            begun: Instant::now(),
            of,
            done: 0,
        }
    }

    /// One more is done; `what` says which, and what came of it.
    pub fn step(&mut self, what: &str) {
        self.done += 1;
        let left = self.left();
        let line = format!(
            "{} of {}: {what}; {left} left",
            self.done,
            self.of.max(self.done)
        );
        let mut err = io::stderr().lock();
        // On a terminal one line is written over and over. What cannot be shown is no reason to stop.
        let _ = if err.is_terminal() {
            let end = if self.done >= self.of { "\n" } else { "" };
            write!(err, "\r\x1b[K{line}{end}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{line}")
        };
    }

    fn left(&self) -> String {
        let each = self.begun.elapsed() / self.done.max(1) as u32;
        about(each * self.of.saturating_sub(self.done) as u32)
    }
}

/// A duration in words, such as `about 12 min`.
pub fn about(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=90 => format!("about {seconds} s"),
        91..=5400 => format!("about {} min", (seconds + 30) / 60),
        _ => format!("about {:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded() {
        assert_eq!(about(Duration::from_secs(45)), "about 45 s");
        assert_eq!(about(Duration::from_secs(700)), "about 12 min");
        assert_eq!(about(Duration::from_secs(9000)), "about 2.5 h");
    }
}
