//! Plain data that every floor shares: pages and where they lie, accesses, log and prefetch entries,
//! scheduling parameters, what a drive's reads cost, a profile, what a prefetch did. Imports nothing of the crate.

mod access;
mod app;
mod drive_costs;
mod entry;
mod hooks;
mod launch;
mod median;
mod missed_requests;
mod operation;
mod params;
mod person;
mod prefetch_report;
mod profile;
pub(crate) mod ranges;
mod shown;

pub use access::{Access, By, InodeId, PathUse, Source, Use};
pub use app::{App, AppKey, Identity, Key, UserApp};
pub use drive_costs::DriveCosts;
pub use entry::{LogEntry, PAGE_SIZE, Place, PrefetchEntry, SECTORS_PER_PAGE, Span};
pub use hooks::{HookKind, Hooks};
pub use launch::{LaunchCounts, LaunchLimits, OwnRead};
pub use median::{lower_median, median};
pub use missed_requests::{MissKind, MissedRequests};
pub use operation::{Operation, OperationKind};
pub use params::{DeviceParams, DriveClass, GivenParams, Infill, Params, ReadOrder};
pub use person::is_person;
pub use prefetch_report::{EntryCount, PrefetchReport, Skipped};
pub use profile::{
    DataPages, Device, Ended, File, HelperRead, Learned, MOST_COMPLETION_PAGES,
    MOST_LEARNED_LAUNCHES, Profile, Revision, UnusedPages, pages_to_complete,
};
pub use shown::shown;
