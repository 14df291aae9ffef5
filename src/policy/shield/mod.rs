//! Deciding when a drive that is being written is shielded: few and small writes at a time, so that who reads or syncs
//! does not wait behind them.
//!
//! ```text
//!                a launch                        the drive is quiet, nobody needs it
//!  ┌──────┐ ─────────────────────► ┌──────────┐ ─────────────────────────────────────► idle
//!  │ idle │   tasks wait           │ in force │
//!  └──────┘ ───────► measuring ──► └──────────┘ ──► a looser step ──► … ──► given way
//!                    its writers        ▲               the writers lose too much
//!                        └──────────────┘
//! ```
//!
//! Reasons are a user's launch from the drive, and the kernel's report that tasks of a session wait for drives. Each
//! counts for [`REASON_LASTS`], on the account of its user. [`ShieldState::step`] takes what happened and what was seen, and
//! returns what to do.

mod limits;
mod state;

pub use limits::{DriveLook, WriteLimits};
pub use state::{REASON_LASTS, ReleaseReason, ShieldAction, ShieldEvent, ShieldState};
