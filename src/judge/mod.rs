//! Judging prefetched launches: what the launch tree still had to read itself (its *misses*), and why.
//!
//! [`misses()`] is a plain function of what was traced, the profile, and what the prefetch did. Its questions
//! to the system go through one trait, [`FileLookUp`], which [`LiveSystem`] implements. [`Recorder`] traces a
//! launch for it. [`lacked`] tells which misses learning could mend.

mod known_files;
mod miss_kinds;
mod misses;
mod recorder;
mod system;

pub use known_files::KnownFiles;
pub use miss_kinds::{lacked, readable};
pub use misses::{
    FileLookUp, FileNow, JudgedLaunch, Miss, MissReason, MissedPlace, Misses, PageFate,
    RequestCount, misses,
};
pub use recorder::{Recorder, Recording};
pub use system::LiveSystem;
