//! The life of a launch: its states, what happens to it, and what the service then does. Pure: no kernel, no
//! file, no clock. docs/service.md has the whole table; a test in `document.rs` keeps it true.

use crate::policy::Plan;
use crate::service::history::Kind;

/// What is done for a launch, fixed when its execve is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchPolicy {
    /// What its app's phase asks for.
    pub plan: Plan,
    /// Whether the app has a profile.
    pub has_profile: bool,
}

impl LaunchPolicy {
    /// Whether the launch is prefetched. A launch that is learned again still profits from the old profile,
    /// and learning sees what the app uses whoever has read it.
    fn prefetches(self) -> bool {
        self.has_profile && matches!(self.plan, Plan::Prefetch | Plan::Learn)
    }
}

/// The prefetch thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPhase {
    /// There is none.
    None,
    /// It reads ahead.
    Running,
    /// It has ended.
    Ended,
}

/// Where a launch is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchState {
    /// The kernel counts it, and its app is not known yet.
    Unknown,
    /// execve was called and has not succeeded.
    Called(ThreadPhase),
    /// The same, and the recorder has refused the launch.
    Refused(ThreadPhase),
    /// The recorder has it, and execve has not succeeded: the exec gate may hold its program.
    Held(ThreadPhase),
    /// The app runs and is recorded.
    Recording(ThreadPhase),
    /// The app runs, and so does its prefetch.
    Prefetching,
    /// The app runs, its prefetch has ended.
    Settling,
    /// The app runs, and nothing is done for it.
    Watching,
    /// Nothing is held, read or counted for it any more.
    Over,
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
    /// The exec gate holds the app's program.
    ProgramHeld,
    /// The program has been held for as long as it may be.
    HeldTooLong,
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
    /// Its last task has exited.
    Exited,
    /// The kernel does not count it any more.
    SlotLost,
    /// It is not to be followed, or the service stops.
    Cancelled,
}

/// What the service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAction {
    /// Make the first requests, and start the prefetch thread for the others.
    StartPrefetch,
    /// Have the kernel look for the use of the completion page.
    WatchCompletion,
    /// Have waits for the drive counted.
    CountWaits,
    /// Enter the launch in the registry and tell the bus.
    CountLaunch,
    /// Look the marks of the exec gate up again: an executable that should have been held was not.
    InvalidateGate,
    /// Hand the launch, with its held program, to the recorder.
    StartRecording,
    /// Let a held program go.
    LetGo,
    /// Take the report of the prefetch thread.
    TakeReport,
    /// Stop the prefetch thread, and take its report if there is one.
    StopPrefetch,
    /// Use and store the recorded profile. `alone`: no prefetch ran beside the recorder.
    KeepProfile {
        /// Whether the waits of the launch are those of a launch without prefetching.
        alone: bool,
    },
    /// Tell the app's policy that nothing was learned.
    ReportNotLearned,
    /// Take the last counts and free the launch's place in the kernel.
    CloseSlot,
    /// Have the app's policy judge the launch.
    Judge,
    /// Mark the executables of the apps that are to be learned now, and no others.
    RefreshGate,
    /// Weigh whether the program is an app, if it is on probation.
    Weigh,
    /// Write the registry and a row of the history, and tell the bus.
    WriteDown(Kind),
}

type Next = (LaunchState, Vec<StateAction>);

/// The next state of a launch and what is to be done, in this order.
pub fn step(state: LaunchState, event: StateEvent, policy: LaunchPolicy) -> Next {
    use LaunchState as S;
    use StateEvent as E;
    match (state, event) {
        (S::Over, _) => (state, Vec::new()),
        (_, E::Cancelled) => give_up(state),
        (S::Unknown, _) => unknown(event, policy),
        (_, E::PrefetchEnded | E::PrefetchFailed) => prefetch_over(state, event),
        (S::Called(_) | S::Refused(_) | S::Held(_), _) => before_exec(state, event, policy),
        (S::Recording(_), _) => recording(state, event, policy),
        (S::Prefetching | S::Settling | S::Watching, _) => running(state, event, policy),
    }
}

