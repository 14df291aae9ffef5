//! What can be done for those who wait.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kinds of measures, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasureKind {
    /// Real-time I/O priority for the thread that writes the drive's journal, and for the task that waits.
    Journal,
    /// Writeback is held back: what the writer writes stays in memory meanwhile.
    Hold,
    /// The limit of what may be dirty of one drive.
    Backlog,
    /// The limit of what may be dirty of the whole system.
    Dirty,
    /// The limit of a writer's memory (cgroup), and its weight.
    Group,
    /// Few and small writes at a time: the drive's scheduler, what that takes, and its largest request.
    Requests,
}

impl MeasureKind {
    /// All of them, mildest first.
    pub const ALL: [MeasureKind; 6] = [
        MeasureKind::Journal,
        MeasureKind::Hold,
        MeasureKind::Backlog,
        MeasureKind::Dirty,
        MeasureKind::Group,
        MeasureKind::Requests,
    ];

    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            MeasureKind::Journal => "journal",
            MeasureKind::Hold => "hold",
            MeasureKind::Backlog => "backlog",
            MeasureKind::Dirty => "dirty",
            MeasureKind::Group => "group",
            MeasureKind::Requests => "requests",
        }
    }

    /// What is done and what it costs the writer, in one line.
    pub fn explanation(self) -> &'static str {
        match self {
            MeasureKind::Journal => {
                "the journal's thread and the task that waits go first in the I/O scheduler; all other requests wait for theirs"
            }
            MeasureKind::Hold => {
                "dirty pages stay in memory for seconds; the writer goes on at the speed of memory, and its data reach the drive later"
            }
            MeasureKind::Backlog => {
                "little of the drive may be dirty: a writer goes at the speed of the drive from its first bytes on"
            }
            MeasureKind::Dirty => {
                "little of the whole system may be dirty: writers on every drive go at the speed of their drives"
            }
            MeasureKind::Group => {
                "the writer's cgroup may keep few pages: it goes at the speed of the drive, and reads what it evicted again"
            }
            MeasureKind::Requests => {
                "few and small writes at a time in the drive: the writer gets somewhat less throughput"
            }
        }
    }
}

impl fmt::Display for MeasureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MeasureKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = MeasureKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = MeasureKind::ALL.map(MeasureKind::name).join(", ");
            format!("{name} is no measure; there are {names}")
        })
    }
}
