//! The launches under way, and what is known of each.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::iter;
use std::time::{Duration, SystemTime};

use super::pending_execs::{self, PendingExecs};
use super::{
    Beginning, LaunchPolicy, LaunchStage, LaunchState, Outside, StateAction, StateEvent, step,
};
use crate::kernel::{LAUNCHES, LaunchEvent};
use crate::model::{App, LaunchCounts, LaunchLimits, OwnRead, PrefetchReport, UserApp};
use crate::policy::{LaunchFigures, Plan};
use crate::process::{Clocks, EndDetector, LaunchLook, ReadSample};
use crate::service::cached_profile::RecordedProfile;
use crate::service::catalogue::FoundApp;
use crate::service::clock::epoch_s;
use crate::service::history::{Kind, LaunchRecord};
use crate::service::late_reads::{self, EndedLaunch};

/// How often launches under way are looked at.
pub const TICK: Duration = Duration::from_millis(100);

/// How long execve may take from its call to its success.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(5);

/// What is said of a launch that no recorder was ready for.
const RECORDED_LATE: &str = "its first moments were not recorded";

/// Launches that are followed at a time, and those of one user; others are left alone.
const MOST_FOLLOWED: usize = 48;
const _: () = assert!(
    MOST_FOLLOWED + pending_execs::MOST + late_reads::MOST <= LAUNCHES as usize,
    "each launch that is followed, called or listened to has a slot of the kernel side's"
);
pub(super) const MOST_OF_A_USER: usize = 16;

/// A launch that begins.
pub struct LaunchStart {
    /// The app, and whose it is.
    pub key: UserApp,
    /// Whose profile it has or will have.
    pub app: App,
    /// Process id of the launch's first process.
    pub pid: u32,
    /// What is done for it.
    pub policy: LaunchPolicy,
    /// When it is over, if its completion pages have been used or it has none.
    pub limits: LaunchLimits,
    /// When it was seen first.
    pub begun: Clocks,
    /// When it was seen first, by the time of day.
    pub began: SystemTime,
}

/// A launch that is followed.
pub struct FollowedLaunch {
    /// The kernel side's number for it.
    pub number: u64,
    /// How it began.
    pub start: LaunchStart,
    /// What became of it so far. The counts are taken when its recorder or the launch itself ends.
    pub figures: LaunchFigures,
    /// What its recorder has made.
    pub recorded: Option<RecordedProfile>,
    /// What it has read itself, if that is to be compared with its profile before it is judged.
    pub own_reads: Option<Vec<OwnRead>>,
    /// Whether its drive was shielded from other programs' writes meanwhile. Taken with the last counts.
    pub was_shielded: bool,
    /// Whether its app was forgotten meanwhile: then it is not written down.
    is_forgotten: bool,
    /// What the history says of it beside the figures.
    note: Option<String>,
    state: LaunchState,
    /// Decides when it is over, unless a recorder does.
    end: EndDetector,
    /// Decides that while its completion pages have not been used: with its reads ahead done, a launch is quiet long before.
    end_without_completion: EndDetector,
}

/// The launches under way.
#[derive(Default)]
pub struct Launches {
    /// Calls of execve whose app is not known.
    pending: PendingExecs,
    followed: HashMap<u64, FollowedLaunch>,
}

impl Launches {
    /// Whether nothing has to be looked at every [`TICK`].
    pub fn is_empty(&self) -> bool {
        self.followed.is_empty() && self.pending.is_empty()
    }

    /// The launch of this app that is under way.
    pub fn launch_of(&self, key: &UserApp) -> Option<u64> {
        let mut followed = self.followed.values();
        let found = followed.find(|followed| followed.start.key == *key)?;
        Some(found.number)
    }

    /// Whether this launch is followed.
    pub fn follows(&self, launch: u64) -> bool {
        self.followed.contains_key(&launch)
    }

    /// The ones of these launches that nothing will end: their beginning was not reported.
    pub fn unknown(&self, launches: impl Iterator<Item = u64>) -> Vec<u64> {
        let is_known = |launch| self.follows(launch) || self.pending.contains(launch);
        launches.filter(|&launch| !is_known(launch)).collect()
    }

