//! Dynamic scheduling (paper §3.3): raising one scheduling parameter from launch to launch until the
//! prefetch thread keeps ahead of the app.
//!
//! A *level* is one value of the tuned parameter ([`TunedParameter`]). After a cold, prefetched launch:
//!
//! 1. If it was slower than the fastest level so far, and so was a second launch at its level, the fastest
//!    level is restored and tuning ends. (The paper never goes back.)
//! 2. If the launch tree's context switches are no more than 5 % ([`TuningRules`]) of the read requests of a cold launch without
//!    prefetching, the prefetch thread is in time, and tuning ends with this level (paper).
//! 3. If none of the last three levels was the fastest so far, raising it further is pointless: context
//!    switches have other causes, too. The fastest level is restored and tuning ends.
//! 4. Otherwise the parameter goes up by a step (paper). At the end of its range, the fastest level is
//!    restored and tuning ends.
//!
//! One launch suffices to go up, as in the paper ("after four launches", §5.2). Two are needed to go back,
//! since a single slow launch proves little.

use serde::{Deserialize, Serialize};

use crate::model::{DriveClass, Params, Revision};
use crate::policy::launch_figures::{LaunchFigures, Warmth};
use crate::policy::tuned_parameter::{TunedParameter, TuningRules};

/// By how many percent a launch must be longer than one at the fastest level to count as slower: about the
/// spread of equal launches. All levels are compared with the fastest, so that small losses do not add up.
const SLOWER_PERCENT: u64 = 2;

/// Launches at a level that must all be slower for it to be taken back.
const LAUNCHES_TO_GO_BACK: u32 = 2;

/// Levels in a row, none of them the fastest, after which tuning ends.
const LEVELS_WITHOUT_GAIN: usize = 3;

/// Why tuning ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuningEnd {
    /// No parameter is tuned on this class of drive.
    NothingFree,
    /// The prefetch thread keeps ahead of the app.
    InTime,
    /// A step made launches slower, and was taken back.
    Slower,
    /// Several steps made launches no faster.
    NoGain,
    /// The tuned parameter is at the end of its range.
    AtLimit,
    /// The schedule could not be made anew.
    NotRescheduled,
    /// The profile's history shows that a step was taken back earlier.
    Before,
}

/// A set of parameters that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The parameters.
    pub params: Params,
    /// Cold launches with them.
    pub launches: u32,
    /// The shortest of these, in microseconds. Disturbances only make launches longer.
    pub fastest_us: u64,
}

impl Level {
    fn new(params: Params) -> Self {
        Level {
            params,
            launches: 0,
            fastest_us: u64::MAX,
        }
    }
}

/// Dynamic scheduling of one profile.
///
/// It asks for parameters and learns from the profile's history whether they came into force, so
/// that a crash between the two does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    class: DriveClass,
    /// Levels that were in force, oldest first. Empty for a profile without parameters.
    levels: Vec<Level>,
    /// The parameters that should be in force, if they are not those of the last level.
    wanted: Option<Params>,
    ended: Option<TuningEnd>,
}

impl Tuning {
    /// Starts with the parameters in force: the last of `history`, the profile's
    /// ([`crate::model::Profile::history`]). `class` is the class of the drive that it was scheduled
    /// for, the one that holds most of its pages.
    ///
    /// Also to start over where this state was lost. If the parameters in force stood in the history
    /// before, a step was taken back, and there is nothing left to try.
    pub fn new(class: DriveClass, history: &[Revision]) -> Self {
        let Some((last, before)) = history.split_last() else {
            return Tuning {
                class,
                levels: Vec::new(),
                wanted: None,
                ended: Some(TuningEnd::NothingFree),
            };
        };
        let taken_back = before.iter().any(|earlier| earlier.params == last.params);
        let ended = match TunedParameter::of(class, &last.params) {
            None => Some(TuningEnd::NothingFree),
            Some(_) if taken_back => Some(TuningEnd::Before),
            Some(_) => None,
        };
        Tuning {
            class,
            levels: vec![Level::new(last.params)],
            wanted: None,
            ended,
        }
    }

