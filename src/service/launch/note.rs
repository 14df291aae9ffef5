//! What the history says of a launch beside its figures.

use std::fmt;

use crate::model::PrefetchReport;

/// A remark on a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchNote {
    /// No recorder can be had on this system.
    NoRecorder,
    /// All recorders are loading or busy.
    RecorderBusy,
    /// The recorder did not let the program go in time.
    HeldTooLong,
    /// The prefetch thread could not be started: why.
    NoPrefetchThread(String),
    /// The prefetch thread has refused: why.
    NotPrefetched(String),
    /// The prefetch thread has given up in the middle: why.
    PrefetchedInPart(String),
    /// The launch was learned: prefetch entries of the profile.
    Learned(u64),
    /// Nothing was learned: why.
    NotLearned(String),
}

impl LaunchNote {
    /// What a prefetch was prevented by, if it was.
    pub fn of_report(report: &PrefetchReport) -> Option<Self> {
        let refused = report.refused.clone().map(LaunchNote::NotPrefetched);
        refused.or_else(|| report.ran_short.clone().map(LaunchNote::PrefetchedInPart))
    }
}

impl fmt::Display for LaunchNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchNote::NoRecorder => f.write_str("not learned: tracing cannot be had"),
            LaunchNote::RecorderBusy => {
                f.write_str("not learned: tracing is not ready, or busy with other launches")
            }
            LaunchNote::HeldTooLong => f.write_str("it was held for too long and let go"),
            LaunchNote::NoPrefetchThread(why) => write!(f, "no prefetch thread: {why}"),
            LaunchNote::NotPrefetched(why) => write!(f, "not prefetched: {why}"),
            LaunchNote::PrefetchedInPart(why) => write!(f, "prefetched in part: {why}"),
            LaunchNote::Learned(entries) => write!(f, "learned {entries} entries"),
            LaunchNote::NotLearned(why) => f.write_str(why),
        }
    }
}
