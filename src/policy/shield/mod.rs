//! Deciding what is done so that launches and waiting tasks do not wait for background writes.
//!
//! A *claim* is a reason: a launch under way, a thread that waits for a write, or pressure on a drive. A *look* is the
//! evidence: which drives are being written, what is dirty, how much memory there is, and which cgroups write. From
//! both [`ShieldState::step`] decides on *measures*, mildest first ([`MeasureKind`]):
//!
//! ```text
//!  launch ──┬─► journal: priority, where the scheduler heeds it
//!           ├─► hold ── seconds ──► rest, as long again
//!           └─► (a hold is not allowed, not possible, or over)
//!  waits ───┬─► journal    ▼
//!  pressure ┴─► backlog of the drive, or dirty limit of the system ──► follows the backlog down
//!               group: cgroups of the same user's writers
//!               requests: where the administrator asks for it
//! ```
//!
//! Every measure has a bound, is on one user's account, and ends with the last claim that supports it. What others may
//! feel is in force for a share of time on each account; cgroups are only touched for their own user.

mod accounts;
mod claim;
mod event;
mod look;
mod measure;
mod settings;
mod state;
mod wanted;

pub use event::{Measure, MeasureEnd, ShieldAction, ShieldEvent};
pub use look::{DirtyThresholds, DriveLook, MemoryLook, ShieldLook, WriterLook, WriterMemory};
pub use measure::MeasureKind;
pub use settings::{ShieldProfile, ShieldSettings};
pub use state::ShieldState;
