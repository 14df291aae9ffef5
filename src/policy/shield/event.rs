//! What goes into a step of the shield, and what comes out of it.

use super::look::{DirtyThresholds, ShieldLook};
use super::measure::MeasureKind;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum ShieldEvent {
    /// A launch begins; `device` is the drive of its app.
    LaunchBegins { launch: u64, uid: u32, device: u32 },
    /// It is over.
    LaunchEnds { launch: u64 },
    /// A thread waits for a write on this drive.
    Waits { tid: i32, uid: u32, device: u32 },
    /// The kernel says that tasks wait for drives, and this one is being written.
    Pressure { device: u32 },
    /// A look at drives, memory and writers.
    Looked(ShieldLook),
    /// A measure could not be taken, or was undone by others.
    Failed { id: u64 },
    /// Time has passed.
    Tick,
    /// All is to end.
    Stop,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShieldAction {
    /// Take a measure.
    Begin {
        /// Its number.
        id: u64,
        /// The measure.
        measure: Measure,
        /// On whose account; `None`: the system's.
        uid: Option<u32>,
    },
    /// Take the measure in this form from now on.
    Adjust {
        /// Its number.
        id: u64,
        /// The measure.
        measure: Measure,
    },
    /// End a measure: everything is as before.
    End {
        /// Its number.
        id: u64,
        /// Why.
        why: MeasureEnd,
    },
}

/// Why a measure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureEnd {
    /// Nobody needs it any more.
    NotNeeded,
    /// It has been in force for as long as it may.
    Bound,
    /// The account that it was on is exhausted.
    Account,
    /// Memory is short.
    Memory,
    /// The cgroup has become the foreground's, or needs the memory itself.
    Foreground,
    /// Another measure takes its place.
    Replaced,
    /// The shield is stopped.
    Stopped,
    /// It could not be taken, or others have undone it.
    Failed,
}

impl MeasureEnd {
    /// In words.
    pub fn explanation(self) -> &'static str {
        match self {
            MeasureEnd::NotNeeded => "nobody waits any more",
            MeasureEnd::Bound => "it was in force for as long as it may",
            MeasureEnd::Account => "the user's share of time is used up",
            MeasureEnd::Memory => "memory is short",
            MeasureEnd::Foreground => "the cgroup is needed by the foreground, or needs its memory",
            MeasureEnd::Replaced => "another measure takes its place",
            MeasureEnd::Stopped => "the shield was stopped",
            MeasureEnd::Failed => "it could not be taken, or others have changed it",
        }
    }
}

/// A measure with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Real-time I/O priority for a thread.
    Priority {
        /// The drive that it writes to.
        device: u32,
        /// The thread.
        tid: i32,
        /// Whether it is a task that waits; otherwise it writes the drive's journal.
        waits: bool,
    },
    /// Writeback is held back by these limits, and does not begin by time.
    Hold(DirtyThresholds),
    /// At most so many bytes of the drive may be dirty.
    Backlog { device: u32, bytes: u64 },
    /// The system's dirty limits are these.
    Dirty(DirtyThresholds),
    /// The cgroup may have so many bytes of memory before it is slowed down (MemoryHigh), and this weight.
    Group {
        group: String,
        bytes: u64,
        weight: Option<u64>,
    },
    /// The drive's scheduler, how many requests it takes of writes and other asynchronous ones (mq-deadline's
    /// `async_depth`), and the largest request in KiB; `None` is left as it is.
    Requests {
        device: u32,
        scheduler: Option<String>,
        async_depth: Option<u64>,
        max_sectors_kb: Option<u64>,
    },
}

/// What a measure changes. No two measures change the same at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MeasureKey {
    Thread(i32),
    /// The system's dirty limits.
    System,
    Backlog(u32),
    Group(String),
    Requests(u32),
}

impl Measure {
    /// Its kind.
    pub fn kind(&self) -> MeasureKind {
        match self {
            Measure::Priority { .. } => MeasureKind::Journal,
            Measure::Hold(_) => MeasureKind::Hold,
            Measure::Backlog { .. } => MeasureKind::Backlog,
            Measure::Dirty(_) => MeasureKind::Dirty,
            Measure::Group { .. } => MeasureKind::Group,
            Measure::Requests { .. } => MeasureKind::Requests,
        }
    }

    /// Whether it gives a better priority to a task that waits.
    pub(super) fn is_for_waiting_task(&self) -> bool {
        matches!(self, Measure::Priority { waits: true, .. })
    }

    pub(super) fn key(&self) -> MeasureKey {
        match self {
            Measure::Priority { tid, .. } => MeasureKey::Thread(*tid),
            Measure::Hold(_) | Measure::Dirty(_) => MeasureKey::System,
            Measure::Backlog { device, .. } => MeasureKey::Backlog(*device),
            Measure::Group { group, .. } => MeasureKey::Group(group.clone()),
            Measure::Requests { device, .. } => MeasureKey::Requests(*device),
        }
    }

    /// Whether others than the account's user may feel it. A limit of the user's own cgroup is his own affair.
    pub(super) fn is_shared(&self) -> bool {
        !matches!(self, Measure::Group { .. })
    }
}
