//! Who has a reason for measures: launches, tasks that wait, and pressure.

use std::time::Duration;

/// Longest time for which a launch is a reason, whatever its caller says.
const LONGEST_LAUNCH: Duration = Duration::from_secs(60);
/// For how long a wait, or pressure, is a reason.
pub(super) const EVIDENCE: Duration = Duration::from_secs(5);
/// Most claims; further ones are refused.
const MOST_CLAIMS: usize = 64;
/// Most claims of one user: he leaves room for others.
const MOST_OF_USER: usize = 16;
/// Most waiting threads that a claim remembers.
const MOST_THREADS: usize = 4;

/// A reason for measures on one drive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    /// Who has it.
    pub source: ClaimSource,
    /// On whose account; `None`: the system's.
    pub uid: Option<u32>,
    /// The drive.
    pub device: u32,
    /// When it ends.
    pub until: Duration,
    /// Whether measures were granted; `None`: not asked yet, or not since all of them have ended.
    pub granted: Option<bool>,
}

/// Who has a reason.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimSource {
    /// The launch of this number.
    Launch(u64),
    /// Threads that wait.
    Waits(Vec<i32>),
    /// Tasks wait, says the kernel.
    Pressure,
}

impl Claim {
    /// Whether it is a launch's.
    pub fn is_launch(&self) -> bool {
        matches!(self.source, ClaimSource::Launch(_))
    }

    /// The threads that wait.
    pub fn threads(&self) -> &[i32] {
        match &self.source {
            ClaimSource::Waits(threads) => threads,
            _ => &[],
        }
    }
}

/// All claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims(Vec<Claim>);

impl Claims {
    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.0.iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Claim> {
        self.0.iter_mut()
    }

    /// A launch begins. False: there are too many claims.
    pub fn launch_begins(&mut self, launch: u64, uid: u32, device: u32, now: Duration) -> bool {
        self.launch_ends(launch);
        self.push(Claim {
            source: ClaimSource::Launch(launch),
            uid: Some(uid),
            device,
            until: now.saturating_add(LONGEST_LAUNCH),
            granted: None,
        })
    }

    /// It ends.
    pub fn launch_ends(&mut self, launch: u64) {
        self.0
            .retain(|claim| claim.source != ClaimSource::Launch(launch));
    }

    /// A thread waits. False: there are too many claims.
    pub fn waits(&mut self, tid: i32, uid: u32, device: u32, now: Duration) -> bool {
        let until = now.saturating_add(EVIDENCE);
        for claim in &mut self.0 {
            let is_same = (claim.uid, claim.device) == (Some(uid), device);
            if let ClaimSource::Waits(threads) = &mut claim.source
                && is_same
            {
                threads.retain(|&known| known != tid);
                threads.truncate(MOST_THREADS - 1);
                threads.insert(0, tid);
                claim.until = until;
                // A refusal is not for good.
                claim.granted = claim.granted.filter(|&granted| granted);
                return true;
            }
        }
        self.push(Claim {
            source: ClaimSource::Waits(vec![tid]),
            uid: Some(uid),
            device,
            until,
            granted: None,
        })
    }

    /// Tasks wait for this drive. False: there are too many claims.
    pub fn pressure(&mut self, device: u32, now: Duration) -> bool {
        let until = now.saturating_add(EVIDENCE);
        let is_same =
            |claim: &&mut Claim| claim.source == ClaimSource::Pressure && claim.device == device;
        if let Some(claim) = self.0.iter_mut().find(is_same) {
            claim.until = until;
            claim.granted = claim.granted.filter(|&granted| granted);
            return true;
        }
        self.push(Claim {
            source: ClaimSource::Pressure,
            uid: None,
            device,
            until,
            granted: None,
        })
    }

    /// Pressure that was reported of this drive, and has not ended, goes on.
    pub fn keep_pressure(&mut self, device: u32, now: Duration) {
        let claims = self.0.iter_mut().filter(|claim| claim.device == device);
        for claim in claims {
            if claim.source == ClaimSource::Pressure && now < claim.until {
                claim.until = now.saturating_add(EVIDENCE);
            }
        }
    }

    /// Forgets those that have ended.
    pub fn expire(&mut self, now: Duration) {
        self.0.retain(|claim| now < claim.until);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn push(&mut self, claim: Claim) -> bool {
        let own = self.0.iter().filter(|known| known.uid == claim.uid).count();
        let is_room = self.0.len() < MOST_CLAIMS && own < MOST_OF_USER;
        if is_room {
            self.0.push(claim);
        }
        is_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_many_claims_leaves_room_for_others() {
        let mut claims = Claims::default();
        for launch in 0..MOST_OF_USER as u64 {
            assert!(claims.launch_begins(launch, 1000, 1, Duration::ZERO));
        }
        assert!(!claims.launch_begins(99, 1000, 1, Duration::ZERO));
        assert!(!claims.waits(7, 1000, 1, Duration::ZERO));
        assert!(claims.launch_begins(0, 1000, 2, Duration::ZERO), "again");
        assert!(claims.launch_begins(100, 1001, 1, Duration::ZERO));
        assert!(claims.pressure(1, Duration::ZERO));
        claims.launch_ends(1);
        assert!(claims.waits(7, 1000, 1, Duration::ZERO));
        // All users together.
        let launches = 200..200 + 4 * MOST_OF_USER as u64;
        let taken = launches.filter(|&launch| {
            let uid = 2000 + u32::try_from(launch / 4).unwrap();
            claims.launch_begins(launch, uid, 1, Duration::ZERO)
        });
        assert_eq!(taken.count(), MOST_CLAIMS - MOST_OF_USER - 2);
    }
}
