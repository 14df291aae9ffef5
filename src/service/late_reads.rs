//! Launches that are over and may go on after a pause, as those of updaters that ask the network first.
//!
//! Such a launch is judged and written down like any other; nothing waits for what follows. For a while the kernel notes what
//! its tasks read themselves, which joins the profile once it recurs, at its time in the launch.

use std::time::{Duration, Instant, SystemTime};

use crate::model::UserApp;

/// How long a launch that is over is listened to.
pub const LISTENED_FOR: Duration = Duration::from_secs(10);

/// Launches that are listened to at a time, and those of one user; others are not.
pub const MOST: usize = 8;
const MOST_OF_A_USER: usize = 4;

/// A launch that is over.
#[derive(Clone, Debug)]
pub struct EndedLaunch {
    /// The kernel side's number for it.
    pub number: u64,
    /// The app, and whose it is.
    pub key: UserApp,
    /// When it began: CLOCK_MONOTONIC, in nanoseconds.
    pub start_ns: u64,
    /// When it began, by the file systems' clock.
    pub began: SystemTime,
}

/// The launches that are listened to, and until when.
#[derive(Default)]
pub struct LateReads(Vec<(EndedLaunch, Instant)>);

impl LateReads {
    /// Listens to a launch from now on. False if there is no room for it.
    pub fn listen(&mut self, launch: EndedLaunch, now: Instant) -> bool {
        let of_user = |over: &&(EndedLaunch, Instant)| over.0.key.uid == launch.key.uid;
        let has_room =
            self.0.len() < MOST && self.0.iter().filter(of_user).count() < MOST_OF_A_USER;
        if has_room {
            self.0.push((launch, now + LISTENED_FOR));
        }
        has_room
    }

    /// Whether this launch is listened to.
    pub fn contains(&self, launch: u64) -> bool {
        self.0.iter().any(|(over, _)| over.number == launch)
    }

    /// Listens to this launch no longer; `None` if it was not listened to.
    pub fn take(&mut self, launch: u64) -> Option<EndedLaunch> {
        let index = self.0.iter().position(|(over, _)| over.number == launch)?;
        Some(self.0.remove(index).0)
    }

    /// Launches that have been listened to for long enough.
    pub fn due(&self, now: Instant) -> Vec<u64> {
        let due = self.0.iter().filter(|(_, until)| *until <= now);
        due.map(|(over, _)| over.number).collect()
    }

    /// Time until the next one is due.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        let times = self.0.iter().map(|(_, until)| *until);
        Some(times.min()?.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(number: u64, uid: u32) -> EndedLaunch {
        EndedLaunch {
            number,
            key: UserApp::new(uid, "/app"),
            start_ns: 0,
            began: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn each_launch_is_listened_to_for_a_while_or_until_it_ends() {
        let now = Instant::now();
        let mut late = LateReads::default();
        assert_eq!(late.until_due(now), None);
        assert!(late.listen(launch(1, 7), now));
        assert!(late.listen(launch(2, 7), now + Duration::from_secs(1)));
        let left = LISTENED_FOR - Duration::from_secs(2);
        assert_eq!(late.until_due(now + Duration::from_secs(2)), Some(left));
        assert!(late.due(now + Duration::from_secs(9)).is_empty());
        assert_eq!(late.due(now + LISTENED_FOR), [1]);
        assert_eq!(late.until_due(now + 2 * LISTENED_FOR), Some(Duration::ZERO));
        assert_eq!(late.take(1).map(|over| over.number), Some(1));
        assert!(late.take(1).is_none() && !late.contains(1) && late.contains(2));
    }

    #[test]
    fn a_user_with_many_launches_leaves_room_for_others() {
        let now = Instant::now();
        let mut late = LateReads::default();
        let taken = |late: &mut LateReads, uid: u32| {
            let all = 0..20u64;
            let numbers = all.map(|number| u64::from(uid) * 100 + number);
            numbers
                .filter(|&number| late.listen(launch(number, uid), now))
                .count()
        };
        assert_eq!([1, 2, 3].map(|uid| taken(&mut late, uid)), [4, 4, 0]);
        late.take(100);
        assert_eq!(taken(&mut late, 3), 1);
    }
}
