//! What the shield does and did, for `status`, `doctor` and the laboratory.

use serde::{Deserialize, Serialize};

use crate::policy::MeasureKind;

/// Most measures that have ended which a status holds.
pub const MOST_ENDED: usize = 32;

/// What the shield does and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShieldStatus {
    /// Whether it is switched on.
    pub enabled: bool,
    /// Launches under way that it knows.
    pub launches: u64,
    /// Measures in force, oldest first.
    pub in_force: Vec<MeasureReport>,
    /// Measures that have ended, oldest first: the last 32 ([`MOST_ENDED`]).
    pub ended: Vec<MeasureReport>,
    /// Measures taken since it was started.
    pub taken: u64,
    /// How often nothing was done because a user's account was exhausted.
    pub refused: u64,
    /// Commands that were lost because too many came at once.
    pub lost: u64,
    /// Why it does not work, or what went wrong last.
    pub problem: Option<String>,
}

/// One measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureReport {
    /// Its kind.
    pub kind: MeasureKind,
    /// What it was applied to and how, for readers.
    pub target: String,
    /// On whose account; `None`: the system's, because of I/O pressure.
    pub uid: Option<u32>,
    /// When it began, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it ends at the latest, unless evidence renews it, in milliseconds since 1970.
    pub until_ms: u64,
    /// When it ended, in milliseconds since 1970; `None`: it is in force.
    pub ended_ms: Option<u64>,
    /// Why it ended, in words.
    pub why_ended: Option<String>,
    /// What the drive wrote, in bytes per second: what the measure cost the writer. Before it, from the samples of
    /// the same launch; `None` where there are none.
    pub written_before: Option<u64>,
    /// The same, while it was in force.
    pub written_during: Option<u64>,
    /// The same, in the seconds after it, as long as it was in force.
    pub written_after: Option<u64>,
}
