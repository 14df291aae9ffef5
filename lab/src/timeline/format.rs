//! The timeline of one launch, as `lab/plot.py` draws it: a JSON file of at most some 500 KB.

use serde::{Deserialize, Serialize};

use super::idle::Idle;
use super::summary::Totals;

/// One launch in full. All times are in microseconds since the app's execve; what happened before
/// it (a prefetcher may begin early) stands at 0.
///
/// Long series are shortened: counts (`cpu`, `waiting`, `queue`) to at most 1,500 parts, each with the
/// rounded mean over a power of two microseconds; positions to 1,500 steps, of those in such a part
/// the last; the sequences to every second, third, … entry, at most 2,500; the misses to the 1,200 that
/// were waited for longest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Name of the drive's profile, such as `qlc-sata`.
    pub device: String,
    /// Name of the app.
    pub app: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Length of the launch, in seconds.
    pub seconds: f64,
    /// To the main window's mapping, in seconds.
    pub window: Option<f64>,
    /// To the arrival of the completion block, in seconds.
    pub completion: Option<f64>,
    /// Intervals `[start, end, tasks of the launch tree on a processor]`; disjoint and sorted. In
    /// the gaps none is.
    pub cpu: Vec<[u64; 3]>,
    /// Intervals `[start, end, tasks of the launch tree waiting for I/O]`, likewise.
    pub waiting: Vec<[u64; 3]>,
    /// Stretches without reads of the launch tree and its prefetcher; `None` in files from before they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// Steps `[time, requests in flight at the drive]`, reads and writes of anybody.
    pub queue: Vec<[u64; 2]>,
    /// Steps `[time, pages of the launch sequence that the prefetcher has asked for so far]`.
    pub prefetch: Vec<[u64; 2]>,
    /// Steps `[time, pages of the launch sequence that the app has used or read so far]`.
    pub app_position: Vec<[u64; 2]>,
    /// 4 KiB pages in the launch sequence.
    pub total_pages: u64,
    /// Reads that prefetching did not spare the app, in time order.
    pub misses: Vec<Miss>,
    /// The launch sequence: `[position, 512-byte sector, pages, 1 for metadata]`.
    pub before: Vec<[u64; 4]>,
    /// The schedule, likewise; entries whose place on the drive is not known are left out.
    pub after: Vec<[u64; 4]>,
    /// Sums from before downsampling. Not in the file: what is loaded sums up what it has.
    #[serde(skip)]
    pub(crate) totals: Option<Totals>,
}

/// A read request that the launch tree made itself, or waited for though the prefetcher made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// When the request was issued or, if the prefetcher made it, when the tree began to wait.
    pub time_us: u64,
    /// Time for which tasks of the tree waited for it, summed over tasks.
    pub wait_us: u64,
    /// Path of the file, from its file system's root; `metadata`; `direct I/O`.
    pub what: String,
    /// First page, in 4 KiB pages of the file, or of the drive.
    pub offset: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The reason.
    pub why: Why,
}

/// Why a read was not spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// The launch is not prefetched.
    #[serde(rename = "nobody prefetches")]
    NobodyPrefetches,
    /// No page of it is among what is prefetched.
    #[serde(rename = "not in the profile")]
    NotInProfile,
    /// The prefetcher had requested it, and the app waited for its arrival.
    #[serde(rename = "came too late")]
    CameTooLate,
    /// The app got there before the prefetcher.
    #[serde(rename = "not reached yet")]
    NotReachedYet,
    /// The prefetcher had added its pages to the cache, and they were read again.
    #[serde(rename = "read again")]
    ReadAgain,
}

impl Why {
    /// Its description in files and reports.
    pub fn description(self) -> &'static str {
        match self {
            Why::NobodyPrefetches => "nobody prefetches",
            Why::NotInProfile => "not in the profile",
            Why::CameTooLate => "came too late",
            Why::NotReachedYet => "not reached yet",
            Why::ReadAgain => "read again",
        }
    }
}

/// Facts of a launch that its recording does not hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// As [`Timeline::device`].
    pub device: String,
    /// As [`Timeline::app`].
    pub app: String,
    /// As [`Timeline::scenario`].
    pub scenario: String,
    /// As [`Timeline::seconds`].
    pub seconds: f64,
    /// As [`Timeline::window`].
    pub window: Option<f64>,
    /// As [`Timeline::completion`].
    pub completion: Option<f64>,
}