fn unknown(event: StateEvent, policy: LaunchPolicy) -> Next {
    use StateEvent as E;
    let state = LaunchState::Unknown;
    match event {
        E::Called => begin(policy),
        E::Executed => {
            let (called, mut actions) = begin(policy);
            let (state, then) = before_exec(called, event, policy);
            actions.extend(then);
            (state, actions)
        }
        E::ProgramHeld => (state, vec![StateAction::LetGo]),
        E::ExecutedAnother | E::CallTimedOut | E::Exited | E::SlotLost => give_up(state),
        _ => (state, Vec::new()),
    }
}

/// execve was called: the earliest moment to prefetch.
fn begin(policy: LaunchPolicy) -> Next {
    let mut actions = Vec::with_capacity(6);
    let mut thread = ThreadPhase::None;
    if policy.prefetches() {
        actions.push(StateAction::StartPrefetch);
        thread = ThreadPhase::Running;
    }
    if policy.has_profile {
        actions.push(StateAction::WatchCompletion);
    }
    actions.push(StateAction::CountWaits);
    (LaunchState::Called(thread), actions)
}

fn before_exec(state: LaunchState, event: StateEvent, policy: LaunchPolicy) -> Next {
    use LaunchState as S;
    use StateEvent as E;
    let learns = policy.plan == Plan::Learn;
    let counted = vec![StateAction::CountLaunch];
    match (state, event) {
        (S::Called(thread), E::ProgramHeld) if learns => {
            (S::Held(thread), vec![StateAction::StartRecording])
        }
        (_, E::ProgramHeld) => (state, vec![StateAction::LetGo]),
        // It was not held: it is recorded a moment late.
        (S::Called(thread), E::Executed) if learns => (
            S::Recording(thread),
            vec![
                StateAction::CountLaunch,
                StateAction::InvalidateGate,
                StateAction::StartRecording,
            ],
        ),
        (S::Called(thread) | S::Refused(thread), E::Executed) => (unrecorded(thread), counted),
        (S::Held(thread), E::Executed) => (S::Recording(thread), counted),
        (S::Held(thread), E::RecorderRefused) => (S::Refused(thread), vec![StateAction::LetGo]),
        (S::Held(_), E::HeldTooLong) => (state, vec![StateAction::LetGo]),
        // The success of execve was not reported; what was recorded is worth having all the same.
        (S::Held(_), E::Recorded | E::NotRecorded | E::RecordUnusable) => {
            let mut actions = record_result(state, event);
            let (state, then) = give_up(state);
            actions.extend(then);
            (state, actions)
        }
        // The recorder decides when the launch is over.
        (S::Held(_), E::Exited | E::Quiet) => (state, Vec::new()),
        // execve may wait for its own prefetch on a drive that does one thing at a time.
        (_, E::Quiet) if is_prefetching(state) => (state, Vec::new()),
        (_, E::Quiet | E::Exited | E::SlotLost | E::CallTimedOut | E::ExecutedAnother) => {
            give_up(state)
        }
        _ => (state, Vec::new()),
    }
}

fn recording(state: LaunchState, event: StateEvent, policy: LaunchPolicy) -> Next {
    use StateEvent as E;
    match event {
        E::RecorderRefused => (unrecorded(thread_of(state)), vec![StateAction::LetGo]),
        // A late look at execve holds the program after the launch has begun.
        E::HeldTooLong | E::ProgramHeld => (state, vec![StateAction::LetGo]),
        E::Recorded | E::NotRecorded | E::RecordUnusable => {
            let mut actions = record_result(state, event);
            actions.extend(finish(state, policy, event == E::Recorded));
            (LaunchState::Over, actions)
        }
        E::SlotLost => (LaunchState::Over, finish(state, policy, false)),
        E::ExecutedAnother => give_up(state),
        _ => (state, Vec::new()),
    }
}

