//! What the shield does and did, as the bus and JSON have it.

use serde::{Deserialize, Serialize};
use zbus::zvariant::Type;

use crate::service::dictionary::{member, optional, optional_word};
use crate::shield::{MeasureReport, ShieldStatus};

/// One measure of the shield.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct MeasureState {
    /// Its kind: `journal`, `hold`, `backlog`, `dirty`, `group` or `requests`.
    #[serde(with = "member")]
    pub kind: String,
    /// What it was applied to, and how, for people.
    #[serde(with = "member")]
    pub target: String,
    /// On whose account it was taken; `None`: the system's.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// When it began, in milliseconds since the epoch.
    #[serde(with = "member")]
    pub since_ms: u64,
    /// When it ends at the latest, unless its reason comes again.
    #[serde(with = "member")]
    pub until_ms: u64,
    /// When it ended; `None`: it is in force.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Why it ended; `None`, an empty text on the bus: it is in force.
    #[serde(with = "optional_word")]
    pub why_ended: Option<String>,
    /// What the drive wrote before, in bytes per second; `None`: that is not known.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub written_before: Option<u64>,
    /// The same while the measure was in force.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub written_during: Option<u64>,
    /// The same afterwards, for as long again.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub written_after: Option<u64>,
}

impl From<MeasureReport> for MeasureState {
    fn from(report: MeasureReport) -> Self {
        MeasureState {
            kind: report.kind.name().to_owned(),
            target: report.target,
            uid: report.uid,
            since_ms: report.since_ms,
            until_ms: report.until_ms,
            ended_ms: report.ended_ms,
            why_ended: report.why_ended,
            written_before: report.written_before,
            written_during: report.written_during,
            written_after: report.written_after,
        }
    }
}

/// The shield: what it does so that launches do not wait for other programs' writes. Users see what was done on their
/// account; the administrator sees all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct ShieldSummary {
    /// Whether it is switched on (`writes.shield`).
    #[serde(with = "member")]
    pub enabled: bool,
    /// Launches under way that it knows.
    #[serde(with = "member")]
    pub launches: u64,
    /// Measures taken since it was started.
    #[serde(with = "member")]
    pub taken: u64,
    /// How often nothing was done because too much had been done on a user's account.
    #[serde(with = "member")]
    pub refused: u64,
    /// Why it does not work, or what went wrong last; `None`, an empty text on the bus: it works.
    #[serde(with = "optional_word")]
    pub problem: Option<String>,
    /// What this system cannot do of it and why, one line each.
    #[serde(with = "member")]
    pub lacks: Vec<String>,
    /// Measures in force, oldest first.
    #[serde(with = "member")]
    pub in_force: Vec<MeasureState>,
    /// The last measures that have ended, oldest first.
    #[serde(with = "member")]
    pub ended: Vec<MeasureState>,
}

impl ShieldSummary {
    /// What this user sees of it, or the administrator (`None`); `lacks` are those of the system.
    pub fn new(status: ShieldStatus, lacks: Vec<String>, user: Option<u32>) -> Self {
        let is_theirs = |report: &MeasureReport| user.is_none() || report.uid == user;
        let states = |reports: Vec<MeasureReport>| -> Vec<MeasureState> {
            let theirs = reports.into_iter().filter(is_theirs);
            theirs.map(MeasureState::from).collect()
        };
        ShieldSummary {
            enabled: status.enabled,
            launches: status.launches,
            taken: status.taken,
            refused: status.refused,
            problem: status.problem,
            lacks,
            in_force: states(status.in_force),
            ended: states(status.ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zbus::zvariant::serialized::Context;
    use zbus::zvariant::{LE, to_bytes};

    use super::*;
    use crate::policy::MeasureKind;

    fn report(uid: Option<u32>, ended_ms: Option<u64>) -> MeasureReport {
        MeasureReport {
            kind: MeasureKind::Backlog,
            target: "sda: 16 MiB".to_owned(),
            uid,
            since_ms: 1000,
            until_ms: 21_000,
            ended_ms,
            why_ended: ended_ms.map(|_| "the launch is over".to_owned()),
            written_before: Some(25_000_000),
            written_during: Some(0),
            written_after: None,
        }
    }

    fn status() -> ShieldStatus {
        ShieldStatus {
            enabled: true,
            taken: 3,
            in_force: vec![report(Some(1000), None)],
            ended: vec![report(None, Some(2000)), report(Some(1001), Some(3000))],
            problem: Some("sda is gone".to_owned()),
            ..ShieldStatus::default()
        }
    }

    #[test]
    fn measures_survive_the_bus_and_json() {
        let lacks = vec!["group: no cgroups".to_owned()];
        for status in [status(), ShieldStatus::default()] {
            let state = ShieldSummary::new(status, lacks.clone(), None);
            let data = to_bytes(Context::new_dbus(LE, 0), &state).unwrap();
            assert_eq!(data.deserialize::<ShieldSummary>().unwrap().0, state);
            let json = json!(state);
            assert_eq!(
                serde_json::from_value::<ShieldSummary>(json).unwrap(),
                state
            );
        }
    }

    #[test]
    fn users_see_what_was_done_on_their_account() {
        for (user, in_force, ended) in [
            (None, 1, 2),
            (Some(1000), 1, 0),
            (Some(1001), 0, 1),
            (Some(1002), 0, 0),
        ] {
            let state = ShieldSummary::new(status(), Vec::new(), user);
            let found = (state.in_force.len(), state.ended.len());
            assert_eq!(found, (in_force, ended), "{user:?}");
            assert_eq!(state.taken, 3);
        }
    }
}
