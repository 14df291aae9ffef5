//! Judging prefetched launches: what the launch tree still had to read itself, and why
//! (design §2: *miss*).
//!
//! [`misses()`] is the judgement: a plain function over what was traced, the profile, and what the
//! prefetch did. What it must ask the system goes through one trait, [`System`], which
//! [`LiveSystem`] answers. [`Recorder`] watches a launch for it.

mod blocks;
mod known;
mod misses;
mod recorder;
mod system;

pub use blocks::BlockKind;
pub use misses::{
    FileLookUp, FileNow, JudgedLaunch, Miss, MissReason, MissedPlace, Misses, PageFate,
    RequestCount, misses,
};
pub use recorder::{Recorder, Recording};
pub use system::LiveSystem;
