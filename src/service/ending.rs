//! The end of launches, and what follows from it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::active::{Active, CALL_LIMIT, HOLD_LIMIT, duration_us};
use super::core::Service;
use super::face::record_of;
use super::message::{Message, Outcome};
use super::ready::Ready;
use super::reschedule::{now_s, reschedule};
use crate::bus;
use crate::history::{Kind, Launch};
use crate::manager::{LiveNews, LiveResult, Record};
use crate::phases::{Decision, Observation, Off, Phase, Plan, Prefetched, Reason, Seen, Warmth};
use crate::profile::{Profile, Store};
use crate::resolve::mounts::MountTable;
use crate::schedule::Params;
use crate::watch::Counts;

impl Service<'_> {
    /// Looks which launches are over.
    pub(super) fn look_at_active(&mut self, now: Instant) {
        let mut over = Vec::new();
        for (&launch, active) in &mut self.active {
            let Some(counts) = self.watch.counts(launch) else {
                over.push(launch);
                continue;
            };
            if now.saturating_duration_since(active.begun) > HOLD_LIMIT
                && let Some(hold) = active.held.take()
                && hold.let_go()
            {
                active.note = Some("it was held for too long and let go".to_owned());
            }
            let never_executed =
                !active.confirmed && now.saturating_duration_since(active.begun) > CALL_LIMIT;
            let reads = counts.requests + counts.prefetch_requests;
            // The learning thread has its own idea of the end.
            let quiet = active.quiet.is_over(now, reads) && !active.learning;
            let busy = active.prefetch.is_some() && active.report.is_none();
            if never_executed || (quiet && !busy) {
                over.push(launch);
            }
        }
        for launch in over {
            self.finish(launch, None);
        }
        // Calls that neither succeeded nor were the last of their process.
        for launch in self.state.calls.take_failed(now) {
            self.end_counting(launch);
        }
        self.stop_counting_unneeded();
    }

    /// The last task of a launch has exited.
    pub(super) fn on_ended(&mut self, launch: u64, time_ns: u64) {
        self.state.calls.remove(launch);
        let learning = self
            .active
            .get(&launch)
            .is_some_and(|active| active.learning);
        if learning {
            // What was learned is on its way; what was counted stays until then.
            return;
        }
        self.finish(launch, Some(time_ns));
    }

    /// The prefetch thread of a launch has ended.
    pub(super) fn on_prefetched(&mut self, launch: u64) {
        let Some(active) = self.active.get_mut(&launch) else {
            return;
        };
        active.report = active
            .prefetch
            .as_ref()
            .and_then(|prefetch| prefetch.poll());
        if let Some(report) = &active.report {
            if let Some(why) = &report.refused {
                active.note = Some(format!("not prefetched: {why}"));
            } else if let Some(why) = &report.ran_short {
                active.note = Some(format!("prefetched in part: {why}"));
            }
        }
        if let Some(counts) = self.watch.counts(launch) {
            active.switches = counts.switches;
        }
        let tid = active.helper.load(Ordering::Acquire);
        // It is not there if the launch has ended meanwhile.
        let _ = self.watch.set_helper(tid, None);
    }

    /// A launch is over: what was counted is written down and judged.
    fn finish(&mut self, launch: u64, exited_ns: Option<u64>) {
        let Some(mut active) = self.active.remove(&launch) else {
            self.end_counting(launch);
            return;
        };
        let counts = self.watch.counts(launch).unwrap_or_default();
        self.end_counting(launch);
        if !active.confirmed {
            // execve failed, or its success was not seen.
            if let Some(prefetch) = active.prefetch {
                prefetch.stop();
            }
            return;
        }
        if active.report.is_none()
            && let Some(prefetch) = active.prefetch.take()
        {
            // The app has gone; nobody waits for the rest of its schedule.
            active.report = prefetch.poll();
            active.switches = counts.switches;
            prefetch.stop();
        }
        let seen = self.seen(&active, &counts, exited_ns);
        if let Plan::Prefetch | Plan::Withhold = active.plan
            && let Some(seen) = seen
        {
            self.judge(&active, seen);
        }
        self.suspect_ended(&active, &counts);
        // Before the history: who finds a launch there finds what it changed, too.
        self.save();
        self.write_down(&active, &counts, exited_ns, seen.map(|seen| seen.warmth()));
    }

    /// The launch in numbers; `None` without a profile to hold it against, or if it was cut short.
    fn seen(&self, active: &Active, counts: &Counts, exited_ns: Option<u64>) -> Option<Seen> {
        let ready = self.ready.get(&active.id)?;
        let prefetched = active
            .report
            .as_ref()
            .map(|report| Prefetched::new(report, active.switches));
        if active.plan == Plan::Prefetch && prefetched.is_none() {
            return None;
        }
        Some(Seen {
            duration_us: duration_us(counts, exited_ns),
            waiting_us: counts.waiting_ns / 1000,
            read_bytes: counts.bytes + counts.prefetch_bytes,
            schedule_bytes: ready.bytes,
            own_readaheads: counts.launch_requests(),
            prefetched,
        })
    }

    fn judge(&mut self, active: &Active, seen: Seen) {
        let Some(ready) = self.ready.get(&active.id) else {
            return;
        };
        let history = ready.history.clone();
        let observation = Observation::Launched {
            history: &history,
            seen,
        };
        self.decide(&active.id, &observation);
    }

    /// Takes what happened to an app, and carries out what is decided.
    pub(super) fn decide(&mut self, id: &str, observation: &Observation<'_>) {
        let Some(record) = self.registry.get_mut(id) else {
            return;
        };
        let decision = record.managed.next(now_s(), observation);
        match decision {
            Decision::Keep => {}
            Decision::Reschedule(params) if self.config.prefetch.dynamic => {
                self.reschedule(id, params);
            }
            Decision::Reschedule(_) => {
                record.managed.next(now_s(), &Observation::NotRescheduled);
            }
            Decision::Refresh => self.refresh_profile(id),
            Decision::Relearn(reason) => {
                tracing::info!(
                    app = id,
                    reason = reason_word(reason),
                    "will be learned again"
                );
            }
            Decision::SwitchedOff(off) => {
                let why = off_words(off);
                tracing::info!(app = id, why, "switched off");
                self.ready.remove(id);
            }
        }
        self.watch_for_learning();
    }

    /// Has a profile scheduled anew.
    fn reschedule(&mut self, id: &str, params: Params) {
        let Some(ready) = self.ready.get(id) else {
            return;
        };
        let (packed, store, outbox) = (
            ready.packed.clone(),
            self.store.clone(),
            self.outbox.clone(),
        );
        let (id, app) = (id.to_owned(), ready.app.clone());
        self.worker.run(move |_| {
            let outcome = match crate::profile::decode(&packed) {
                Err(error) => Outcome::Failed(error.to_string()),
                Ok(profile) => {
                    let sequence = store.load_sequence(app.key()).ok().flatten();
                    let rescheduled = reschedule(profile, sequence, params);
                    Outcome::of(rescheduled, |profile| keep(&store, profile))
                }
            };
            outbox.send(Message::Rescheduled { id, outcome });
        });
    }

    /// A profile was scheduled anew, or not.
    pub(super) fn on_rescheduled(&mut self, id: &str, outcome: Outcome) {
        match outcome {
            Outcome::Done(ready) => {
                let params = ready.history.last().map(|revision| revision.params);
                tracing::info!(app = id, ?params, "scheduled anew");
                self.ready.insert(id.to_owned(), ready);
            }
            Outcome::NoEffect => self.decide(id, &Observation::NoEffect),
            Outcome::Failed(why) => {
                self.warn(format!("{id} cannot be scheduled anew: {why}"));
                self.decide(id, &Observation::NotRescheduled);
            }
        }
        self.save();
    }

    /// The learning thread has something to tell.
    pub(super) fn on_learning(&mut self, news: LiveNews) {
        match news {
            LiveNews::Ready => {
                // The kernel's type information was unpacked for it.
                self.worker.run(|_| ());
                tracing::debug!("ready to learn");
            }
            LiveNews::Done(result) => self.on_learned(*result),
            LiveNews::Failed(why) => {
                self.learner = None;
                self.state.can_learn = false;
                self.warn(format!("nothing can be learned: {why}"));
            }
        }
    }

    fn on_learned(&mut self, result: LiveResult) {
        // It learns one launch; another is started if there is another app to learn.
        self.learner = None;
        let launch = result.launch;
        self.take_lesson(result);
        self.finish(launch, None);
        self.watch_for_learning();
    }

    fn take_lesson(&mut self, result: LiveResult) {
        let Some(active) = self.active.get_mut(&result.launch) else {
            return;
        };
        active.learning = false;
        let id = active.id.clone();
        let counts = self.watch.counts(result.launch).unwrap_or_default();
        match result.lesson {
            Ok(lesson) => {
                let store = self.store.clone();
                let outbox = self.outbox.clone();
                let sequence = lesson.sequence();
                match prepare(&lesson.profile) {
                    Ok(ready) => {
                        let cold = is_cold(&counts, ready.bytes);
                        let (history, class) = (ready.history.clone(), ready.class);
                        let observation = Observation::Learned {
                            class,
                            history: &history,
                            waiting_us: cold.then_some(counts.waiting_ns / 1000),
                        };
                        active.note = Some(format!("learned {} entries", ready.entries));
                        // It counts as learned for the end of this launch, too.
                        active.plan = Plan::Learn;
                        active.learning = true;
                        self.ready.insert(id.clone(), ready);
                        self.decide(&id, &observation);
                        self.worker.run(move |_| {
                            let kept = store
                                .save_sequence(&sequence)
                                .and_then(|()| store.save(&lesson.profile).map(drop));
                            if let Err(error) = kept {
                                let why = error.to_string();
                                outbox.send(Message::NotKept { id, why });
                            }
                        });
                    }
                    Err(why) => active.note = Some(why),
                }
            }
            Err(why) => {
                active.note = Some(why.to_string());
                self.decide(&id, &Observation::NotLearned);
            }
        }
    }

    /// What was learned could not be stored: a full disk, say. It is learned at each launch until it can.
    pub(super) fn on_not_kept(&mut self, id: &str, why: String) {
        self.warn(why);
        self.decide(id, &Observation::NoProfile);
        self.save();
    }

    fn write_down(
        &mut self,
        active: &Active,
        counts: &Counts,
        exited_ns: Option<u64>,
        warmth: Option<Warmth>,
    ) {
        let until_first = counts.first_prefetch_ns.checked_sub(counts.start_ns);
        let launch = Launch {
            time_s: active.begun_s,
            app: active.id.clone(),
            kind: match active.plan {
                Plan::Learn if active.learning => Kind::Learned,
                Plan::Prefetch => Kind::Prefetched,
                Plan::Withhold => Kind::Withheld,
                Plan::Learn | Plan::Leave => Kind::Watched,
            },
            warmth,
            duration_us: duration_us(counts, exited_ns),
            waiting_us: counts.waiting_ns / 1000,
            read_bytes: counts.bytes + counts.prefetch_bytes,
            own_readaheads: counts.launch_requests(),
            switches: active.report.is_some().then_some(active.switches),
            entries: active.report.as_ref().map(|report| report.scheduled),
            until_first_us: until_first.map(|ns| ns / 1000),
            note: active.note.clone(),
        };
        tracing::info!(
            app = launch.app,
            kind = ?launch.kind,
            duration_us = launch.duration_us,
            waiting_us = launch.waiting_us,
            read_bytes = launch.read_bytes,
            own_requests = launch.own_readaheads,
            prefetched_bytes = counts.prefetch_bytes,
            note = launch.note.as_deref().unwrap_or_default(),
            "launch"
        );
        self.emit(bus::Event::Ended(record_of(&launch)));
        let outbox = self.outbox.clone();
        self.worker.run(move |records| {
            if let Some(warning) = records.add(&launch) {
                outbox.send(Message::Warning(warning));
            }
        });
    }
}

