//! Learning a launch: its trace becomes a launch sequence with metadata dependencies and disk positions, and
//! the sequence becomes a profile.

mod build_profile;
mod cgroup;
mod cold;
mod completion_pages;
mod export;
mod fault_around;
mod file_metadata;
mod follow;
mod images;
mod import;
mod live;
mod lookups;
mod missed_reads;
mod named_blocks;
mod probe;
mod reads;
pub mod sequence;
mod settings;

pub use cold::{
    LearnError, LearnOptions, LearnSummary, LearnedProfile, NotLearned, launch_sequence, learn,
};
pub use export::{ExportedProfile, export};
pub use fault_around::FaultAroundKnob;
pub use file_metadata::FileMetadata;
pub use follow::Follow;
pub use import::{ImportPlace, ProfileFit, import};
pub use live::{LaunchRecorder, LiveJob, LiveLearner, LiveResult, LoadSequence};
pub use missed_reads::{MissedReads, NotedReads};
pub use reads::ReadCounter;
pub use sequence::{Earlier, Observed, ResolveReport, Sequence, resolve};
pub use settings::{LearningSettings, RUN_DIR, keeper_command, knobs_limit, own_elevators};
