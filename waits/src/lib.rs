//! The wait detector: tasks that sleep uninterruptibly, for how long, for what, and whose write it was.
//!
//! [`WaitDetector`] sees the waits, by BPF programs of its own. [`WaitNames`] finds the paths of the files that they are
//! about, and [`WaitTotals`] sums them up. [`WaitLog`] does all that in the caller's thread, and [`WaitWatch`] in one of
//! its own. [`cli`] is the program `paralfetch-waits`.
//!
//! It is a tool beside the product, whose public interface it uses: the service knows nothing of it.

pub mod cli;
mod detector;
mod names;
mod run_time_stats;
mod totals;
mod wait;
mod watch;

pub use detector::{DetectorCost, WaitDetector, WaitOptions};
pub use names::WaitNames;
pub use run_time_stats::RunTimeStats;
pub use totals::{Tally, WaitProcess, WaitSum, WaitTotals, WaitedPlace};
pub use wait::{Wait, WaitCause, WaitTask};
pub use watch::{SeenWaits, WaitLog, WaitWatch};
