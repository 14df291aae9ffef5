//! Reading ahead before launches, and the other parts of the service.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Parts;
use crate::model::{PrefetchReport, UserApp};
use crate::policy::Phase;
use crate::policy::likely::{Candidate, worthwhile};
use crate::prefetch::{BeforeLaunch, Prefetch, PrefetchOptions};
use crate::profile::decode;
use crate::service::cached_profile::CachedProfile;
use crate::service::clock::{booted_s, now_s};
use crate::service::config::WarmUpConfig;
use crate::service::login::SeatChanges;
use crate::service::mailbox::Outbox;
use crate::service::message::Message;
use crate::service::own_process::{release_heap, start_behind};
use crate::service::warm_up::{
    Allowed, LikelyApps, OccasionNews, WarmUpAction, WarmUpEvent, WarmUpOccasion, likely_apps,
};

/// What a read request of a cold launch costs, in microseconds, where nothing is known of its app's cold launches: that of
/// a usual drive. It decides about the order of apps alone.
const REQUEST_US: u64 = 200;

/// Tells the event loop when it is dropped that a thread which read before a launch has ended, also by a panic.
struct EndNotice {
    /// The thread's number.
    number: u64,
    outbox: Outbox,
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.outbox.send(Message::ReadBefore(self.number));
    }
}

