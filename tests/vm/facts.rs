//! What the guest found, as the host reads it.

use serde::{Deserialize, Serialize};

/// Stands before the facts on their line.
pub const MARK: &str = "FACTS ";

/// Everything that is asserted of the guest.
#[derive(Debug, Serialize, Deserialize)]
pub struct Facts {
    /// `paralfetch doctor --json`.
    pub doctor: serde_json::Value,
    /// Its exit status.
    pub doctor_status: Option<i32>,
    /// What the learning sessions said of their means, as in the profile.
    pub hooks: serde_json::Value,
    /// The launch learned with nothing else running.
    pub idle: Learned,
    /// The same with another process holding its libraries and its data.
    pub held: Learned,
    /// Pages of libraries and other files in the idle set, and how many of them the other set has.
    pub files: Recall,
    /// The same for the one data file, which the app only reads.
    pub data: Recall,
    /// The same for metadata blocks.
    pub metadata: Recall,
    /// `paralfetch bench --json` of one cold and one prefetched launch.
    pub bench: serde_json::Value,
    /// What `paralfetch learn` printed.
    pub learn_report: String,
    /// What `paralfetch run -v` printed.
    pub run_report: String,
}

/// Size of a learned set.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Learned {
    /// Pages of files.
    pub files: usize,
    /// Blocks of metadata.
    pub metadata: usize,
    /// Pages of files that were cached before the launch: seen only by their use.
    pub unread: usize,
    /// Seconds from execve to the end of the launch.
    pub seconds: f64,
}

/// How much of the idle set was found again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Recall {
    /// Pages in the idle set.
    pub wanted: usize,
    /// Those that the other set has.
    pub found: usize,
    /// Those that it has because they were added to the cache, and would have without the hooks
    /// for cached pages.
    pub added: usize,
    /// Some of those that the other set does not have, as page and file.
    pub missing: Vec<String>,
}
