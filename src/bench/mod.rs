//! Measuring what prefetching gains: cold, prefetched and warm launches in turns.

pub mod completion;
mod interleave;
mod launcher;
mod results;
mod table;

pub use interleave::{Launcher, interleave};
pub use launcher::{AppLauncher, BenchError, LaunchEnd};
pub use results::{Results, Sample, Scenario, Series};
pub use table::render;
