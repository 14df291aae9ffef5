//! Before the click: while nothing happens, the profiles of likely apps are read into memory that is free.
//!
//! [`WarmUpState`] says when; it is pure. [`Occasions`] hears of what may have emptied the caches, and costs nothing
//! while nothing happens. [`Surroundings`] and [`likely_apps`] say what may be read. The reading is that of a launch's
//! prefetch, with [`BeforeLaunch`](crate::prefetch::BeforeLaunch). A launch ends all of it.

mod choice;
mod occasions;
mod power;
mod quiet;
mod state;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub use choice::{Allowed, LikelyApps, Surroundings, likely_apps};
pub use state::{WarmUpAction, WarmUpEvent, WarmUpOccasion};

use occasions::Occasions;
use power::SUPPLIES;
use quiet::Pressure;
use state::WarmUpState;

use super::config::WarmUpConfig;
use crate::drive::{SpinningDisks, Sysfs};
use crate::model::{PrefetchReport, UserApp};
use crate::prefetch::Prefetch;
use crate::shield::People;

/// How long a disk with heads that has answered a request turns for sure.
const TURNS_FOR: Duration = Duration::from_secs(120);

/// An app that is being read.
struct RunningRead {
    number: u64,
    key: UserApp,
    prefetch: Prefetch,
}

/// What was heard.
#[derive(Default)]
pub struct OccasionNews {
    /// What it is for the reading ahead before launches.
    pub events: Vec<WarmUpEvent>,
    /// Whether logind has written something anew.
    pub may_be_login: bool,
}

/// The reading ahead before launches.
pub struct WarmUp {
    state: WarmUpState,
    occasions: Occasions,
    people: People,
    /// Who was logged in when that was looked at last.
    logged_in: Vec<u32>,
    /// How long tasks had waited at the last note; `None` where the kernel does not tell.
    noted: Option<Pressure>,
    /// The disks with heads as they were some time ago.
    disks: Option<(Instant, SpinningDisks)>,
    /// The rounds so far, by which late answers are known.
    round: u64,
    /// The apps that are to be read, the one that is worth most first.
    queue: VecDeque<UserApp>,
    allowed: Allowed,
    /// There is one thread at most: while a drive keeps it, nothing else is read.
    running: Option<RunningRead>,
    /// Number of the last thread.
    threads: u64,
}

impl WarmUp {
    /// Nothing is read yet. The second value says what is not heard of.
    pub fn new() -> (Self, Vec<String>) {
        let people = People::default();
        let (occasions, warnings) = Occasions::listen(&people.users);
        let warm_up = WarmUp {
            state: WarmUpState::default(),
            occasions,
            logged_in: people.logged_in(),
            people,
            noted: None,
            disks: None,
            round: 0,
            queue: VecDeque::new(),
            allowed: Allowed::default(),
            running: None,
            threads: 0,
        };
        (warm_up, warnings)
    }