    /// The app of a launch that is followed.
    #[cfg(test)]
    pub fn app_of(&self, launch: u64) -> Option<&UserApp> {
        let followed = self.followed.get(&launch)?;
        Some(&followed.start.key)
    }

    /// Whether a launch of this app can be followed: an app that its user launches while a launch of it is under
    /// way is one job, and a user who launches many at once leaves room for others.
    fn has_room_for(&self, key: &UserApp) -> bool {
        let followed = || self.followed.values().map(|followed| &followed.start.key);
        self.followed.len() < MOST_FOLLOWED
            && followed().filter(|other| other.uid == key.uid).count() < MOST_OF_A_USER
            && followed().all(|other| other != key)
    }

    /// Notes that these apps are forgotten.
    pub fn forget(&mut self, apps: &[UserApp]) {
        for followed in self.followed.values_mut() {
            followed.is_forgotten |= apps.contains(&followed.start.key);
        }
    }

    /// execve was called: the earliest moment to prefetch.
    pub fn called(&mut self, event: &LaunchEvent, now: Clocks, outside: &mut impl Outside) {
        let launch = event.launch;
        if self.follows(launch) {
            // It tries another directory of PATH; the app was not in the one before.
            return;
        }
        if let Some(found) = outside.called(event) {
            self.begin(launch, event.pid, found, Beginning::Execve, outside);
        } else if let Some(oldest) = self.pending.called(launch, event.pid, now.monotonic_ns) {
            outside.close_slot(oldest);
        }
    }

    /// execve has succeeded.
    pub fn executed(&mut self, event: &LaunchEvent, outside: &mut impl Outside) {
        let (launch, found) = (event.launch, outside.executed(event));
        match (found, self.followed.get_mut(&launch)) {
            (Some(found), Some(followed)) if found.key == followed.start.key => {
                followed.start.app = found.app;
            }
            (Some(found), None) => {
                self.begin(launch, event.pid, found, Beginning::Execve, outside);
            }
            (None, _) | (Some(_), Some(_)) => {
                return self.end(launch, StateEvent::ExecutedAnother, outside);
            }
        }
        self.happened(launch, StateEvent::Executed, outside);
    }

    /// A process that runs already says that it is this app.
    pub fn announced(
        &mut self,
        launch: u64,
        pid: u32,
        found: FoundApp,
        outside: &mut impl Outside,
    ) {
        self.begin(launch, pid, found, Beginning::Announced, outside);
        self.happened(launch, StateEvent::Executed, outside);
    }

    /// A user has logged in: a process of his is the first of the launch.
    pub fn logged_in(
        &mut self,
        launch: u64,
        pid: u32,
        found: FoundApp,
        outside: &mut impl Outside,
    ) {
        self.begin(launch, pid, found, Beginning::Login, outside);
        self.happened(launch, StateEvent::Executed, outside);
    }

    /// Follows a launch from now on, if there is room for it and it is not to be left alone.
    fn begin(
        &mut self,
        launch: u64,
        pid: u32,
        found: FoundApp,
        beginning: Beginning,
        outside: &mut impl Outside,
    ) {
        let has_room = self.has_room_for(&found.key);
        let prepare = || outside.prepare(launch, pid, found, beginning);
        let Some(start) = has_room.then(prepare).flatten() else {
            return self.end(launch, StateEvent::Cancelled, outside);
        };
        let is_recorded = start.policy.is_recorded;
        self.follow(launch, start, outside);
        outside.begun(launch, is_recorded);
    }

    fn follow(&mut self, launch: u64, start: LaunchStart, outside: &mut impl Outside) {
        self.pending.remove(launch);
        let end = |limits| EndDetector::new(start.begun.monotonic_ns, start.begun, limits);
        let limits = start.limits;
        // The page was found in a lesson: until it is used may take as long as a lesson.
        let without_completion = match start.policy.plan {
            Plan::Learn => limits,
            _ => limits.for_lesson(),
        };
        let (end, end_without_completion) = (end(limits), end(without_completion));
        let followed = FollowedLaunch {
            number: launch,
            start,
            figures: LaunchFigures::default(),
            recorded: None,
            own_reads: None,
            was_shielded: false,
            is_forgotten: false,
            note: None,
            state: LaunchState::NEW,
            end,
            end_without_completion,
        };
        self.followed.insert(launch, followed);
        self.happened(launch, StateEvent::Called, outside);
    }

