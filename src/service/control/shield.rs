//! What the shield does and did, as the bus and JSON have it.

use serde::{Deserialize, Serialize};
use zbus::zvariant::Type;

use crate::service::dictionary::{member, optional, optional_word};
use crate::shield::{ShieldStatus, Shielding};

/// One time that a drive was shielded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct ShieldingState {
    /// The drive and what was set of it, for people.
    #[serde(with = "member")]
    pub target: String,
    /// On whose account; `None`: the system's.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// When it began, in milliseconds since the epoch.
    #[serde(with = "member")]
    pub since_ms: u64,
    /// When it ended; `None`: it is in force.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Why it ended; `None`, an empty text on the bus: it is in force.
    #[serde(with = "optional_word")]
    pub why_ended: Option<String>,
    /// What the drive wrote before, in bytes per second; `None`: that is not known.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub written_before: Option<u64>,
    /// What the drive wrote meanwhile, in bytes per second.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub written_during: Option<u64>,
}

impl From<Shielding> for ShieldingState {
    fn from(shielding: Shielding) -> Self {
        ShieldingState {
            target: shielding.target,
            uid: shielding.uid,
            since_ms: shielding.since_ms,
            ended_ms: shielding.ended_ms,
            why_ended: shielding.why_ended,
            written_before: shielding.written_before,
            written_during: shielding.written_during,
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
    /// How often a drive was shielded since the shield was started, on account of all users.
    #[serde(with = "member")]
    pub taken: u64,
    /// Launches and waits for which nothing was done because their user's share of time was used up.
    #[serde(with = "member")]
    pub refused: u64,
    /// Why it does not work, or what went wrong last; `None`, an empty text on the bus: it works.
    #[serde(with = "optional_word")]
    pub problem: Option<String>,
    /// Drives that are shielded, the one shielded for longest first: those on the account of who asks, or for root all.
    #[serde(with = "member")]
    pub in_force: Vec<ShieldingState>,
    /// Drives that were shielded before, the last 32 of all users, oldest first.
    #[serde(with = "member")]
    pub ended: Vec<ShieldingState>,
}

impl ShieldSummary {
    /// What this user sees of it, or the administrator (`None`).
    pub fn new(status: ShieldStatus, user: Option<u32>) -> Self {
        let is_theirs = |shielding: &Shielding| user.is_none() || shielding.uid == user;
        let states = |all: Vec<Shielding>| -> Vec<ShieldingState> {
            let theirs = all.into_iter().filter(is_theirs);
            theirs.map(ShieldingState::from).collect()
        };
        ShieldSummary {
            enabled: status.enabled,
            taken: status.taken,
            refused: status.refused,
            problem: status.problem,
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

    fn shielding(uid: Option<u32>, ended_ms: Option<u64>) -> Shielding {
        Shielding {
            dev: 7,
            target: "sda: requests of 128 KiB".to_owned(),
            uid,
            since_ms: 1000,
            ended_ms,
            why_ended: ended_ms.map(|_| "the launch is over".to_owned()),
            written_before: Some(25_000_000),
            written_during: Some(0),
        }
    }

    fn status() -> ShieldStatus {
        ShieldStatus {
            enabled: true,
            taken: 3,
            in_force: vec![shielding(Some(1000), None)],
            ended: vec![
                shielding(None, Some(2000)),
                shielding(Some(1001), Some(3000)),
            ],
            problem: Some("sda is gone".to_owned()),
            ..ShieldStatus::default()
        }
    }

    #[test]
    fn the_shield_survives_the_bus_and_json() {
        for status in [status(), ShieldStatus::default()] {
            let state = ShieldSummary::new(status, None);
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
            let state = ShieldSummary::new(status(), user);
            let found = (state.in_force.len(), state.ended.len());
            assert_eq!(found, (in_force, ended), "{user:?}");
            assert_eq!(state.taken, 3);
        }
    }
}
