//! The launches under way, and what is known of each.

use std::collections::HashMap;
use std::time::Duration;

use super::pending_execs::PendingExecs;
use super::seam::{ConfirmedLaunch, Outside};
use super::{LaunchNote, LaunchPolicy, LaunchState, StateAction, StateEvent, step};
use crate::model::{App, LaunchCounts, LaunchLimits, PrefetchReport};
use crate::policy::{LaunchFigures, Plan};
use crate::process::{Clocks, EndDetector, LaunchLook, ReadSample};
use crate::service::history::{Kind, LaunchRecord};

/// How often launches under way are looked at.
pub const TICK: Duration = Duration::from_millis(100);

/// How long a program may be held. Attaching the recorder's programs takes a few milliseconds.
const HOLD_LIMIT: Duration = Duration::from_secs(1);

/// How long execve may take from its call to its success.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Launches that are followed at a time; others are left alone.
const MOST_FOLLOWED: usize = 48;

/// A launch that begins.
pub struct LaunchStart {
    /// Id of the app.
    pub id: String,
    /// Whose profile it has or will have.
    pub app: App,
    /// Its first process.
    pub pid: u32,
    /// What is done for it.
    pub policy: LaunchPolicy,
    /// When it is over.
    pub limits: LaunchLimits,
    /// When it was seen first.
    pub begun: Clocks,
    /// The same in seconds since the epoch.
    pub begun_s: u64,
}

/// What came of recording a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordResult {
    /// A profile.
    Profile {
        /// Prefetch entries.
        entries: u64,
    },
    /// No profile: why.
    Nothing(String),
    /// A profile that cannot be used on this system: why.
    Unusable(String),
}

/// A launch that is followed.
struct FollowedLaunch {
    start: LaunchStart,
    state: LaunchState,
    /// Decides when it is over, unless a recorder does.
    end: EndDetector,
    /// The counts are the last ones once its slot is closed.
    figures: LaunchFigures,
    note: Option<LaunchNote>,
}

/// The launches under way.
#[derive(Default)]
pub struct Launches {
    /// Calls of execve whose app is not known, in [`LaunchState::Unknown`].
    pending: PendingExecs,
    followed: HashMap<u64, FollowedLaunch>,
}

impl Launches {
    /// Whether nothing has to be looked at every [`TICK`].
    pub fn is_empty(&self) -> bool {
        self.followed.is_empty() && self.pending.is_empty()
    }

    /// Whether a launch of an app is under way.
    pub fn any_followed(&self) -> bool {
        !self.followed.is_empty()
    }

    /// Whether this launch is followed.
    pub fn follows(&self, launch: u64) -> bool {
        self.followed.contains_key(&launch)
    }

    /// The app of a launch that is followed.
    pub fn app_of(&self, launch: u64) -> Option<&str> {
        let followed = self.followed.get(&launch)?;
        Some(&followed.start.id)
    }

    /// Whether a launch of this app can be followed: an app that is launched while a launch of it is under
    /// way is one job.
    pub fn has_room_for(&self, id: &str) -> bool {
        self.followed.len() < MOST_FOLLOWED
            && self
                .followed
                .values()
                .all(|followed| followed.start.id != id)
    }

    /// The launch of this app that this process begins, if it is to be learned.
    pub fn to_learn(&self, id: &str, pid: u32) -> Option<u64> {
        let found = self.followed.iter().find(|(_, followed)| {
            let start = &followed.start;
            start.pid == pid && start.id == id && start.policy.plan == Plan::Learn
        });
        found.map(|(&launch, _)| launch)
    }

    /// execve was called with a path that no app has.
    pub fn wait_for_exec(
        &mut self,
        launch: u64,
        pid: u32,
        now: Clocks,
        outside: &mut impl Outside,
    ) {
        if let Some(oldest) = self.pending.called(launch, pid, now.monotonic_ns) {
            apply_unknown(oldest, StateEvent::CallTimedOut, outside);
        }
    }

    /// Takes the call of execve of this process, whose app is known now.
    pub fn take_pending(&mut self, pid: u32) -> Option<u64> {
        self.pending.take_of(pid)
    }

    /// A launch whose app is known: execve was called, or with [`StateEvent::Executed`] has succeeded.
    pub fn begin(
        &mut self,
        launch: u64,
        start: LaunchStart,
        event: StateEvent,
        outside: &mut impl Outside,
    ) {
        self.pending.remove(launch);
        let end = EndDetector::new(start.begun.monotonic_ns, start.begun, start.limits);
        let followed = FollowedLaunch {
            start,
            state: LaunchState::Unknown,
            end,
            figures: LaunchFigures::default(),
            note: None,
        };
        self.followed.insert(launch, followed);
        self.apply(launch, event, outside);
    }

    /// A launch is not to be followed.
    pub fn cancel(&mut self, launch: u64, outside: &mut impl Outside) {
        self.happened(launch, StateEvent::Cancelled, outside);
    }