    /// The recorder of a launch has ended; `event` and `note` say with what.
    pub fn recorded(
        &mut self,
        launch: u64,
        (event, note, profile): (StateEvent, String, Option<RecordedProfile>),
        outside: &mut impl Outside,
    ) {
        if let Some(followed) = self.followed.get_mut(&launch) {
            // It goes on to say so if the launch ran on before it was recorded.
            followed.note = Some(match followed.note.take() {
                Some(noted) => format!("{note}; {noted}"),
                None => note,
            });
            followed.recorded = profile;
        }
        self.happened(launch, event, outside);
    }

    /// The last task of a launch has exited, at this time of CLOCK_MONOTONIC.
    pub fn exited(&mut self, launch: u64, time_ns: u64, outside: &mut impl Outside) {
        if let Some(followed) = self.followed.get_mut(&launch) {
            followed.figures.exited_ns = Some(time_ns);
        }
        self.end(launch, StateEvent::Exited, outside);
    }

    /// A launch has ended, or is none of an app, as `event` says. One that is not followed is counted no more.
    pub fn end(&mut self, launch: u64, event: StateEvent, outside: &mut impl Outside) {
        self.pending.remove(launch);
        if self.follows(launch) {
            self.happened(launch, event, outside);
        } else {
            outside.close_slot(launch);
        }
    }

    /// Looks at all launches.
    pub fn tick(&mut self, now: Clocks, outside: &mut impl Outside) {
        let launches: Vec<u64> = self.followed.keys().copied().collect();
        for launch in launches {
            for event in self.due(launch, now, outside) {
                self.happened(launch, event, outside);
            }
        }
        for launch in self.pending.take_failed(now.monotonic_ns) {
            outside.close_slot(launch);
        }
        if self.followed.is_empty() {
            outside.detach_programs();
        }
    }

    /// The service stops: nothing is read or counted any more.
    pub fn stop(&mut self, outside: &mut impl Outside) {
        let launches: Vec<u64> = self.followed.keys().copied().collect();
        for launch in launches {
            self.happened(launch, StateEvent::Cancelled, outside);
        }
        for launch in self.pending.take_failed(u64::MAX) {
            outside.close_slot(launch);
        }
    }

    /// What time and counts have brought about for a launch.
    fn due(&mut self, launch: u64, now: Clocks, outside: &impl Outside) -> Vec<StateEvent> {
        let Some(followed) = self.followed.get_mut(&launch) else {
            return Vec::new();
        };
        let Some(counts) = outside.counts(launch) else {
            return vec![StateEvent::SlotLost];
        };
        let begun_ns = followed.start.begun.monotonic_ns;
        let age = Duration::from_nanos(now.monotonic_ns.saturating_sub(begun_ns));
        let mut events = Vec::new();
        if age > CALL_LIMIT {
            events.push(StateEvent::CallTimedOut);
        }
        if followed.is_quiet(now, &counts, outside) {
            events.push(StateEvent::Quiet);
        }
        events
    }

    /// Steps a launch that is followed, and carries the actions out. Those that fail are events themselves.
    pub fn happened(&mut self, launch: u64, event: StateEvent, outside: &mut impl Outside) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let Some(followed) = self.followed.get_mut(&launch) else {
                return;
            };
            let (state, actions) = step(followed.state, event, followed.start.policy);
            followed.state = state;
            for action in actions {
                events.extend(followed.carry_out(action, outside));
            }
            if state.stage == LaunchStage::Over {
                self.followed.remove(&launch);
                return;
            }
        }
    }
}

