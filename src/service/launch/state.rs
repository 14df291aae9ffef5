//! The life of a launch: its states, what happens to it, and what the service then does. Pure: no kernel, no
//! file, no clock. `states.md` has the whole table; a test in `document.rs` keeps it true.

use crate::policy::Plan;
use crate::service::history::Kind;

/// What is done for a launch, fixed when its execve is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchPolicy {
    /// What its app's phase asks for.
    pub plan: Plan,
    /// Whether the app has a profile.
    pub has_profile: bool,
    /// Whether it is recorded from its beginning, the call of execve or its announcement; only where it is to be learned.
    pub is_recorded: bool,
}

/// How far a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchStage {
    /// The kernel counts it, and nothing is done for it yet.
    New,
    /// execve was called and has not succeeded.
    Called,
    /// execve was called and has not succeeded, and a recorder has the launch.
    CallRecorded,
    /// The app runs and is recorded.
    Recording,
    /// The app runs.
    Running,
    /// Nothing is read or counted for it any more.
    Over,
}

/// The prefetch thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPhase {
    /// The launch has no prefetch thread.
    None,
    /// The thread reads ahead.
    Running,
    /// The thread has ended.
    Ended,
}

/// Where a launch is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchState {
    /// How far it is.
    pub stage: LaunchStage,
    /// How far its prefetch is.
    pub thread: ThreadPhase,
}

/// What happens to a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateEvent {
    /// execve was called with the path of an app.
    Called,
    /// execve has succeeded, as the app.
    Executed,
    /// execve has succeeded, as another program.
    ExecutedAnother,
    /// execve has neither succeeded nor ended the process for as long as that may take.
    CallTimedOut,
    /// The recorder does not take the launch.
    RecorderRefused,
    /// The recorder has a profile.
    Recorded,
    /// The recorder has found nothing to learn, or failed.
    NotRecorded,
    /// The recorder has a profile that this system cannot use.
    RecordUnusable,
    /// The prefetch thread cannot be started.
    PrefetchFailed,
    /// The prefetch thread has ended.
    PrefetchEnded,
    /// The end detector calls the launch over.
    Quiet,
    /// The launch's last task has exited.
    Exited,
    /// The kernel does not count it any more.
    SlotLost,
    /// The service stops.
    Cancelled,
}

/// What the service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAction {
    /// Make the first requests, and start the prefetch thread for the others.
    StartPrefetch,
    /// Have the kernel look for the use of the completion pages.
    WatchCompletion,
    /// Have other programs' writes kept out of its way.
    Shield,
    /// Have waits for the drive counted.
    CountWaits,
    /// Enter the launch in the registry and tell the bus.
    CountLaunch,
    /// Have the launch recorded; `late`: only from now on.
    StartRecording { late: bool },
    /// Take the report of the prefetch thread.
    TakeReport,
    /// Stop the prefetch thread, and take its report if there is one.
    StopPrefetch,
    /// Use and store the recorded profile. `alone`: no prefetch ran beside the recorder, so that the waits of
    /// the launch are those of a launch without prefetching.
    KeepProfile { alone: bool },
    /// Tell the app's policy that nothing was learned.
    ReportNotLearned,
    /// Take the last counts, take its shield away, and free its place in the kernel.
    CloseSlot,
    /// As `CloseSlot`, but if its app goes on, have what that reads later noted for a while before the place is freed.
    ListenOn,
    /// Have the app's policy judge the launch.
    Judge,
    /// Have the kernel record the next launches of the apps that are to be learned now, and no others.
    RefreshWatch,
    /// Weigh whether the program is an app, if it is on probation.
    Weigh,
    /// Write the registry and a row of the history, and tell the bus and the log.
    WriteDown(Kind),
}

type Next = (LaunchState, Vec<StateAction>);

/// The next state of a launch and what is to be done, in this order.
pub fn step(state: LaunchState, event: StateEvent, policy: LaunchPolicy) -> Next {
    use LaunchStage as S;
    use StateAction as A;
    use StateEvent as E;
    let learns = policy.plan == Plan::Learn;
    let to = |stage, actions: &[A]| (LaunchState { stage, ..state }, actions.to_vec());
    let stay = |actions| to(state.stage, actions);
    match (state.stage, event) {
        (S::Over, _) => stay(&[]),
        (_, E::Cancelled) => state.give_up(),
        (S::New, E::Called) => state.begin(policy),
        (S::New, _) => stay(&[]),
        (_, E::PrefetchFailed) if state.is_prefetching() => {
            state.with_thread(ThreadPhase::None, &[])
        }
        (_, E::PrefetchEnded) if state.is_prefetching() => {
            state.with_thread(ThreadPhase::Ended, &[A::TakeReport])
        }

        // No recorder was ready when it was called: it is recorded a moment late.
        (S::Called, E::Executed) if learns && !policy.is_recorded => to(
            S::Recording,
            &[A::CountLaunch, A::StartRecording { late: true }],
        ),
        (S::Called, E::Executed) => to(S::Running, &[A::CountLaunch]),
        (S::CallRecorded, E::Executed) => to(S::Recording, &[A::CountLaunch]),

        (S::CallRecorded, E::RecorderRefused) => to(S::Called, &[]),
        (S::Recording, E::RecorderRefused) => to(S::Running, &[]),
        (S::CallRecorded | S::Recording, E::Recorded | E::NotRecorded | E::RecordUnusable) => {
            state.record_ended(event, policy)
        }
        // The recorder decides when the launch is over.
        (S::CallRecorded | S::Recording, E::Quiet | E::Exited) => stay(&[]),

        // An app may wait for seconds behind its prefetch on a drive that does one thing at a time.
        (_, E::Quiet) if state.is_prefetching() => stay(&[]),
        (S::Running, E::Quiet | E::Exited | E::SlotLost) | (S::Recording, E::SlotLost) => {
            state.finish(event, policy)
        }
        (_, E::Quiet | E::Exited | E::SlotLost | E::ExecutedAnother) => state.give_up(),
        (S::Called | S::CallRecorded, E::CallTimedOut) => state.give_up(),
        _ => stay(&[]),
    }
}

