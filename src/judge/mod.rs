//! Judging prefetched launches: what the launch tree still had to read itself (its *misses*), and why.
//!
//! [`misses()`] is a plain function of what was traced, the profile, and what the prefetch did. Its questions
//! to the system go through one trait, [`FileLookUp`], which [`LiveSystem`] implements. [`Recorder`] traces a
//! launch for it. [`miss_kinds`] tells which misses learning could mend.
//!
//! [`WaitTotals`] sums up what tasks waited for, and [`WaitWatch`] has the detector watch the waits of a launch in a
//! thread of its own.

mod known_files;
mod miss_kinds;
mod misses;
mod recorder;
mod system;
mod wait_names;
mod wait_totals;
mod wait_watch;
mod write_waits;

pub use known_files::KnownFiles;
pub use miss_kinds::miss_kinds;
pub use misses::{
    FileLookUp, FileNow, JudgedLaunch, Miss, MissReason, MissedPlace, Misses, PageFate,
    RequestCount, misses,
};
pub use recorder::{Recorder, Recording};
pub use system::LiveSystem;
pub use wait_names::WaitNames;
pub use wait_totals::{Tally, WaitProcess, WaitSum, WaitTotals, WaitedPlace};
pub use wait_watch::{SeenWaits, WATCH_THREAD, WaitLog, WaitWatch};
pub use write_waits::for_writes;
