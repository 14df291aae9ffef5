//! The phases of one app (paper §4.1 and §4.3).

use serde::{Deserialize, Serialize};

use super::cold_requests::ColdRequests;
use super::dynamic::Tuning;
use super::gain::{Gain, GainVerdict, TypicalTimes};
use super::learned_launches::LearnedLaunches;
use super::no_gain::{NoGainFacts, NoGainReason};
use super::relearn::Relearning;
use super::tuned_parameter::TuningRules;
use super::usual_reads::UsualReads;
use crate::model::{DriveClass, MissedRequests, Revision};
use crate::policy::launch_figures::{LaunchFigures, Warmth};
use crate::policy::types::{Decision, DecisionReason, Observation, Off, Phase, PhaseRequest, Plan};

/// Launches in a row from which nothing could be learned after which learning is given up: the old profile is
/// used, if there is one, or else the app is switched off.
const LEARNING_ATTEMPTS: u32 = 3;

/// Seconds after which an app that was switched off by itself is learned again: apps are updated, and
/// drives replaced.
const RETRY_AFTER_S: u64 = 30 * 24 * 60 * 60;

/// Share of obsolete entries, in percent, from which the app is learned again: that of the 10 % rule,
/// since each will probably be a read of the app's own.
const OBSOLETE_PERCENT: u64 = 10;

/// A managed app: what is remembered of its launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Managed {
    phase: Phase,
    /// Why it was to be learned again, the last time.
    #[serde(default)]
    again: Option<DecisionReason>,
    /// Dynamic scheduling of the profile; `None` without a profile.
    tuning: Option<Tuning>,
    gain: Gain,
    #[serde(default)]
    cold_requests: ColdRequests,
    #[serde(default)]
    usual_reads: UsualReads,
    relearning: Relearning,
    /// A drive was measured, and the profile is not scheduled for that yet.
    #[serde(default)]
    schedule_is_due: bool,
    #[serde(default)]
    learned: LearnedLaunches,
    /// Whether the last launch found replaced files, so that they were looked up again.
    #[serde(default)]
    stale: bool,
}

impl Default for Managed {
    /// An app that has not been learned yet.
    fn default() -> Self {
        Managed {
            phase: Phase::Learning { attempts: 0 },
            again: None,
            tuning: None,
            gain: Gain::default(),
            cold_requests: ColdRequests::default(),
            usual_reads: UsualReads::default(),
            relearning: Relearning::default(),
            schedule_is_due: false,
            learned: LearnedLaunches::default(),
            stale: false,
        }
    }
}

impl Managed {
    /// An app that has a profile, and of which nothing else is remembered.
    pub fn with_profile(class: DriveClass, history: &[Revision]) -> Self {
        Managed {
            phase: Phase::Prefetching,
            tuning: Some(Tuning::new(class, history)),
            ..Managed::default()
        }
    }

    /// The phase that the app is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Why the app is being learned again; `None` if it is not.
    pub fn learned_again_for(&self) -> Option<DecisionReason> {
        let is_learning = matches!(self.phase, Phase::Learning { .. });
        self.again.filter(|_| is_learning)
    }

    /// Dynamic scheduling of the profile, if there is one.
    pub fn tuning(&self) -> Option<&Tuning> {
        self.tuning.as_ref()
    }

    /// Whether no launch was learned from its beginning on ([`LearnedLaunches::is_partial`]).
    pub fn is_learned_in_part(&self) -> bool {
        self.learned.is_partial()
    }

    /// What is typical of the launches that the gain is told from.
    pub fn typical_times(&self) -> TypicalTimes {
        self.gain.typical()
    }

    /// The most that the app's last prefetched launches read, in bytes; 0 before the first.
    pub fn usual_bytes(&self) -> u64 {
        self.usual_reads.most()
    }

    /// Launches are timed by other completion pages from now on.
    pub fn timed_anew(&mut self) {
        self.gain.timed_anew();
    }

    /// What the launches show of an app that is not faster.
    pub fn no_gain_facts(&self) -> NoGainFacts {
        NoGainFacts {
            without_us: self.gain.typical().without_us.unwrap_or(0),
            waiting_us: self.gain.waiting_without_us(),
            requests: self.cold_requests.typical(),
            ..NoGainFacts::default()
        }
    }

    /// Notes why the app is not faster, if it is switched off for that. Returns why it is switched off.
    pub fn explain_no_gain(&mut self, reason: Option<NoGainReason>) -> Option<Off> {
        let Phase::Disabled { off, .. } = &mut self.phase else {
            return None;
        };
        if let Off::NoGain { why, .. } = off {
            *why = reason;
        }
        Some(*off)
    }

