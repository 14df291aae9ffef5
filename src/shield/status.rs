//! What the shield does and did, for `status`, `doctor` and the laboratory.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Most shieldings that have ended which a status holds.
const MOST_ENDED: usize = 32;

/// What the shield does and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShieldStatus {
    /// Whether it is switched on.
    pub enabled: bool,
    /// Drives that are shielded, the one shielded for longest first.
    pub in_force: Vec<Shielding>,
    /// The last 32 shieldings that have ended, oldest first.
    pub ended: Vec<Shielding>,
    /// Shieldings since it was started.
    pub taken: u64,
    /// Launches and waits that were no reason because their user's share of time was used up.
    pub refused: u64,
    /// Why it does not work, or what went wrong last.
    pub problem: Option<String>,
}

/// One time that a drive was shielded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shielding {
    /// The drive, encoded as `st_dev`.
    pub dev: u64,
    /// Name of the drive, and what is set of it, for readers.
    pub target: String,
    /// On whose account; `None`: the system's, because of I/O pressure.
    pub uid: Option<u32>,
    /// When it began, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it ended, in milliseconds since 1970; `None`: it is in force.
    pub ended_ms: Option<u64>,
    /// Why it ended, in words.
    pub why_ended: Option<String>,
    /// What the drive wrote before, in bytes per second; `None` where it was not measured.
    pub written_before: Option<u64>,
    /// What it wrote meanwhile, at the step that was last in force; likewise.
    pub written_during: Option<u64>,
}

impl ShieldStatus {
    /// A drive is shielded from now on, or in another way.
    pub(super) fn begins(&mut self, new: Shielding) {
        match self.in_force.iter_mut().find(|known| known.dev == new.dev) {
            Some(known) => {
                known.target = new.target;
                known.written_before = new.written_before;
            }
            None => {
                self.taken += 1;
                self.in_force.push(Shielding {
                    since_ms: now_ms(),
                    ..new
                });
            }
        }
    }

    /// A drive is not shielded any more.
    pub(super) fn ends(&mut self, dev: u64, why: &str, during: Option<u64>) {
        let Some(at) = self.in_force.iter().position(|known| known.dev == dev) else {
            return;
        };
        let shielding = self.in_force.remove(at);
        if self.ended.len() >= MOST_ENDED {
            self.ended.remove(0);
        }
        self.ended.push(Shielding {
            // The clock may have been set back.
            ended_ms: Some(now_ms().max(shielding.since_ms)),
            why_ended: Some(why.to_owned()),
            written_during: during,
            ..shielding
        });
    }
}

/// The time of day in milliseconds since 1970; 0 if the clock is set to a time before it.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_has_one_shielding_until_it_ends() {
        let mut status = ShieldStatus::default();
        let shielding = |dev, target: &str| Shielding {
            dev,
            target: target.to_owned(),
            uid: Some(1000),
            ..Shielding::default()
        };
        status.begins(shielding(7, "tight"));
        status.begins(shielding(8, "tight"));
        status.begins(shielding(7, "looser"));
        assert_eq!((status.taken, status.in_force.len()), (2, 2));
        assert_eq!(status.in_force[0].target, "looser");
        status.ends(7, "nobody waits", Some(3));
        status.ends(7, "again", None);
        let [ended] = &status.ended[..] else {
            panic!("{:?}", status.ended);
        };
        assert_eq!((ended.dev, ended.written_during), (7, Some(3)));
        assert!(ended.ended_ms >= Some(ended.since_ms));
        for _ in 0..2 * MOST_ENDED {
            status.begins(shielding(9, ""));
            status.ends(9, "", None);
        }
        assert_eq!(status.ended.len(), MOST_ENDED);
        assert!(status.ended.iter().all(|ended| ended.dev == 9));
    }
}