    /// Readable when there may be an occasion.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.occasions.fds()
    }

    /// Logins, logouts and ends of a suspend since the last call. That logind has written something anew is neither.
    ///
    /// # Errors
    /// When they cannot be heard of any more.
    pub fn news(&mut self) -> io::Result<OccasionNews> {
        let mut events = Vec::new();
        let mut may_be_login = false;
        for occasion in self.occasions.take()? {
            match occasion {
                WarmUpOccasion::Login => {
                    may_be_login = true;
                    let there = self.people.logged_in();
                    events.extend(login_events(&self.logged_in, &there));
                    self.logged_in = there;
                }
                occasion => events.push(WarmUpEvent::Occasion(occasion)),
            }
        }
        Ok(OccasionNews {
            events,
            may_be_login,
        })
    }

    /// Takes what happens; returns what is to be done, in this order.
    pub fn step(
        &mut self,
        event: WarmUpEvent,
        now: Instant,
        config: &WarmUpConfig,
    ) -> Vec<WarmUpAction> {
        let (state, actions) = self.state.step(event, now, config.quiet());
        self.state = state;
        actions
    }

    /// Time until [`WarmUpEvent::Due`].
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        self.state.until_due(now)
    }

    /// Notes how things are.
    pub fn note(&mut self, now: Instant, sysfs: &Sysfs) {
        self.noted = Pressure::read(now);
        let is_young = |at: Instant| now.saturating_duration_since(at) < TURNS_FOR;
        if !self.disks.as_ref().is_some_and(|(at, _)| is_young(*at)) {
            self.disks = Some((now, sysfs.spinning_disks()));
        }
        // logind may have been started after the service.
        self.occasions.listen_again(&self.people.users);
    }

    /// Whether nothing has happened since, and no drive keeps the thread of an earlier round.
    pub fn is_quiet(&self, now: Instant) -> bool {
        let quiet = self.noted.zip(Pressure::read(now));
        let is_quiet = quiet.is_some_and(|(before, now)| now.is_quiet_since(&before));
        is_quiet && self.running.is_none()
    }

    /// A round begins. Returns its number, and what is to be looked at.
    pub fn begin_round(&mut self, sysfs: &Sysfs, config: WarmUpConfig) -> (u64, Surroundings) {
        self.round += 1;
        let disks = self.disks.as_ref().map(|(_, disks)| disks.clone());
        let surroundings = Surroundings {
            people: self.people.clone(),
            supplies: SUPPLIES.into(),
            sysfs: sysfs.clone(),
            disks: disks.unwrap_or_default(),
            config,
        };
        (self.round, surroundings)
    }

    /// Whether an answer for this round is waited for.
    pub fn awaits(&self, round: u64) -> bool {
        self.round == round && self.state.is_choosing()
    }

    /// Sets the apps that are to be read, and what may be read.
    pub fn set_queue(&mut self, queue: VecDeque<UserApp>, allowed: Allowed) {
        self.queue = queue;
        self.allowed = allowed;
    }

    /// The next app that is to be read, and what may be read.
    pub fn next_app(&mut self) -> Option<(UserApp, Allowed)> {
        let key = self.queue.pop_front()?;
        Some((key, self.allowed.clone()))
    }

    /// A number for another thread.
    pub fn new_thread(&mut self) -> u64 {
        self.threads += 1;
        self.threads
    }

    /// A thread of this number reads this app.
    pub fn started(&mut self, number: u64, key: UserApp, prefetch: Prefetch) {
        self.running = Some(RunningRead {
            number,
            key,
            prefetch,
        });
    }

    /// Ends the read that is under way after the request that it waits for, and forgets the other apps. Returns at once.
    pub fn stop(&mut self) {
        self.queue.clear();
        if let Some(running) = &self.running {
            running.prefetch.stop();
        }
    }

    /// A thread has ended. Returns which app it has read, and its report; `None` if it has none.
    pub fn ended(&mut self, number: u64) -> Option<(UserApp, Option<PrefetchReport>)> {
        let running = self.running.take_if(|running| running.number == number)?;
        let report = running.prefetch.poll();
        let read = report.as_ref().map_or(0, |report| report.read_bytes);
        self.allowed.budget = self.allowed.budget.saturating_sub(read);
        Some((running.key, report))
    }
}

/// What it means that other users are logged in than before. While something is read for one who leaves, his home may be
/// busy.
fn login_events(before: &[u32], now: &[u32]) -> Vec<WarmUpEvent> {
    let lacks = |users: &[u32], uid: &u32| !users.contains(uid);
    let has_left = before.iter().any(|uid| lacks(now, uid));
    let is_new = now.iter().any(|uid| lacks(before, uid));
    let stop = has_left.then_some(WarmUpEvent::Stopped);
    // Of those who stay, too, the reading was stopped.
    let login = is_new || (has_left && !now.is_empty());
    let login = login.then_some(WarmUpEvent::Occasion(WarmUpOccasion::Login));
    stop.into_iter().chain(login).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logout_ends_the_reading_and_a_login_begins_it() {
        let login = WarmUpEvent::Occasion(WarmUpOccasion::Login);
        let stopped = WarmUpEvent::Stopped;
        for (before, now, expected) in [
            (&[1000][..], &[1000][..], vec![]),
            (&[], &[1000], vec![login]),
            (&[1000], &[1000, 1001], vec![login]),
            (&[1000], &[], vec![stopped]),
            (&[1000, 1001], &[1000], vec![stopped, login]),
            (&[1000], &[1001], vec![stopped, login]),
        ] {
            assert_eq!(login_events(before, now), expected, "{before:?}, {now:?}");
        }
    }
}
