//! The seam between the life of launches and the system. The real side is [`crate::service::parts`]; the
//! tests have another one, which needs no root, no kernel and no time.

use super::{FollowedLaunch, StateAction};
use crate::model::LaunchCounts;
use crate::process::TaskState;

/// What launches need of the system.
pub trait Outside {
    /// What was counted so far; `None` if the launch has no slot any more.
    fn counts(&self, launch: u64) -> Option<LaunchCounts>;

    /// The threads of a launch tree, each looked up when it is asked for.
    fn threads(&self, launch: u64) -> impl Iterator<Item = TaskState>;

    /// Whether the exec gate still holds the program of this launch.
    fn is_held(&self, launch: u64) -> bool;

    /// Size of the app's schedule in bytes; 0 without a profile.
    fn schedule_bytes(&self, id: &str) -> u64;

    /// Frees the slot of a launch. Its tasks are strangers from then on.
    fn close_slot(&mut self, launch: u64);

    /// No launch is under way any more: waits need not be counted.
    fn stop_counting_waits(&mut self);

    /// Carries an action out.
    ///
    /// # Errors
    /// Why there is no prefetch thread or no recorder for the launch. Other actions do not fail.
    fn perform(&mut self, action: StateAction, launch: &mut FollowedLaunch) -> Result<(), String>;
}
