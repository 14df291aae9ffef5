//! The launch manager: what is done with a launch, from the parts of the pipeline (paper §4.1).
//!
//! [`learn()`] watches a launch and makes a profile of it, which [`crate::prefetch`] reads ahead at a
//! later one. Both leave the app's start to [`crate::launch`].

mod cgroup;
mod completion;
mod follow;
mod learn;
mod lesson;
mod live;
mod reads;
mod registry;
mod settings;

pub use follow::Follow;
pub use learn::{
    LearnError, LearnOptions, Learned, Lesson, NotLearned, Summary, launch_sequence, learn,
};
pub use live::{LiveJob, LiveLearner, LiveNews, LiveResult, Stage};
pub use reads::ReadCounter;
pub use registry::{Added, Marks, Record, Registry, RegistryError};
pub use settings::{LearningSettings, RUN_DIR, devices_below};