    /// What to do with a launch that begins now, at `now_s` seconds since the epoch. `random` is any
    /// number without a pattern.
    pub fn plan(&mut self, now_s: u64, random: u64) -> Plan {
        if let Phase::Disabled { off, since_s } = &mut self.phase {
            // A clock that was ahead and has been corrected must not keep it off for years.
            *since_s = now_s.min(*since_s);
            let is_final = matches!(off, Off::Asked | Off::StartsOthers);
            if is_final || now_s - *since_s < RETRY_AFTER_S {
                return Plan::Leave;
            }
            self.learn();
        }
        match self.phase {
            Phase::Learning { .. } => Plan::Learn,
            Phase::Prefetching if self.gain.withhold(random) => Plan::Withhold,
            Phase::Prefetching => Plan::Prefetch,
            Phase::Disabled { .. } => Plan::Leave,
        }
    }

    /// Takes what happened, at `now_s` seconds since the epoch, and decides. What comes too late for
    /// the phase that the app is in by then changes nothing.
    pub fn next(&mut self, now_s: u64, observation: &Observation<'_>) -> Decision {
        match *observation {
            Observation::Learned {
                class,
                history,
                cold,
                pages,
                is_whole,
                most,
            } => {
                self.tuning = Some(Tuning::new(class, history));
                self.gain.new_profile();
                self.schedule_is_due = false;
                if let Some(cold) = cold {
                    self.gain.learned(cold.took_us, cold.waiting_us);
                    self.cold_requests.measured(cold.requests);
                }
                let again = self.learned.learned(now_s, pages, is_whole, most);
                if let Phase::Learning { attempts } = &mut self.phase {
                    match again {
                        true => *attempts = 0,
                        false => self.phase = Phase::Prefetching,
                    }
                }
                Decision::Keep
            }
            Observation::NotLearned => self.not_learned(now_s),
            Observation::Asked(request) => self.asked(request, now_s),
            Observation::StartsOthers => self.switch_off(Off::StartsOthers, now_s),
            Observation::NoProfile => {
                self.tuning = None;
                match self.phase {
                    Phase::Prefetching => self.relearn(DecisionReason::NoProfile),
                    Phase::Learning { .. } | Phase::Disabled { .. } => Decision::Keep,
                }
            }
            Observation::NewExecutable if matches!(self.phase, Phase::Learning { .. }) => {
                // What was learned of the one before does not count.
                self.learned.anew();
                Decision::Keep
            }
            _ if self.phase != Phase::Prefetching => Decision::Keep,
            Observation::Launched {
                history,
                figures,
                rules,
            } => self.launched(now_s, history, figures, &rules),
            Observation::NoEffect(rules) => {
                let tuning = self.tuning.as_mut();
                let params = tuning.and_then(|tuning| tuning.no_effect(&rules));
                params.map_or(Decision::Keep, Decision::Reschedule)
            }
            Observation::NotRescheduled => {
                if let Some(tuning) = &mut self.tuning {
                    tuning.not_rescheduled();
                }
                Decision::Keep
            }
            Observation::Checked { obsolete, entries } => {
                let most = u128::from(entries) * u128::from(OBSOLETE_PERCENT);
                // Files that are replaced between all launches were found again, and learning does not change that.
                if u128::from(obsolete) * 100 <= most || !self.relearning.add_bad() {
                    return Decision::Keep;
                }
                self.relearn(DecisionReason::Obsolete)
            }
            Observation::NewExecutable => self.relearn(DecisionReason::NewExecutable),
        }
    }

    /// A drive of the profile was measured: its numbers may ask for another schedule.
    pub fn drive_measured(&mut self) {
        self.schedule_is_due = true;
    }

    /// Whether the profile is to be scheduled for what its drives were measured to cost.
    pub fn is_schedule_due(&self) -> bool {
        self.schedule_is_due
    }

    /// The profile is scheduled for its drives.
    pub fn schedule_is_made(&mut self) {
        self.schedule_is_due = false;
    }

    /// The profile is scheduled by other parameters, which its drives ask for: tuning begins anew.
    pub fn scheduled_for(&mut self, class: DriveClass, history: &[Revision]) {
        self.tuning = Some(Tuning::new(class, history));
    }

    /// Read requests of a cold launch without prefetching: as measured, or else estimated.
    fn cold_requests(&self, figures: &LaunchFigures) -> u64 {
        self.cold_requests
            .typical()
            .unwrap_or(figures.cold_requests)
    }

