//! Plain data that every floor shares: pages and where they lie, accesses, log and prefetch entries,
//! scheduling parameters, a profile, what a prefetch did. Imports nothing of the crate.

mod access;
mod app;
mod drive_class;
mod entry;
mod hooks;
mod launch_counts;
mod launch_limits;
mod median;
mod params;
mod path_use;
mod prefetch_report;
mod profile;
pub(crate) mod ranges;

pub use access::{Access, By, Source};
pub use app::{App, AppKey, Identity, Key};
pub use drive_class::DriveClass;
pub use entry::{LogEntry, PAGE_SIZE, Place, PrefetchEntry, SECTORS_PER_PAGE, Span};
pub use hooks::{HookKind, Hooks};
pub use launch_counts::{LaunchCounts, OwnRead};
pub use launch_limits::LaunchLimits;
pub use median::{lower_median, median};
pub use params::{Infill, Params};
pub use path_use::{InodeId, PathUse, Use};
pub use prefetch_report::{PrefetchReport, Skipped};
pub use profile::{Device, Ended, File, HelperRead, Learned, Profile, Revision};