    /// execve has succeeded as another program than the launch began with.
    pub fn executed_another(&mut self, launch: u64, outside: &mut impl Outside) {
        self.happened(launch, StateEvent::ExecutedAnother, outside);
    }

    /// execve has succeeded as the app that the launch began with; `app` has its executable.
    pub fn executed(&mut self, launch: u64, app: App, outside: &mut impl Outside) {
        if let Some(followed) = self.followed.get_mut(&launch) {
            followed.start.app = app;
        }
        self.happened(launch, StateEvent::Executed, outside);
    }

    /// The exec gate holds the program of a launch: an executable of this device and inode number.
    pub fn held(&mut self, launch: u64, inode: (u64, u64), outside: &mut impl Outside) {
        if let Some(followed) = self.followed.get_mut(&launch) {
            (followed.start.app.dev, followed.start.app.ino) = inode;
        }
        self.happened(launch, StateEvent::ProgramHeld, outside);
    }

    /// The recorder of a launch has ended. Nothing happens if the launch was over before.
    pub fn recorded(&mut self, launch: u64, result: RecordResult, outside: &mut impl Outside) {
        let Some(followed) = self.followed.get_mut(&launch) else {
            return;
        };
        let (event, note) = match result {
            RecordResult::Profile { entries } => {
                (StateEvent::Recorded, LaunchNote::Learned(entries))
            }
            RecordResult::Nothing(why) => (StateEvent::NotRecorded, LaunchNote::NotLearned(why)),
            RecordResult::Unusable(why) => {
                (StateEvent::RecordUnusable, LaunchNote::NotLearned(why))
            }
        };
        followed.note = Some(note);
        self.apply(launch, event, outside);
    }

    /// The prefetch thread of a launch has ended.
    pub fn prefetch_ended(&mut self, launch: u64, outside: &mut impl Outside) {
        self.apply(launch, StateEvent::PrefetchEnded, outside);
    }

    /// The last task of a launch has exited, at this time of CLOCK_MONOTONIC.
    pub fn exited(&mut self, launch: u64, time_ns: u64, outside: &mut impl Outside) {
        if let Some(followed) = self.followed.get_mut(&launch) {
            followed.figures.exited_ns = Some(time_ns);
        }
        self.happened(launch, StateEvent::Exited, outside);
    }

    /// Looks at all launches.
    pub fn tick(&mut self, now: Clocks, outside: &mut impl Outside) {
        let launches: Vec<u64> = self.followed.keys().copied().collect();
        for launch in launches {
            for event in self.due(launch, now, outside).into_iter().flatten() {
                self.apply(launch, event, outside);
            }
        }
        for launch in self.pending.take_failed(now.monotonic_ns) {
            apply_unknown(launch, StateEvent::CallTimedOut, outside);
        }
        if self.followed.is_empty() {
            outside.stop_counting_waits();
        }
    }

    /// The service stops: nothing is held, read or counted any more.
    pub fn stop(&mut self, outside: &mut impl Outside) {
        let launches: Vec<u64> = self.followed.keys().copied().collect();
        for launch in launches {
            self.apply(launch, StateEvent::Cancelled, outside);
        }
        for launch in self.pending.take_all() {
            apply_unknown(launch, StateEvent::Cancelled, outside);
        }
    }

    /// What time and counts have brought about for a launch.
    fn due(
        &mut self,
        launch: u64,
        now: Clocks,
        outside: &mut impl Outside,
    ) -> [Option<StateEvent>; 3] {
        let Some(followed) = self.followed.get_mut(&launch) else {
            return [None; 3];
        };
        let Some(counts) = outside.counts(launch) else {
            return [Some(StateEvent::SlotLost), None, None];
        };
        let age_ns = now
            .monotonic_ns
            .saturating_sub(followed.start.begun.monotonic_ns);
        let age = Duration::from_nanos(age_ns);
        let held = age > HOLD_LIMIT && outside.is_held(launch);
        if held {
            followed.note = Some(LaunchNote::HeldTooLong);
        }
        let late = age > CALL_LIMIT;
        let quiet = followed.is_quiet(now, &counts, outside);
        [
            held.then_some(StateEvent::HeldTooLong),
            late.then_some(StateEvent::CallTimedOut),
            quiet.then_some(StateEvent::Quiet),
        ]
    }

    /// Something has happened to a launch, followed or not.
    fn happened(&mut self, launch: u64, event: StateEvent, outside: &mut impl Outside) {
        self.pending.remove(launch);
        match self.follows(launch) {
            true => self.apply(launch, event, outside),
            false => apply_unknown(launch, event, outside),
        }
    }

    /// Steps, and carries the actions out. Those that fail are events themselves.
    fn apply(&mut self, launch: u64, event: StateEvent, outside: &mut impl Outside) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let Some(followed) = self.followed.get_mut(&launch) else {
                return;
            };
            let (state, actions) = step(followed.state, event, followed.start.policy);
            followed.state = state;
            for action in actions {
                events.extend(followed.carry_out(launch, action, outside));
            }
            if state == LaunchState::Over {
                self.followed.remove(&launch);
                return;
            }
        }
    }
}

