//! The shield's thread: it sleeps until a launch, a report of pressure or the next look, and carries out what the state
//! machine decides.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::drives::{Drives, LEFT_ALONE};
use super::people::People;
use super::pressure::PressureTrigger;
use super::status::{ShieldStatus, Shielding};
use super::{LAUNCH_BYTES, decode_launch};
use crate::policy::{DriveLook, ShieldAction, ShieldEvent, ShieldState};
use crate::process::Clocks;

/// What others read of it.
pub(super) type SharedStatus = Arc<Mutex<ShieldStatus>>;

/// What could not be restored is tried again this often.
const RETRY: Duration = Duration::from_secs(5);

/// All that the thread has.
pub(super) struct ShieldThread {
    pub drives: Drives,
    pub people: People,
    /// Launches come through this pipe. The thread ends when it is closed.
    pub launches: OwnedFd,
    /// `None` where the kernel takes none: then each look asks.
    pub pressure: Option<PressureTrigger>,
    pub status: SharedStatus,
    pub state: ShieldState,
    pub retry_at: Option<Duration>,
}

impl ShieldThread {
    /// Runs until nobody can tell of launches any more. What is set then is restored when its guard is dropped.
    pub fn run(mut self) {
        loop {
            let is_pressed = self.wait();
            if !self.take_launches() {
                return;
            }
            let now = now();
            let is_due = self.state.next_look(now) == Some(Duration::ZERO);
            if is_pressed || (self.pressure.is_none() && is_due) {
                self.ask_who_waits();
            }
            if self.state.next_look(now) == Some(Duration::ZERO) {
                self.look(now);
            }
            if self.retry_at.is_some_and(|at| at <= now) {
                self.retry_at = self.drives.retry().then_some(now + RETRY);
            }
            self.drives.renew(now);
        }
    }

    /// Waits until something is to be done. Whether the kernel says that tasks wait.
    fn wait(&mut self) -> bool {
        let now = now();
        let retry = self.retry_at.map(|at| at.saturating_sub(now));
        let next = [self.state.next_look(now), retry]
            .into_iter()
            .flatten()
            .min();
        let limit = next.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = vec![PollFd::new(&self.launches, PollFlags::IN)];
        fds.extend(
            self.pressure
                .iter()
                .map(|trigger| PollFd::new(trigger, PollFlags::PRI)),
        );
        // After a signal, the loop looks at the time and waits again.
        let ready = poll(&mut fds, limit.as_ref()).unwrap_or(0);
        let pressure = fds.get(1).map_or(PollFlags::empty(), PollFd::revents);
        if ready > 0 && pressure.contains(PollFlags::ERR) {
            // The trigger no longer works.
            self.pressure = None;
            return false;
        }
        ready > 0 && pressure.contains(PollFlags::PRI)
    }

    /// Takes the launches that have begun; false if there will be none any more.
    fn take_launches(&mut self) -> bool {
        loop {
            let mut bytes = [0; LAUNCH_BYTES];
            match read(&self.launches, &mut bytes) {
                Ok(LAUNCH_BYTES) => {
                    let (uid, dev) = decode_launch(bytes);
                    if let Some(drive) = self.drives.below(dev) {
                        self.step(ShieldEvent::Launch { uid, drive });
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return false,
            }
        }
    }

    /// Tasks wait for drives: finds out whose, and which drives may be why.
    fn ask_who_waits(&mut self) {
        let who = self.people.who_waits();
        if who.is_empty() {
            return;
        }
        for drive in self.drives.writing() {
            for &uid in &who {
                self.step(ShieldEvent::Waits { uid, drive });
            }
        }
    }

    fn look(&mut self, now: Duration) {
        let known: Vec<u64> = self.state.drives().collect();
        self.drives.keep_counts_of(&known);
        let looks = known
            .into_iter()
            .filter_map(|drive| Some((drive, self.drives.look(drive, now)?)));
        let drives: BTreeMap<u64, DriveLook> = looks.collect();
        let logged_in = self.people.is_one_logged_in();
        self.step(ShieldEvent::Looked { drives, logged_in });
    }

    fn step(&mut self, event: ShieldEvent) {
        let mut events = vec![event];
        // A failure is an event, too. It makes the drive rest, so that this ends.
        while let Some(event) = events.pop() {
            let (state, actions) = std::mem::take(&mut self.state).step(event, now());
            self.state = state;
            for action in actions {
                events.extend(self.carry_out(action));
            }
        }
        let refused = self.state.refused();
        self.tell(|status| status.refused = refused);
    }

    fn carry_out(&mut self, action: ShieldAction) -> Option<ShieldEvent> {
        match action {
            ShieldAction::Set {
                drive,
                limits,
                uid,
                before,
            } => {
                let shielding = Shielding {
                    dev: drive,
                    target: format!("{}: {limits}", self.drives.name(drive)),
                    uid,
                    written_before: before,
                    ..Shielding::default()
                };
                match self.drives.set(drive, &limits) {
                    Ok(()) => {
                        let what = shielding.target.clone();
                        self.tell(|status| status.begins(shielding));
                        tracing::debug!(what, "a drive is shielded");
                        None
                    }
                    Err(error) => {
                        self.tell(|status| status.problem = Some(error));
                        Some(ShieldEvent::Failed { drive })
                    }
                }
            }
            ShieldAction::Release { drive, why, during } => {
                let released = self.drives.release(drive);
                let why = match released {
                    Ok(true) => LEFT_ALONE,
                    _ => why.explanation(),
                };
                if released.is_err() || self.drives.retry() {
                    self.retry_at = Some(now() + RETRY);
                }
                self.tell(|status| {
                    status.ends(drive, why, during);
                    if let Err(error) = released {
                        status.problem = Some(error);
                    }
                });
                None
            }
        }
    }

    fn tell(&self, change: impl FnOnce(&mut ShieldStatus)) {
        let status = self.status.lock();
        change(&mut status.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

/// The time since boot, suspensions included.
fn now() -> Duration {
    Duration::from_nanos(Clocks::now().boottime_ns)
}
