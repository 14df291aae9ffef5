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

use crate::kernel::LaunchEvent;
use crate::model::{LaunchCounts, UserApp};
use crate::process::TaskState;
use crate::service::catalogue::FoundApp;

/// What a launch begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// A call of execve, from which on the kernel records it if a recorder is ready.
    Execve,
    /// An announcement. Nothing is recorded before that.
    Announced,
    /// A session at a seat of the system. It goes on for seconds: what is read while a recorder is made ready for it is not
    /// missed.
    Login,
}

/// The seam between the life of launches and the system: what launches need of it. The real side is
/// [`crate::service::parts`]; the tests have another one, which needs no root, no kernel and no time.
pub trait Outside {
    /// The app that a call of execve would start, as far as its path tells.
    fn called(&self, event: &LaunchEvent) -> Option<FoundApp>;

    /// The app that was executed.
    fn executed(&self, event: &LaunchEvent) -> Option<FoundApp>;

    /// How a launch of this app by this process begins; `None`: it is left alone, since its app is not managed, or another
    /// command of ours has started it.
    fn prepare(
        &mut self,
        launch: u64,
        pid: u32,
        found: FoundApp,
        beginning: Beginning,
    ) -> Option<LaunchStart>;

    /// A launch has begun, and the first requests for it are made.
    fn begun(&mut self, launch: u64, is_recorded: bool);

    /// What was counted so far; `None` if the launch has no slot any more.
    fn counts(&self, launch: u64) -> Option<LaunchCounts>;

    /// The threads of a launch tree, each looked up when it is asked for.
    fn threads(&self, launch: u64) -> impl Iterator<Item = TaskState>;

    /// Size of the app's schedule in bytes; 0 without a profile.
    fn schedule_bytes(&self, app: &UserApp) -> u64;

    /// The most that one of the app's last prefetched launches read, in bytes; 0 if none is known.
    fn usual_bytes(&self, app: &UserApp) -> u64;

    /// Frees the slot of a launch. Its tasks belong to no launch from then on.
    fn close_slot(&mut self, launch: u64);

    /// No launch is under way any more: nothing need be counted or timed.
    fn detach_programs(&mut self);

    /// Carries an action out.
    ///
    /// # Errors
    /// Why there is no prefetch thread or no recorder for the launch. Other actions do not fail.
    fn perform(&mut self, action: StateAction, launch: &mut FollowedLaunch) -> Result<(), String>;
}
