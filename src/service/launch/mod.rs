//! Launches under way.
//!
//! [`step`] says what becomes of a launch in each state at each event, and what is to be done then. It is
//! a pure function. [`Launches`] keeps the launches and their states, turns what happens to them into events,
//! and has the actions carried out through the [`seam`].

#[cfg(test)]
mod document;
#[cfg(test)]
mod fakes;
#[cfg(test)]
mod lives;
mod pending_execs;
pub(super) mod seam;
mod state;
mod table;

#[cfg(test)]
use state::ThreadPhase;
pub use state::{LaunchPolicy, LaunchStage, LaunchState, StateAction, StateEvent, step};
pub use table::{FollowedLaunch, LaunchStart, Launches, TICK};