/// Stores a profile and makes it ready.
pub(super) fn keep(store: &Store, profile: &Profile) -> Result<Ready, String> {
    store.save(profile).map_err(|error| error.to_string())?;
    prepare(profile)
}

fn prepare(profile: &Profile) -> Result<Ready, String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    Ready::new(profile, &mounts).map_err(|error| error.to_string())
}

/// Whether a launch that was learned was as cold as one from which prefetching is withheld.
fn is_cold(counts: &Counts, bytes: u64) -> bool {
    let seen = Seen {
        duration_us: 0,
        waiting_us: 0,
        read_bytes: counts.bytes,
        schedule_bytes: bytes,
        own_readaheads: 0,
        prefetched: None,
    };
    seen.warmth() == Warmth::Cold
}

fn reason_word(reason: Reason) -> &'static str {
    match reason {
        Reason::Missed => "it reads too much itself",
        Reason::Obsolete => "too many entries are obsolete",
        Reason::NewExecutable => "its executable is another file",
        Reason::NoProfile => "there is no profile of it",
        Reason::Asked => "the user asked for it",
    }
}

/// Why an app is switched off, in words.
pub(super) fn off_words(off: Off) -> String {
    match off {
        Off::Asked => "the user said so".to_owned(),
        Off::NoGain {
            with_us,
            without_us,
        } => format!(
            "prefetching does not help: its cold launches wait {} ms for the drive with it, {} ms without",
            with_us / 1000,
            without_us / 1000
        ),
        Off::NothingToLearn => "its launches read nothing that could be learned".to_owned(),
    }
}

/// Whether the next launch of the app is to be learned.
pub(super) fn is_to_learn(record: &Record) -> bool {
    matches!(record.managed.phase(), Phase::Learning { .. })
}