impl LaunchState {
    /// Of a launch that begins.
    pub const NEW: LaunchState = LaunchState {
        stage: LaunchStage::New,
        thread: ThreadPhase::None,
    };

    /// Of a launch that is over.
    pub const OVER: LaunchState = LaunchState {
        stage: LaunchStage::Over,
        thread: ThreadPhase::None,
    };

    /// Whether its prefetch thread runs.
    pub fn is_prefetching(self) -> bool {
        self.thread == ThreadPhase::Running
    }

    /// Whether a recorder has it. The recorder decides by itself when the launch is over.
    pub fn is_recorded(self) -> bool {
        matches!(
            self.stage,
            LaunchStage::CallRecorded | LaunchStage::Recording
        )
    }

    /// execve was called: the earliest moment to prefetch. A launch that is learned again still profits from
    /// the old profile, and learning sees what the app uses, also if the prefetch has read it.
    fn begin(mut self, policy: LaunchPolicy) -> Next {
        let mut actions = Vec::with_capacity(5);
        self.stage = LaunchStage::Called;
        if policy.has_profile && matches!(policy.plan, Plan::Prefetch | Plan::Learn) {
            actions.push(StateAction::StartPrefetch);
            self.thread = ThreadPhase::Running;
        }
        if policy.has_profile {
            actions.push(StateAction::WatchCompletion);
        }
        if policy.plan != Plan::Leave {
            // Behind the first requests of the prefetch: these must not wait for it.
            actions.push(StateAction::Shield);
        }
        actions.push(StateAction::CountWaits);
        if policy.is_recorded {
            actions.push(StateAction::StartRecording { late: false });
            self.stage = LaunchStage::CallRecorded;
        }
        (self, actions)
    }

    fn with_thread(self, thread: ThreadPhase, actions: &[StateAction]) -> Next {
        (LaunchState { thread, ..self }, actions.to_vec())
    }

    /// The recorder has ended, and with it the launch.
    fn record_ended(self, event: StateEvent, policy: LaunchPolicy) -> Next {
        let mut actions = match event {
            StateEvent::Recorded => vec![StateAction::KeepProfile {
                alone: self.thread == ThreadPhase::None,
            }],
            // What was recorded late says nothing about the app: it may have read all before.
            StateEvent::NotRecorded if policy.is_recorded => vec![StateAction::ReportNotLearned],
            _ => Vec::new(),
        };
        let (state, then) = match self.stage {
            // The success of execve was not reported; what was recorded is worth having all the same.
            LaunchStage::CallRecorded => self.give_up(),
            _ => self.finish(event, policy),
        };
        actions.extend(then);
        (state, actions)
    }

    /// The launch is over: what was counted is judged and written down.
    fn finish(self, event: StateEvent, policy: LaunchPolicy) -> Next {
        // It may go on after a pause, unless its last task has exited, which the recorder does not tell.
        let is_quiet = matches!(event, StateEvent::Quiet | StateEvent::Recorded);
        let (state, mut actions) = self.end_with(match policy.plan {
            Plan::Learn | Plan::Prefetch | Plan::Withhold if is_quiet => StateAction::ListenOn,
            _ => StateAction::CloseSlot,
        });
        let kind = match policy.plan {
            Plan::Learn if event == StateEvent::Recorded => Kind::Learned,
            Plan::Prefetch => Kind::Prefetched,
            Plan::Withhold => Kind::Withheld,
            Plan::Learn | Plan::Leave => Kind::Watched,
        };
        match kind {
            Kind::Learned => {}
            Kind::Prefetched | Kind::Anticipated | Kind::Withheld => {
                actions.push(StateAction::Judge)
            }
            Kind::Watched => actions.push(StateAction::RefreshWatch),
        }
        actions.extend((policy.plan == Plan::Leave).then_some(StateAction::Weigh));
        actions.push(StateAction::WriteDown(kind));
        (state, actions)
    }

    /// Ends everything that was begun for the launch, without a row of the history.
    fn give_up(self) -> Next {
        self.end_with(StateAction::CloseSlot)
    }

    /// Ends its prefetch, and its slot by this action.
    fn end_with(self, end: StateAction) -> Next {
        let stop = self.is_prefetching().then_some(StateAction::StopPrefetch);
        let actions = [stop, Some(end)];
        (LaunchState::OVER, actions.into_iter().flatten().collect())
    }
}