fn running(state: LaunchState, event: StateEvent, policy: LaunchPolicy) -> Next {
    use StateEvent as E;
    match event {
        // An app may wait for seconds behind its prefetch on a drive that does one thing at a time.
        E::Quiet if is_prefetching(state) => (state, Vec::new()),
        E::Quiet | E::Exited | E::SlotLost => (LaunchState::Over, finish(state, policy, false)),
        E::ProgramHeld => (state, vec![StateAction::LetGo]),
        E::ExecutedAnother => give_up(state),
        _ => (state, Vec::new()),
    }
}

fn prefetch_over(state: LaunchState, event: StateEvent) -> Next {
    use LaunchState as S;
    if !is_prefetching(state) {
        return (state, Vec::new());
    }
    let (thread, actions) = match event {
        StateEvent::PrefetchEnded => (ThreadPhase::Ended, vec![StateAction::TakeReport]),
        _ => (ThreadPhase::None, Vec::new()),
    };
    let next = match state {
        S::Called(_) => S::Called(thread),
        S::Refused(_) => S::Refused(thread),
        S::Held(_) => S::Held(thread),
        S::Recording(_) => S::Recording(thread),
        _ => unrecorded(thread),
    };
    (next, actions)
}

fn record_result(state: LaunchState, event: StateEvent) -> Vec<StateAction> {
    match event {
        StateEvent::Recorded => vec![StateAction::KeepProfile {
            alone: thread_of(state) == ThreadPhase::None,
        }],
        StateEvent::NotRecorded => vec![StateAction::ReportNotLearned],
        _ => Vec::new(),
    }
}

/// The launch is over: what was counted is judged and written down.
fn finish(state: LaunchState, policy: LaunchPolicy, learned: bool) -> Vec<StateAction> {
    let (_, mut actions) = give_up(state);
    match policy.plan {
        Plan::Prefetch | Plan::Withhold => actions.push(StateAction::Judge),
        Plan::Learn if learned => {}
        Plan::Learn => actions.push(StateAction::RefreshGate),
        Plan::Leave => actions.extend([StateAction::RefreshGate, StateAction::Weigh]),
    }
    actions.push(StateAction::WriteDown(match policy.plan {
        Plan::Learn if learned => Kind::Learned,
        Plan::Prefetch => Kind::Prefetched,
        Plan::Withhold => Kind::Withheld,
        Plan::Learn | Plan::Leave => Kind::Watched,
    }));
    actions
}

/// Ends everything that was begun for the launch, and says nothing of it.
fn give_up(state: LaunchState) -> Next {
    let mut actions = Vec::new();
    if state.is_recorded() {
        actions.push(StateAction::LetGo);
    }
    if is_prefetching(state) {
        actions.push(StateAction::StopPrefetch);
    }
    actions.push(StateAction::CloseSlot);
    (LaunchState::Over, actions)
}

/// The state of an app that runs and is not recorded.
fn unrecorded(thread: ThreadPhase) -> LaunchState {
    match thread {
        ThreadPhase::None => LaunchState::Watching,
        ThreadPhase::Running => LaunchState::Prefetching,
        ThreadPhase::Ended => LaunchState::Settling,
    }
}

fn thread_of(state: LaunchState) -> ThreadPhase {
    use LaunchState as S;
    match state {
        S::Called(thread) | S::Refused(thread) | S::Held(thread) | S::Recording(thread) => thread,
        S::Prefetching => ThreadPhase::Running,
        S::Settling => ThreadPhase::Ended,
        S::Unknown | S::Watching | S::Over => ThreadPhase::None,
    }
}

fn is_prefetching(state: LaunchState) -> bool {
    thread_of(state) == ThreadPhase::Running
}

impl LaunchState {
    /// Whether its prefetch thread runs.
    pub fn is_prefetching(self) -> bool {
        is_prefetching(self)
    }

    /// Whether a recorder has it. The recorder decides by itself when the launch is over.
    pub fn is_recorded(self) -> bool {
        matches!(self, LaunchState::Held(_) | LaunchState::Recording(_))
    }
}