/// Steps a launch whose app is not known. All that can be done for it is to stop counting it.
fn apply_unknown(launch: u64, event: StateEvent, outside: &mut impl Outside) {
    let policy = LaunchPolicy {
        plan: Plan::Leave,
        has_profile: false,
    };
    let (state, _) = step(LaunchState::Unknown, event, policy);
    if state == LaunchState::Over {
        outside.close_slot(launch);
    }
}

impl FollowedLaunch {
    /// Carries an action out. Returns what happened if it failed.
    fn carry_out(
        &mut self,
        launch: u64,
        action: StateAction,
        outside: &mut impl Outside,
    ) -> Option<StateEvent> {
        let id = &self.start.id;
        match action {
            StateAction::StartPrefetch => {
                self.note = Some(outside.start_prefetch(launch, id).err()?);
                return Some(StateEvent::PrefetchFailed);
            }
            StateAction::StartRecording => {
                let (pid, app) = (self.start.pid, &self.start.app);
                self.note = Some(outside.start_recording(launch, id, pid, app).err()?);
                return Some(StateEvent::RecorderRefused);
            }
            StateAction::WatchCompletion => outside.watch_completion(launch, id),
            StateAction::CountWaits => outside.count_waits(),
            StateAction::CountLaunch => outside.count_launch(ConfirmedLaunch {
                id,
                app: &self.start.app,
                pid: self.start.pid,
                policy: self.start.policy,
            }),
            StateAction::InvalidateGate => outside.invalidate_gate(),
            StateAction::RefreshGate => outside.refresh_gate(),
            StateAction::LetGo => outside.let_go(launch),
            StateAction::TakeReport => {
                let report = outside.take_report(launch);
                self.reported(launch, report, outside);
            }
            StateAction::StopPrefetch => {
                let report = outside.stop_prefetch(launch);
                self.reported(launch, report, outside);
            }
            StateAction::KeepProfile { alone } => {
                let counts = outside.counts(launch).unwrap_or_default();
                outside.keep_profile(launch, id, &counts, alone);
            }
            StateAction::ReportNotLearned => outside.report_not_learned(id),
            StateAction::CloseSlot => {
                self.figures.counts = outside.counts(launch).unwrap_or_default();
                self.figures.schedule_bytes = outside.schedule_bytes(id).unwrap_or_default();
                outside.close_slot(launch);
            }
            StateAction::Judge if self.is_comparable() => outside.judge(id, &self.figures),
            StateAction::Judge => outside.refresh_gate(),
            StateAction::Weigh => outside.weigh(id, &self.figures.counts),
            StateAction::WriteDown(kind) => {
                outside.write_down(self.row(kind), &self.figures.counts);
            }
        }
        None
    }

    /// Has the end detector look at the launch.
    fn is_quiet(&mut self, now: Clocks, counts: &LaunchCounts, outside: &impl Outside) -> bool {
        if self.state.is_recorded() {
            return false;
        }
        let look = LaunchLook {
            now,
            reads: ReadSample::Total(counts.requests + counts.prefetch_requests),
            is_prefetching: self.state.is_prefetching(),
            has_exited: false,
        };
        // The counters do not name the threads of the tree; those of its first process must do.
        let threads = outside.threads(self.start.pid);
        self.end.look(look, threads).is_some()
    }

    fn reported(
        &mut self,
        launch: u64,
        report: Option<PrefetchReport>,
        outside: &mut impl Outside,
    ) {
        if let Some(note) = report.as_ref().and_then(LaunchNote::of_report) {
            self.note = Some(note);
        }
        self.figures.report = report;
        if let Some(counts) = outside.counts(launch) {
            self.figures.switches = counts.switches;
        }
    }

    /// Whether the launch can be compared with others of its app: there is a profile to hold its figures
    /// against, and its prefetch, if it had one, has ended by itself.
    fn is_comparable(&self) -> bool {
        let cut_off = self.start.policy.plan == Plan::Prefetch && self.figures.report.is_none();
        self.figures.schedule_bytes > 0 && !cut_off
    }

    /// The launch's row of the history.
    fn row(&self, kind: Kind) -> LaunchRecord {
        let figures = &self.figures;
        let (counts, report) = (&figures.counts, &figures.report);
        let until_first_ns = counts.first_prefetch_ns.checked_sub(counts.start_ns);
        LaunchRecord {
            time_s: self.start.begun_s,
            app: self.start.id.clone(),
            kind,
            warmth: self.is_comparable().then(|| figures.warmth()),
            duration_us: figures.duration_us(),
            waiting_us: figures.waiting_us(),
            read_bytes: figures.read_bytes(),
            own_readaheads: figures.own_readaheads(),
            switches: report.is_some().then_some(figures.switches),
            entries: report.as_ref().map(|report| report.scheduled),
            until_first_us: until_first_ns.map(|ns| ns / 1000),
            note: self.note.as_ref().map(ToString::to_string),
        }
    }
}