    /// First checks whether the profile is wrong, then whether it is of any use, and only then how it could
    /// be better. One whose waits were not counted, as of a launch that is over before that begins, says nothing of the last:
    /// tuning compares switches.
    fn launched(
        &mut self,
        now_s: u64,
        history: &[Revision],
        figures: &LaunchFigures,
        rules: &TuningRules,
    ) -> Decision {
        let warmth = figures.warmth();
        let Some(report) = &figures.report else {
            self.gain
                .withheld(warmth, figures.took_us(), figures.waiting_us());
            if warmth == Warmth::Cold {
                self.cold_requests.measured(figures.own_readaheads());
            }
            return self.judge_gain(now_s);
        };
        if let Some(delay) = report.slow_opens {
            let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
            return self.switch_off(Off::SlowOpens { delay_us }, now_s);
        }
        let cold_requests = self.cold_requests(figures);
        let mut is_due = false;
        if figures.is_prefetched() {
            if warmth != Warmth::Warm {
                self.usual_reads.read(figures.read_bytes());
            }
            is_due = self.learned.prefetched(now_s);
            self.gain
                .prefetched(warmth, figures.took_us(), figures.waiting_us());
            // Where the launch read little itself, it does not matter for what.
            let missed = match Relearning::are_many(figures.own_readaheads(), cold_requests) {
                true => figures.missed,
                false => Some(MissedRequests::default()),
            };
            // A warm launch misses nothing, whatever the profile is worth.
            if let Some(missed) = missed.filter(|_| warmth != Warmth::Warm)
                && self.relearning.next(&missed, cold_requests)
            {
                return self.relearn(DecisionReason::Missed(missed));
            }
        }
        // An app that replaces one of its files at every launch is judged and tuned nevertheless.
        let is_stale = report.stale_files > 0;
        let was_stale = std::mem::replace(&mut self.stale, is_stale);
        if is_stale && !was_stale {
            return Decision::Refresh;
        }
        match self.judge_gain(now_s) {
            Decision::Keep => {}
            decision => return decision,
        }
        let tuning = self.tuning.as_mut();
        let tuning = tuning.filter(|_| figures.counts.waits_counted);
        match tuning.and_then(|tuning| tuning.next(history, figures, cold_requests, rules)) {
            Some(params) => Decision::Reschedule(params),
            None if is_due => self.learn_next(DecisionReason::Periodic),
            None if is_stale => Decision::Refresh,
            None => Decision::Keep,
        }
    }

    fn judge_gain(&mut self, now_s: u64) -> Decision {
        let GainVerdict::DoesNotHelp {
            with_us,
            without_us,
        } = self.gain.verdict()
        else {
            return Decision::Keep;
        };
        let off = Off::NoGain {
            with_us,
            without_us,
            why: None,
        };
        self.switch_off(off, now_s)
    }

    fn not_learned(&mut self, now_s: u64) -> Decision {
        let Phase::Learning { attempts } = &mut self.phase else {
            return Decision::Keep;
        };
        *attempts = attempts.saturating_add(1);
        if *attempts < LEARNING_ATTEMPTS {
            return Decision::Keep;
        }
        if self.tuning.is_some() {
            self.phase = Phase::Prefetching;
            return Decision::Keep;
        }
        self.switch_off(Off::NothingToLearn, now_s)
    }

    fn asked(&mut self, request: PhaseRequest, now_s: u64) -> Decision {
        // The user's request overrules the figures.
        self.gain = Gain::default();
        self.relearning = Relearning::default();
        match request {
            PhaseRequest::Disable => return self.switch_off(Off::Asked, now_s),
            PhaseRequest::Prefetch if self.tuning.is_some() => {
                self.phase = Phase::Prefetching;
                return Decision::Keep;
            }
            PhaseRequest::Learn | PhaseRequest::Prefetch => {}
        }
        self.relearn(DecisionReason::Asked)
    }

    fn relearn(&mut self, reason: DecisionReason) -> Decision {
        self.learned.anew();
        self.learn_next(reason)
    }

    fn learn_next(&mut self, reason: DecisionReason) -> Decision {
        self.phase = Phase::Learning { attempts: 0 };
        self.again = Some(reason);
        Decision::Relearn(reason)
    }

    /// Starts over after a time switched off, with the old profile.
    fn learn(&mut self) {
        self.phase = Phase::Learning { attempts: 0 };
        self.again = None;
        self.gain = Gain::default();
        self.relearning = Relearning::default();
        self.learned.anew();
    }

    fn switch_off(&mut self, off: Off, now_s: u64) -> Decision {
        self.phase = Phase::Disabled {
            off,
            since_s: now_s,
        };
        Decision::SwitchedOff(off)
    }
}

#[cfg(test)]
mod tests;
