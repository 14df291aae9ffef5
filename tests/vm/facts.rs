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
    /// Pages of libraries and other files in the idle set, and how many of them the held set has.
    pub files: Recall,
    /// The same for the one data file, which the app only reads.
    pub data: Recall,
    /// The same for metadata blocks.
    pub metadata: Recall,
    /// A launch learned live, with everything cached.
    pub live: Learned,
    /// Pages of files in the idle set, and how many of them the live set has.
    pub live_files: Recall,
    /// The same for metadata blocks.
    pub live_metadata: Recall,
    /// Pages of files in the idle set, and how many of them the service has learned.
    pub served_files: Recall,
    /// The same for metadata blocks.
    pub served_metadata: Recall,
    /// The setting of faultaround meanwhile.
    pub knob: KnobFacts,
    /// Read requests of one cold launch, everybody's.
    pub cold_reads: u64,
    /// The same of a launch that begins when all of its prefetch is done.
    pub reads_after_prefetch: u64,
    /// `paralfetch bench --export-json` of one cold and one prefetched launch.
    pub bench: serde_json::Value,
    /// What `paralfetch learn` printed.
    pub learn_report: String,
    /// What `paralfetch run -v` printed.
    pub run_report: String,
    /// What the wait detector said.
    pub waits: WaitFacts,
}

/// What the wait detector said of waits that were produced on purpose; one that it does not see ends the guest.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WaitFacts {
    /// What it cannot tell on this kernel.
    pub missing: Vec<String>,
    /// An fsync beside a writer: file and device are right.
    pub fsync_is_for_the_file: bool,
    /// The same: the writer is named.
    pub fsync_is_for_the_writer: bool,
    /// A commit of the journal: the device is right.
    pub commit_is_for_the_drive: bool,
    /// Reports that were lost.
    pub lost: u64,
}

/// What came of a learning run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Learned {
    /// Pages of files.
    pub files: usize,
    /// Blocks of metadata.
    pub metadata: usize,
    /// Pages of files that were cached before the launch: seen only by their use.
    pub unread: usize,
    /// Paths that were looked up.
    pub paths: u64,
    /// Paths that could not be recorded.
    pub lost_paths: u64,
    /// Whether each fault told the very page that was touched.
    pub exact_faults: bool,
    /// What resolving could not tell.
    pub warnings: Vec<String>,
    /// Seconds from execve to the end of the launch.
    pub seconds: f64,
}

/// Faultaround's window, in bytes, and what it makes of a launch.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KnobFacts {
    /// As the kernel comes.
    pub before: String,
    /// After the service was killed while it learned a launch.
    pub killed: String,
    /// After a launch was learned.
    pub learned: String,
    /// Whether the service says that faults told the very page.
    pub is_exact: bool,
    /// Page faults of a warm launch as the kernel comes.
    pub faults_wide: u64,
    /// The same with windows of one page.
    pub faults_narrow: u64,
}

/// How much of an exactly learned set was found again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Recall {
    /// Pages in the exact set.
    pub wanted: usize,
    /// Those of them that the drive was seen to read; what they depend on is in the set as well.
    pub read: usize,
    /// Those that the other set has.
    pub found: usize,
    /// Those that it has because they were added to the cache, and would have without the hooks
    /// for cached pages and without paths.
    pub added: usize,
    /// Pages that only the other set has.
    pub excess: usize,
    /// Some of those that the other set does not have, as page and file.
    pub missing: Vec<String>,
    /// Some of those that only the other set has.
    pub unwanted: Vec<String>,
}

impl Recall {
    /// Share of the exact set that was found again, 0 to 1.
    pub fn found_share(&self) -> f64 {
        self.found as f64 / self.wanted as f64
    }

    /// Pages that only the other set has, as a share of the exact set: 0 or more.
    pub fn excess_share(&self) -> f64 {
        self.excess as f64 / self.wanted as f64
    }
}