impl FollowedLaunch {
    /// Carries an action out. Returns what happened if it failed.
    fn carry_out(&mut self, action: StateAction, outside: &mut impl Outside) -> Option<StateEvent> {
        match action {
            StateAction::TakeReport | StateAction::StopPrefetch => {
                let counts = outside.counts(self.number);
                self.figures.switches = counts.map_or(0, |counts| counts.switches);
            }
            StateAction::KeepProfile { .. } | StateAction::CloseSlot | StateAction::ListenOn => {
                self.figures.counts = outside.counts(self.number).unwrap_or_default();
                self.figures.schedule_bytes = outside.schedule_bytes(&self.start.key);
                self.figures.usual_bytes = outside.usual_bytes(&self.start.key);
            }
            StateAction::WriteDown(_) if self.is_forgotten => return None,
            StateAction::StartRecording { late: true } => {
                self.note = Some(RECORDED_LATE.to_owned());
            }
            _ => {}
        }
        self.note = Some(outside.perform(action, self).err()?);
        match action {
            StateAction::StartRecording { .. } => Some(StateEvent::RecorderRefused),
            _ => Some(StateEvent::PrefetchFailed),
        }
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
        // A file of /proc for each thread: read once for both detectors, and only if one asks for the first.
        let number = self.number;
        let found = LazyCell::new(|| outside.threads(number).collect::<Vec<_>>());
        let threads = iter::once(&found).flat_map(|found| found.to_vec());
        let is_over = self.end.look(look, threads.clone()).is_some();
        let is_over_without = self.end_without_completion.look(look, threads).is_some();
        match counts.has_completion && counts.completed_ns == 0 {
            true => is_over_without,
            false => is_over,
        }
    }

    /// Takes the report of the prefetch thread; `None` if it had to be stopped.
    pub fn set_report(&mut self, report: Option<PrefetchReport>) {
        if let Some(report) = &report {
            let refused = report.refused.as_ref();
            let refused = refused.map(|why| format!("not prefetched: {why}"));
            let left_out = report.left_out();
            let left_out = left_out.map(|why| format!("prefetched in part: {why}"));
            let unclear = report.unclear.as_ref().map(|why| match report.prevented() {
                Some(_) => format!("not prefetched: {why}"),
                None => format!("prefetched in part: {why}"),
            });
            self.note = refused.or(left_out).or(unclear).or(self.note.take());
        }
        self.figures.report = report;
    }

    /// Whether there is a profile to hold the launch's figures against, and its prefetch, if it had one, has ended by itself.
    fn tells_of_profile(&self) -> bool {
        let cut_off = self.start.policy.plan == Plan::Prefetch && self.figures.report.is_none();
        self.figures.schedule_bytes > 0 && !cut_off
    }

    /// Whether the app's policy judges the launch. One for which was read ahead before it began shows neither what prefetching
    /// gains nor what the profile lacks.
    pub fn is_judged(&self) -> bool {
        self.tells_of_profile() && self.figures.read_before == 0
    }

    /// The launch, which is over. Its last counts were taken.
    pub fn ended(&self) -> EndedLaunch {
        EndedLaunch {
            number: self.number,
            key: self.start.key.clone(),
            start_ns: self.figures.counts.start_ns,
            began: self.start.began,
        }
    }

    /// The launch's row of the history.
    pub fn row(&self, kind: Kind) -> LaunchRecord {
        let figures = &self.figures;
        let (counts, report) = (&figures.counts, &figures.report);
        let until_first_ns = counts.first_prefetch_ns.checked_sub(counts.start_ns);
        LaunchRecord {
            time_s: epoch_s(self.start.began),
            uid: self.start.key.uid,
            app: self.start.key.id.clone(),
            kind: match kind {
                Kind::Prefetched | Kind::Withheld if figures.is_anticipated() => Kind::Anticipated,
                kind => kind,
            },
            warmth: self.tells_of_profile().then(|| figures.warmth()),
            duration_us: figures.took_us(),
            waiting_us: figures.waiting_us(),
            read_bytes: figures.read_bytes(),
            own_readaheads: figures.own_readaheads(),
            switches: report.is_some().then_some(figures.switches),
            entries: report.as_ref().map(|report| report.scheduled),
            until_first_us: until_first_ns.map(|ns| ns / 1000),
            background_writes: self.was_shielded,
            // Of an anticipated one: its app's other launches tell.
            saved_us: None,
            // Known once its reads were compared with its profile.
            own_reads: None,
            note: self.note.clone(),
        }
    }
}
