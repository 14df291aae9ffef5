//! The seam between the life of launches and the system. The real side is [`crate::service::parts`]; the
//! tests have another one, which needs no root, no kernel and no time.

use crate::model::App;
use crate::model::LaunchCounts;
use crate::model::PrefetchReport;
use crate::policy::LaunchFigures;
use crate::process::TaskState;
use crate::service::history::LaunchRecord;
use crate::service::launch::{LaunchNote, LaunchPolicy};

/// The kernel side: a slot with counts for each launch, and the exec gate.
pub trait LaunchKernel {
    /// What was counted so far; `None` if the launch has no slot any more.
    fn counts(&self, launch: u64) -> Option<LaunchCounts>;

    /// The threads of a process, each looked up when it is asked for.
    fn threads(&self, pid: u32) -> impl Iterator<Item = TaskState>;

    /// Frees the slot of a launch. Its tasks are strangers from then on.
    fn close_slot(&mut self, launch: u64);

    /// Has the time taken at which the app's completion page is used.
    fn watch_completion(&mut self, launch: u64, id: &str);

    /// Has waits for the drive counted.
    fn count_waits(&mut self);

    /// No launch is under way any more: waits need not be counted.
    fn stop_counting_waits(&mut self);

    /// Has the marks of the exec gate looked up again at the next [`LaunchKernel::refresh_gate`].
    fn invalidate_gate(&mut self);

    /// Marks the executables of the apps that are to be learned, and no others.
    fn refresh_gate(&mut self);
}

/// The threads that work for a launch: its prefetch and its recorder.
pub trait LaunchThreads {
    /// Makes the first requests of the app's profile and starts the thread that makes the others.
    ///
    /// # Errors
    /// Why there is no thread.
    fn start_prefetch(&mut self, launch: u64, id: &str) -> Result<(), LaunchNote>;

    /// The report of a prefetch thread that has ended.
    fn take_report(&mut self, launch: u64) -> Option<PrefetchReport>;

    /// Stops a prefetch thread. Returns its report if it has ended by itself meanwhile.
    fn stop_prefetch(&mut self, launch: u64) -> Option<PrefetchReport>;

    /// Hands a launch to a recorder, with its program if the exec gate holds it.
    ///
    /// # Errors
    /// Why there is no recorder for it.
    fn start_recording(
        &mut self,
        launch: u64,
        id: &str,
        pid: u32,
        app: &App,
    ) -> Result<(), LaunchNote>;

    /// Whether the exec gate still holds the program of this launch.
    fn is_held(&self, launch: u64) -> bool;

    /// Lets the program of this launch go, if it is held.
    fn let_go(&mut self, launch: u64);
}

/// A launch whose app runs now.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmedLaunch<'a> {
    /// Id of the app.
    pub id: &'a str,
    /// Its executable.
    pub app: &'a App,
    /// Its first process.
    pub pid: u32,
    /// What is done for it.
    pub policy: LaunchPolicy,
}

/// What is remembered of apps and their launches.
pub trait LaunchBooks {
    /// Enters a launch in the registry and tells the bus.
    fn count_launch(&mut self, launch: ConfirmedLaunch<'_>);

    /// Uses and stores the profile that the recorder has made of this launch. `alone`: no prefetch ran
    /// beside it, so that its waits are those of a launch without prefetching.
    fn keep_profile(&mut self, launch: u64, id: &str, counts: &LaunchCounts, alone: bool);

    /// Tells the app's policy that nothing was learned.
    fn report_not_learned(&mut self, id: &str);

    /// Size of the app's schedule in bytes; `None` without a profile.
    fn schedule_bytes(&self, id: &str) -> Option<u64>;

    /// Has the app's policy judge a launch.
    fn judge(&mut self, id: &str, figures: &LaunchFigures);

    /// Weighs whether a program on probation is an app.
    fn weigh(&mut self, id: &str, counts: &LaunchCounts);

    /// Writes the registry, then a row of the history, and tells the bus and the log.
    fn write_down(&mut self, row: LaunchRecord, counts: &LaunchCounts);
}

/// Everything that launches need of the system.
pub trait Outside: LaunchKernel + LaunchThreads + LaunchBooks {}

impl<T: LaunchKernel + LaunchThreads + LaunchBooks> Outside for T {}
