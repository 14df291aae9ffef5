//! The set of `dynamic`: the schedule that the service arrives at (paper §3.3).

use anyhow::{Context, Result, bail};
use paralfetch::apps::{Rules, identify_command};
use paralfetch::learn::launch_sequence;
use paralfetch::model;
use paralfetch::model::DriveClass;
use paralfetch::model::Params;
use paralfetch::model::{Profile, Revision};
use paralfetch::policy::{Phase, TunedParameter};
use paralfetch::schedule::schedule;

use super::learning::LearningResult;
use super::served::parameter;
use super::service::Service;
use super::service_state::State;
use super::work::Work;
use crate::apps::App;
use crate::methods::LearnedSet;
use crate::record::{Tuned, TuningStep};

/// Launches after which tuning is taken as it is. The shift can take at most twelve steps, and three steps
/// without gain end the tuning earlier.
const MOST_LAUNCHES: u32 = 12;

/// Recorded as the reason where the service wants to learn the app again.
const RELEARN: &str = "relearn";

impl Work {
    /// Has the service tune what was learned exactly: the app is launched cold and plainly until the
    /// service leaves the schedule as it is.
    pub(super) fn tune(&mut self, app: &App, exact: &LearnedSet) -> Result<LearningResult> {
        let program = identify_command(&Rules::builtin(), &self.program(app)?, app.uid).app;
        let profile = untuned(exact, program.clone(), self.job.class);
        let state = State::new()?;
        let store = state.store()?;
        store.save_sequence(&launch_sequence(&profile, &exact.log))?;
        store.save(&profile)?;
        let mut service = self.start_service(state, &program)?;
        let mut tuned = Tuned::default();
        while tuned.ended.is_none() && tuned.launches < MOST_LAUNCHES {
            let number = tuned.launches + 1;
            eprintln!(
                "lab: tuning {} on {}, launch {number}",
                app.name, self.job.device
            );
            let launch = self.plainly(app, &mut service)?;
            let kind = launch.served.map(|served| served.kind);
            if kind.as_deref() != Some("prefetched") {
                bail!(
                    "launch {number} was {} instead of prefetched",
                    kind.unwrap_or_default()
                );
            }
            tuned.launches = number;
            tuned.ended = ended(&service)?;
        }
        let found = service
            .profile()?
            .context("the service has lost the profile")?;
        service.stop()?;
        tuned.steps = steps(self.job.class, &found.history);
        Ok(LearningResult {
            set: LearnedSet {
                profile: found,
                ..exact.clone()
            },
            required: None,
            tuned: Some(tuned),
        })
    }
}

/// Why the service leaves the schedule as it is, once it does.
fn ended(service: &Service) -> Result<Option<String>> {
    let record = service.record()?;
    let managed = record.context("the service has forgotten the app")?.managed;
    if managed.phase() != Phase::Prefetching {
        return Ok(Some(RELEARN.to_owned()));
    }
    let Some(ended) = managed.tuning().and_then(|tuning| tuning.ended()) else {
        return Ok(None);
    };
    let word = serde_json::to_value(ended)?;
    Ok(word.as_str().map(str::to_owned))
}

/// The profile that `infill` prefetches, for the app as it is called now and a drive of this class.
fn untuned(exact: &LearnedSet, app: model::App, class: DriveClass) -> Profile {
    let mut profile = exact.profile.clone();
    let params = Params::for_device(class, true);
    profile.app = app;
    for device in &mut profile.devices {
        device.class = class;
    }
    profile.entries = schedule(&exact.log, &params);
    profile.history = vec![Revision {
        time: profile.created,
        params,
    }];
    profile
}

/// The schedules that were in force, oldest first.
fn steps(class: DriveClass, history: &[Revision]) -> Vec<TuningStep> {
    let step = |(at, revision): (usize, &Revision)| {
        let parameter = parameter(
            TunedParameter::of(class, &revision.params)?,
            &revision.params,
        )?;
        let before = &history[..at];
        let taken_back = before
            .iter()
            .any(|earlier| earlier.params == revision.params);
        Some(TuningStep {
            parameter,
            taken_back,
        })
    };
    history.iter().enumerate().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_is_told_apart() {
        let class = DriveClass::CommandQueuing;
        let revision = |kib: u64| Revision {
            time: 1,
            params: Params {
                shift_bytes: kib << 10,
                ..Params::for_device(class, true)
            },
        };
        let found = steps(class, &[64, 80, 96, 80].map(revision));
        let values: Vec<(u64, bool)> = found
            .iter()
            .map(|step| (step.parameter.value, step.taken_back))
            .collect();
        assert_eq!(values, [(64, false), (80, false), (96, false), (80, true)]);
        assert!(steps(DriveClass::Rotational, &[revision(64)]).is_empty());
    }
}
