//! Measuring what prefetching gains: cold, prefetched and warm launches in turns.

pub mod completion;
mod export;
mod launcher;
mod results;
mod table;
mod verdict;

pub use export::{json, markdown};
pub use launcher::{AppLauncher, BenchError, LaunchEnd, MeasuredLaunch};
pub use results::{Results, Scenario};
pub use table::render;
pub use verdict::verdict;