    /// Takes the figures of a launch that was prefetched with the last parameters in `history`. A cold launch
    /// without prefetching makes `cold_requests`. Returns the parameters to schedule anew with, or `None` to leave
    /// the schedule as it is. Launches that were not
    /// cold, or not prefetched, change nothing.
    pub fn next(
        &mut self,
        history: &[Revision],
        figures: &LaunchFigures,
        cold_requests: u64,
        rules: &TuningRules,
    ) -> Option<Params> {
        let in_force = history.last()?.params;
        self.recognise(in_force, history);
        if self.ended.is_some() {
            // Asked for again, in case a crash has prevented it.
            return self.wanted;
        }
        if !figures.is_prefetched() || figures.warmth() != Warmth::Cold {
            return None;
        }
        let in_time = u128::from(figures.switches) * 100
            <= u128::from(cold_requests) * u128::from(rules.in_time_percent);
        // Without a time, levels cannot be compared with each other.
        self.judge(figures.took_us()?, in_time, rules)
    }

    /// The parameters to try instead of the last ones if those would not change the schedule, so that no
    /// launch is wasted on them.
    pub fn no_effect(&mut self, rules: &TuningRules) -> Option<Params> {
        let wanted = self.wanted.take()?;
        match self.ended {
            None => self.raise(&wanted, rules),
            Some(_) => None,
        }
    }

    /// The last step could not be made, since disk positions or the launch sequence are missing. Ends tuning with the parameters in force.
    pub fn not_rescheduled(&mut self) {
        if self.wanted.take().is_some() {
            self.ended = Some(TuningEnd::NotRescheduled);
        }
    }

    /// Why tuning ended, if it has.
    pub fn ended(&self) -> Option<TuningEnd> {
        self.ended
    }

    /// The parameters that were asked for last, unless they were found in force at a launch since.
    pub fn wanted(&self) -> Option<Params> {
        self.wanted
    }

    /// The levels that were tried, oldest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The class of drive that the profile was scheduled for.
    pub fn class(&self) -> DriveClass {
        self.class
    }

    /// Brings the state in line with the parameters that really are in force.
    fn recognise(&mut self, in_force: Params, history: &[Revision]) {
        if self.wanted == Some(in_force) {
            self.wanted = None;
            if self.ended.is_none() {
                self.levels.push(Level::new(in_force));
            }
        } else if !self.levels.iter().any(|level| level.params == in_force) {
            // Another program has made this schedule.
            *self = Tuning::new(self.class, history);
        } else if self.ended.is_none() {
            // The step that was asked for did not happen: judge the level once more.
            self.wanted = None;
        }
    }

    fn judge(&mut self, duration_us: u64, in_time: bool, rules: &TuningRules) -> Option<Params> {
        let level = self.levels.last_mut()?;
        level.launches = level.launches.saturating_add(1);
        level.fastest_us = level.fastest_us.min(duration_us);
        let level = *level;
        let (at, fastest) = self.fastest(level);
        let bound = u128::from(fastest.fastest_us) * u128::from(100 + SLOWER_PERCENT);
        if u128::from(level.fastest_us) * 100 > bound {
            if level.launches < LAUNCHES_TO_GO_BACK {
                return None;
            }
            return self.end(TuningEnd::Slower);
        }
        if in_time {
            self.ended = Some(TuningEnd::InTime);
            return None;
        }
        if self.levels.len() - at > LEVELS_WITHOUT_GAIN {
            return self.end(TuningEnd::NoGain);
        }
        self.raise(&level.params, rules)
    }

    /// The fastest level (the oldest of equals) and its index; `level` if there are no levels.
    fn fastest(&self, level: Level) -> (usize, Level) {
        let levels = self.levels.iter().copied().enumerate();
        levels
            .min_by_key(|(_, level)| level.fastest_us)
            .unwrap_or((0, level))
    }

    fn raise(&mut self, from: &Params, rules: &TuningRules) -> Option<Params> {
        match TunedParameter::of(self.class, from).and_then(|tuned| tuned.raise(from, rules)) {
            Some(raised) => {
                self.wanted = Some(raised);
                Some(raised)
            }
            None => self.end(TuningEnd::AtLimit),
        }
    }

    /// Ends tuning with the fastest level.
    fn end(&mut self, why: TuningEnd) -> Option<Params> {
        self.ended = Some(why);
        let level = *self.levels.last()?;
        let fastest = self.fastest(level).1.params;
        self.wanted = (fastest != level.params).then_some(fastest);
        self.wanted
    }
}

#[cfg(test)]
mod tests;
