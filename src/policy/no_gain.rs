//! Why an app is not faster with prefetching, as far as its launches and its drive tell.

use serde::{Deserialize, Serialize};

/// A drive that serves a request in at most this time, in microseconds, is about as fast as memory: a launch that reads
/// a thousand pages one by one waits 30 ms for it.
const FAST_REQUEST_US: u64 = 30;

/// Of fewer requests, waits say nothing about the drive.
const LEAST_REQUESTS: u64 = 100;

/// From this readahead on, in KiB, the kernel itself reads most of what a launch needs in a few requests. Distributions
/// set 128.
const LARGE_READAHEAD_KIB: u64 = 2048;

/// A launch that waits for the drive for at most this share of its time, in percent, computes.
const HARDLY_WAITS_PERCENT: u64 = 5;

/// Why there is nothing to gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoGainReason {
    /// Launches wait for a request for so many microseconds, by their waits and their requests.
    FastDrive {
        /// The mean.
        request_us: u64,
    },
    /// Without prefetching, launches hardly wait for the drive: so many microseconds, summed up over their tasks.
    HardlyWaits {
        /// The median.
        waiting_us: u64,
    },
    /// The drive's readahead is so large, in KiB.
    LargeReadahead {
        /// `read_ahead_kb`.
        kib: u64,
    },
}

/// What is known of an app that prefetching does not make faster. `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoGainFacts {
    /// Time that launches without prefetching take, in microseconds.
    pub without_us: u64,
    /// Time that they wait for the drive, summed up over their tasks, in microseconds.
    pub waiting_us: Option<u64>,
    /// Read requests that they make.
    pub requests: Option<u64>,
    /// The drive's `read_ahead_kb`.
    pub readahead_kib: Option<u64>,
}

/// The reason that the facts give, if they give one.
pub fn why_no_gain(facts: &NoGainFacts) -> Option<NoGainReason> {
    let requests = facts
        .requests
        .filter(|&requests| requests >= LEAST_REQUESTS);
    let request_us = facts.waiting_us.zip(requests);
    let request_us = request_us.map(|(waiting_us, requests)| waiting_us / requests);
    if let Some(request_us) = request_us.filter(|&us| us <= FAST_REQUEST_US) {
        return Some(NoGainReason::FastDrive { request_us });
    }
    let most = u128::from(facts.without_us) * u128::from(HARDLY_WAITS_PERCENT);
    let hardly = |&us: &u64| u128::from(us) * 100 <= most;
    if let Some(waiting_us) = facts.waiting_us.filter(hardly) {
        return Some(NoGainReason::HardlyWaits { waiting_us });
    }
    let kib = facts
        .readahead_kib
        .filter(|&kib| kib >= LARGE_READAHEAD_KIB)?;
    Some(NoGainReason::LargeReadahead { kib })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_comes_first_then_waits_then_the_readahead() {
        let facts = |waiting_us, requests, readahead_kib| NoGainFacts {
            without_us: 100_000,
            waiting_us,
            requests,
            readahead_kib,
        };
        use NoGainReason::{FastDrive, HardlyWaits, LargeReadahead};
        for (facts, reason) in [
            (facts(None, None, None), None),
            (facts(Some(5001), Some(100), Some(2047)), None),
            (
                facts(Some(3000), Some(100), Some(2048)),
                Some(FastDrive { request_us: 30 }),
            ),
            (
                facts(Some(3000), Some(99), Some(2048)),
                Some(HardlyWaits { waiting_us: 3000 }),
            ),
            (
                facts(Some(5000), Some(100), Some(2048)),
                Some(HardlyWaits { waiting_us: 5000 }),
            ),
            (
                facts(Some(5001), None, Some(8192)),
                Some(LargeReadahead { kib: 8192 }),
            ),
        ] {
            assert_eq!(why_no_gain(&facts), reason, "{facts:?}");
        }
    }
}
