//! What a session tells the server on its standard input, a line each; `ok` comes back on its standard
//! output, also once when it is ready to serve.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};

/// The server's answer, as a line.
pub(super) const OK: &str = "ok";

/// How requests are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Not at all, as long as nothing else was said.
    None,
    /// By so many ns each; for measuring the overhead, and what the machine carries.
    Fixed(u64),
    /// As the model says, less the overhead.
    Model(Overhead),
}

/// The time that a request spends on its way to the emulator and back in any case: the wake-ups of four
/// threads, and copying its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Of a request of 4 KiB, in ns.
    pub request: u64,
    /// Of each further 4 KiB, in ns.
    pub page: u64,
}

impl Overhead {
    /// Of a request of so many bytes, in ns.
    pub(super) fn of(self, bytes: u64) -> u64 {
        let pages = bytes.div_ceil(4096).saturating_sub(1);
        self.request.saturating_add(self.page.saturating_mul(pages))
    }
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        let (request, page) = (us(self.request), us(self.page));
        write!(
            f,
            "{request:.1} µs a request and {page:.1} µs for each 4 KiB after the first"
        )
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Pace::None => write!(f, "none"),
            Pace::Fixed(ns) => write!(f, "fixed {ns}"),
            Pace::Model(overhead) => write!(f, "model {} {}", overhead.request, overhead.page),
        }
    }
}

impl FromStr for Pace {
    type Err = Error;

    fn from_str(line: &str) -> Result<Pace> {
        let number = |text: &str| text.parse().with_context(|| format!("pace '{line}'"));
        let pace = match line.split_once(' ') {
            None if line == "none" => Pace::None,
            Some(("fixed", ns)) => Pace::Fixed(number(ns)?),
            Some(("model", overhead)) => {
                let (request, page) = overhead.split_once(' ').unwrap_or((overhead, ""));
                Pace::Model(Overhead {
                    request: number(request)?,
                    page: number(page)?,
                })
            }
            _ => bail!("unknown pace '{line}'"),
        };
        Ok(pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_requests_take_longer() {
        let overhead = Overhead {
            request: 100,
            page: 7,
        };
        let of = |bytes| overhead.of(bytes);
        assert_eq!((of(512), of(4096), of(131_072)), (100, 100, 100 + 31 * 7));
    }

    #[test]
    fn paces_survive_the_pipe() {
        let overhead = Overhead {
            request: u64::MAX,
            page: 7,
        };
        for pace in [Pace::None, Pace::Fixed(3), Pace::Model(overhead)] {
            assert_eq!(pace.to_string().parse::<Pace>().unwrap(), pace);
        }
        for bad in [
            "",
            "fixed",
            "fixed -1",
            "model x 1",
            "model 1",
            "none 1",
            "faster",
        ] {
            assert!(bad.parse::<Pace>().is_err(), "{bad}");
        }
    }
}
