//! Launches under way.
//!
//! [`step`] says what becomes of a launch in each state at each event, and what is to be done then. It is
//! a pure function. [`Launches`] keeps the launches and their states, turns what happens to them into events,
//! and has the actions carried out through [`Outside`].

#[cfg(test)]
mod document;
#[cfg(test)]
mod fakes;
#[cfg(test)]
mod lives;
mod pending_execs;
mod state;
mod table;

#[cfg(test)]
use state::ThreadPhase;
pub use state::{LaunchPolicy, LaunchStage, LaunchState, StateAction, StateEvent, step};
pub use table::{FollowedLaunch, LaunchStart, Launches, TICK};

use crate::model::{LaunchCounts, UserApp};
use crate::process::TaskState;

/// The seam between the life of launches and the system: what launches need of it. The real side is
/// [`crate::service::parts`]; the tests have another one, which needs no root, no kernel and no time.
pub trait Outside {
    /// What was counted so far; `None` if the launch has no slot any more.
    fn counts(&self, launch: u64) -> Option<LaunchCounts>;

    /// The threads of a launch tree, each looked up when it is asked for.
    fn threads(&self, launch: u64) -> impl Iterator<Item = TaskState>;

    /// Size of the app's schedule in bytes; 0 without a profile.
    fn schedule_bytes(&self, app: &UserApp) -> u64;

    /// Frees the slot of a launch. Its tasks belong to no launch from then on.
    fn close_slot(&mut self, launch: u64);

    /// No launch is under way any more: waits need not be counted.
    fn stop_counting_waits(&mut self);

    /// Carries an action out.
    ///
    /// # Errors
    /// Why there is no prefetch thread or no recorder for the launch. Other actions do not fail.
    fn perform(&mut self, action: StateAction, launch: &mut FollowedLaunch) -> Result<(), String>;
}