impl Parts {
    /// Takes what happens to the reading ahead before launches.
    pub fn warm_up(&mut self, event: WarmUpEvent) {
        if !self.config.warm_up.enabled && event != WarmUpEvent::Stopped {
            return;
        }
        let now = Instant::now();
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.warm_up.step(event, now, &self.config.warm_up) {
                events.extend(self.carry_out_warm_up(action, now));
            }
        }
    }

    /// Goes on with reading ahead before launches, while none is under way.
    pub fn go_on_warming_up(&mut self, now: Instant) {
        if std::mem::take(&mut self.had_launches) {
            self.warm_up(WarmUpEvent::Occasion(WarmUpOccasion::Ended));
        }
        if self.warm_up.until_due(now) == Some(Duration::ZERO) {
            self.warm_up(WarmUpEvent::Due);
        }
    }

    /// The service has started.
    pub fn begin_warm_up(&mut self) {
        match self.config.warm_up.enabled {
            true => self.warm_up(WarmUpEvent::Occasion(WarmUpOccasion::Started)),
            false => tracing::debug!("nothing is read before launches: warm_up.enabled is false"),
        }
    }

    /// Takes other settings of reading ahead before launches.
    pub(super) fn configure_warm_up(&mut self, wanted: WarmUpConfig) {
        let was_enabled = std::mem::replace(&mut self.config.warm_up, wanted).enabled;
        match wanted.enabled {
            true if was_enabled => {}
            true => self.warm_up(WarmUpEvent::Occasion(WarmUpOccasion::Started)),
            false => self.warm_up(WarmUpEvent::Stopped),
        }
    }

    /// Takes logins, logouts and ends of a suspend. Returns who came to a seat of the system, and who left.
    pub fn take_logins(&mut self) -> SeatChanges {
        let news = self.warm_up.news().unwrap_or_else(|error| {
            self.warn(format!(
                "logins or ends of a suspend are not heard of: {error}"
            ));
            OccasionNews::default()
        });
        // Who comes may have made links among his commands. The home of one who leaves is not looked into: it is to be locked.
        if news.events == [WarmUpEvent::Occasion(WarmUpOccasion::Login)] {
            self.watch_for_launches();
        }
        for event in news.events {
            self.warm_up(event);
        }
        match news.may_be_login {
            true => self.seats.changes(),
            false => SeatChanges::default(),
        }
    }

    /// Carries an action out. Returns the event that follows at once.
    fn carry_out_warm_up(&mut self, action: WarmUpAction, now: Instant) -> Option<WarmUpEvent> {
        match action {
            WarmUpAction::Note => {
                self.warm_up.note(now, &self.places.sysfs);
                None
            }
            WarmUpAction::Look => Some(WarmUpEvent::Looked {
                is_quiet: self.warm_up.is_quiet(now),
            }),
            WarmUpAction::Choose => self.choose_likely(),
            WarmUpAction::ReadNext => self.read_next(),
            WarmUpAction::Stop => {
                self.warm_up.stop();
                None
            }
        }
    }

    /// Has the worker find out which apps are likely, and what may be read.
    fn choose_likely(&mut self) -> Option<WarmUpEvent> {
        let (places, config) = (&self.places, self.config.warm_up);
        let (round, surroundings) = self.warm_up.begin_round(&places.sysfs, config);
        let jobs = self.worker.jobs().clone();
        if jobs.are_many() || jobs.are_many_on_written() {
            return Some(WarmUpEvent::Disturbed);
        }
        let outbox = self.outbox.clone();
        // Batteries and files of users' sessions may let a reader wait; the history is the other thread's.
        self.worker.jobs().run(move || {
            let allowed = surroundings.allow().unwrap_or_else(|why| {
                tracing::debug!("nothing is read before launches: {why}");
                Allowed::default()
            });
            jobs.run_on_written(move |records| {
                let history = records.history();
                let apps = history.map(|history| likely_apps(&allowed.users, history));
                outbox.send(Message::Likely(LikelyApps {
                    round,
                    allowed,
                    apps: apps.unwrap_or_default(),
                }));
            });
        });
        None
    }

    /// The likely apps are known.
    pub fn likely_found(&mut self, found: LikelyApps) {
        if !self.warm_up.awaits(found.round) {
            return;
        }
        let queue = self.worth_reading(&found);
        tracing::debug!(
            likely = found.apps.len(),
            chosen = queue.len(),
            budget_mib = found.allowed.budget >> 20,
            "apps to be read before their launches"
        );
        let is_empty = queue.is_empty();
        self.warm_up.set_queue(queue, found.allowed);
        self.warm_up(match is_empty {
            true => WarmUpEvent::NothingLeft,
            false => WarmUpEvent::Chosen,
        });
    }

    /// The likely apps that are worth reading ahead, the best first.
    fn worth_reading(&mut self, found: &LikelyApps) -> VecDeque<UserApp> {
        let (now_s, booted_s) = (now_s(), booted_s());
        let mut candidates = Vec::new();
        for (number, (key, _)) in (0..).zip(&found.apps) {
            let profile = self.apps.profiles.get(key);
            let record = self.apps.registry.records.get_mut(key);
            let Some((profile, record)) = profile.zip(record) else {
                continue;
            };
            record.read_before.settle(now_s, booted_s);
            // A launch that is learned is to show what it needs from the drive.
            let is_served = record.managed.phase() == Phase::Prefetching;
            let pays = record.read_before.worth().pays();
            let has_share = self.prefetchers.has_share(key.uid, profile.bytes);
            if !is_served || !pays || !has_share || self.threads.hangs_for(key) {
                continue;
            }
            let waited_us = record.managed.no_gain_facts().waiting_us;
            let saved_us = waited_us.unwrap_or(profile.cold_requests * REQUEST_US);
            candidates.push(Candidate {
                app: number,
                saved_us,
                bytes: profile.bytes,
            });
        }
        let probabilities: Vec<(u32, f64)> = (0..)
            .zip(&found.apps)
            .map(|(number, (_, probability))| (number, *probability))
            .collect();
        let chosen = worthwhile(&candidates, &probabilities, found.allowed.budget);
        let keys = chosen.into_iter();
        keys.filter_map(|number| Some(found.apps.get(number as usize)?.0.clone()))
            .collect()
    }

    /// Has a thread read the next app.
    fn read_next(&mut self) -> Option<WarmUpEvent> {
        while let Some((key, allowed)) = self.warm_up.next_app() {
            // It may have been forgotten meanwhile, or what was read for others of its user has used his share up.
            let profile = self.apps.profiles.get(&key);
            let has_share =
                |profile: &&CachedProfile| self.prefetchers.has_share(key.uid, profile.bytes);
            let Some(profile) = profile.filter(has_share) else {
                continue;
            };
            let options = PrefetchOptions {
                before_launch: Some(BeforeLaunch {
                    budget: allowed.budget,
                    asleep: allowed.asleep,
                }),
                ..PrefetchOptions::default()
            };
            let packed = Arc::clone(&profile.packed);
            // This program has packed it.
            let load = move || decode(&packed).ok();
            let number = self.warm_up.new_thread();
            let notice = EndNotice {
                number,
                outbox: self.outbox.clone(),
            };
            let done = move || {
                release_heap();
                drop(notice);
            };
            match start_behind(|| Prefetch::start_then(load, options, done)) {
                Ok(prefetch) => {
                    self.warm_up.started(number, key, prefetch);
                    return None;
                }
                // The system would give none for the next app either.
                Err(error) => {
                    self.warn(format!("nothing is read before launches: {error}"));
                    break;
                }
            }
        }
        Some(WarmUpEvent::NothingLeft)
    }

    /// A thread that read an app before its launch has ended.
    pub fn read_before_ended(&mut self, number: u64) {
        let Some((key, report)) = self.warm_up.ended(number) else {
            return;
        };
        // Without one, it has panicked, which is printed.
        let Some(report) = report else {
            return self.warm_up(WarmUpEvent::NothingLeft);
        };
        self.account_for(&key, &report);
        self.warm_up(if report.disturbed.is_some() {
            WarmUpEvent::Disturbed
        } else if report.ran_short.is_some() || report.refused.is_some() {
            WarmUpEvent::NothingLeft
        } else {
            WarmUpEvent::Read
        });
    }

    /// Puts what was read down to its user, and to the app.
    fn account_for(&mut self, key: &UserApp, report: &PrefetchReport) {
        let bytes = report.read_bytes;
        let reasons = [&report.refused, &report.ran_short, &report.disturbed];
        let stopped = report.cut_short.then_some("a launch began");
        let ended = reasons.into_iter().flatten().map(String::as_str).next();
        tracing::info!(
            app = key.id,
            uid = key.uid,
            bytes,
            cached = report.warm,
            ended = stopped.or(ended).unwrap_or_default(),
            "read before its launch"
        );
        if bytes == 0 {
            return;
        }
        self.prefetchers.charge(key.uid, bytes);
        if let Some(record) = self.apps.registry.records.get_mut(key) {
            record.read_before.read(bytes, now_s());
            self.apps.save();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::service::mailbox::mailbox;

    #[test]
    fn the_end_of_a_thread_that_panics_is_heard_of() {
        let (outbox, inbox) = mailbox().unwrap();
        let notice = EndNotice { number: 7, outbox };
        let options = PrefetchOptions::default();
        let prefetch = Prefetch::start_then(|| panic!("meant"), options, move || drop(notice));
        let limit = Timespec::try_from(Duration::from_secs(60)).unwrap();
        let fds = &mut [PollFd::from_borrowed_fd(inbox.fd(), PollFlags::IN)];
        assert_eq!(poll(fds, Some(&limit)), Ok(1));
        let messages = inbox.take();
        assert!(matches!(messages[..], [Message::ReadBefore(7)]));
        assert!(prefetch.unwrap().poll().is_none());
    }
}
