//! What a method prefetches, and in which order.

use std::sync::Arc;

use anyhow::{Context, Result};
use paralfetch::model::{DeviceParams, DriveClass, DriveModel, Infill};
use paralfetch::model::{LogEntry, Params, Place, PrefetchEntry, Profile, Span};
use paralfetch::schedule::{
    Choices, ChosenSchedule, Elevator, Holding, LaunchSimulator, choose, metadata_shift, schedule,
};

use super::calls::{Calls, generate};
use super::learned::{LearnedApp, LearnedSet, LearningRun};
use super::method::Method;
use super::order::{by_inode, by_position, one_by_one};
use super::pages::{Completion, common_sequence};
use super::swept::Swept;
use super::wrong::WrongProfile;

/// The schedule for a launch.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By which method.
    pub method: Method,
    /// The tables of files and devices, and the entries in prefetch order. For `fast`, the entries
    /// are the sequence that its calls replay. Shared, so that starting takes no copy.
    pub profile: Arc<Profile>,
    /// What `fast` does instead of reading the entries ahead.
    pub calls: Option<Arc<Calls>>,
    /// Pages that are not prefetched: the completion block.
    pub left_out: Option<Span>,
    /// The app is held until so many entries, from the start, have arrived.
    pub held: usize,
    /// What a simulation predicts, if one has chosen the schedule.
    pub chosen: Option<Arc<ChosenSchedule>>,
    /// When a simulation expects the launch to end, as [`PlannedDrive::predict`].
    pub predicted: Option<f64>,
}

/// What is known of the drive that a plan is for.
#[derive(Clone, Debug)]
pub struct PlannedDrive {
    /// Its class.
    pub class: DriveClass,
    /// Its model, if it was measured.
    pub model: Option<DriveModel>,
    /// What its I/O scheduler does.
    pub elevator: Elevator,
}

impl PlannedDrive {
    /// A drive that was not measured.
    pub fn of(class: DriveClass) -> PlannedDrive {
        PlannedDrive {
            class,
            model: None,
            elevator: Elevator::default(),
        }
    }

    /// The best schedule of a set by simulation.
    fn choose(&self, set: &LearnedSet, holding: Holding) -> ChosenSchedule {
        let params = Params::for_device(self.class, true);
        let model = self.model.clone();
        let model = model.unwrap_or_else(|| DriveModel::guess(self.class));
        let models = models(model, set);
        let choices = Choices {
            usual: &DeviceParams::uniform(params),
            params,
            learned: set.profile.learned,
            over_at: completed_at(set),
            elevator: self.elevator,
            holding,
        };
        choose(&set.log, &models, &choices)
    }

    /// When a simulation expects the launch to end, in seconds: with its main window where the learned launch had one.
    /// `None` for a drive that was not measured. The app is held for the first `held` entries.
    pub fn predict(&self, set: &LearnedSet, entries: &[PrefetchEntry], held: usize) -> Option<f64> {
        let models = models(self.model.clone()?, set);
        let launch = LaunchSimulator::new(&set.log, &models, set.profile.learned)
            .with_elevator(self.elevator);
        let done = launch.simulate(entries, held);
        let over_us = over_at(set).and_then(|access| done.accessed_us.get(access));
        Some(over_us.copied().unwrap_or(done.end_us) / 1e6)
    }

    /// When a simulation expects all entries to have arrived, in seconds, while no app runs.
    pub fn predict_alone(&self, set: &LearnedSet, entries: &[PrefetchEntry]) -> Option<f64> {
        let models = models(self.model.clone()?, set);
        let launch = LaunchSimulator::new(&set.log, &models, set.profile.learned)
            .with_elevator(self.elevator);
        Some(launch.simulate(entries, entries.len()).held_us / 1e6)
    }
}

/// The access in the log of a set with which the service would call its launch complete. The main window comes earlier, and
/// does not tell what it needs: in a prefetched launch, threads that waited for the drive in the lesson go on sooner, and
/// read before the window what the lesson has seen behind it.
fn completed_at(set: &LearnedSet) -> Option<usize> {
    let page = set.profile.completion?;
    set.log.iter().position(|entry| entry.span.holds(page))
}

/// The last access before the main window, in the log of a set that was learned with one.
fn over_at(set: &LearnedSet) -> Option<usize> {
    let window_us = set.window?.as_micros();
    let before = |entry: &LogEntry| u128::from(entry.time_us) <= window_us;
    set.log.iter().rposition(before)
}

/// The model for each device of a set.
fn models(model: DriveModel, set: &LearnedSet) -> Vec<DriveModel> {
    vec![model; set.profile.devices.len()]
}

impl Plan {
    /// The plan without the block that launches are timed by, so that the app reads it itself. A plan
    /// whose launches never read that file stays as it is.
    pub fn without(self, completion: &Completion) -> Plan {
        Plan {
            left_out: completion.span_in(&self.profile),
            ..self
        }
    }

    /// The plan with a profile that is wrong in this way; no simulation knows what that costs. For
    /// [`WrongProfile::OtherApp`] it must have been made from the other app's set.
    pub fn made_wrong(self, how: WrongProfile) -> Plan {
        Plan {
            profile: Arc::new(Profile {
                entries: how.entries(&self.profile),
                ..Profile::clone(&self.profile)
            }),
            predicted: None,
            ..self
        }
    }

    /// The part that the app is held for and the rest, if both have entries.
    pub fn split(&self) -> Option<(Plan, Plan)> {
        let entries = &self.profile.entries;
        if self.held == 0 || self.held >= entries.len() {
            return None;
        }
        let part = |entries: &[PrefetchEntry], held| Plan {
            profile: Arc::new(Profile {
                entries: entries.to_vec(),
                ..Profile::clone(&self.profile)
            }),
            held,
            ..self.clone()
        };
        let (first, rest) = entries.split_at(self.held);
        Some((part(first, first.len()), part(rest, 0)))
    }

    /// Pages of metadata and of file data that the plan names, the left out one among them.
    pub fn pages(&self) -> (u64, u64) {
        let mut pages = (0, 0);
        for PrefetchEntry { span, .. } in &self.profile.entries {
            match span.place {
                Place::Metadata { .. } => pages.0 += span.len,
                Place::Data { .. } => pages.1 += span.len,
            }
        }
        pages
    }
}

/// Mobifetch's schedule (§2): entries are merged across small holes within an I/O distance, and nothing else is done to
/// the order. The paper gives no thresholds; the hole is what the class's usual drive reads in the time of a request, as in
/// [`Params::for_device`], and the distance is Paralfetch's (Table 2).
pub(super) fn mobifetch(class: DriveClass) -> Params {
    let usual = Params::for_device(class, true);
    Params {
        shift_bytes: 0,
        infill: usual.infill.map(|infill| Infill {
            distance: usual.merge_distance,
            ..infill
        }),
        ..usual
    }
}

/// Makes the plan of a method for a drive.
///
/// # Errors
/// Names the learned set that is missing.
pub fn plan(method: Method, learned: &LearnedApp, drive: &PlannedDrive) -> Result<Plan> {
    let class = drive.class;
    let mut chosen = None;
    let learned_set = |how| {
        learned.get(how).with_context(|| {
            format!("`{method}` needs the learned set `{how}`: learn the app so first")
        })
    };
    let as_read = Params::for_device(class, false);
    let exact = Params::for_device(class, true);
    let (how, entries, calls) = match method {
        Method::OnlyAsRead | Method::ShiftMerge => {
            let log = &learned_set(LearningRun::AsRead)?.log;
            (LearningRun::AsRead, schedule(log, &as_read), None)
        }
        Method::OnlyExact | Method::Infill => {
            let log = &learned_set(LearningRun::Exact)?.log;
            (LearningRun::Exact, schedule(log, &exact), None)
        }
        Method::Mobifetch => {
            let set = learned_set(LearningRun::AsRead)?;
            let entries = schedule(&set.log, &mobifetch(class));
            (LearningRun::AsRead, entries, None)
        }
        Method::Exact => {
            let params = Params {
                infill: None,
                ..exact
            };
            let log = &learned_set(LearningRun::Exact)?.log;
            (LearningRun::Exact, schedule(log, &params), None)
        }
        Method::Regions | Method::RegionsHeld => {
            let set = learned_set(LearningRun::Exact)?;
            let holding = match method {
                Method::RegionsHeld => Holding::Always,
                // As the product does.
                _ => Holding::WhereItGains,
            };
            let found = drive.choose(set, holding);
            let entries = found.entries.clone();
            chosen = Some(Arc::new(found));
            (LearningRun::Exact, entries, None)
        }
        Method::Dynamic => {
            let entries = learned_set(LearningRun::Dynamic)?.profile.entries.clone();
            (LearningRun::Dynamic, entries, None)
        }
        Method::Gsoc => {
            let set = learned_set(LearningRun::Exact)?;
            (LearningRun::Exact, by_inode(&set.profile, &set.log), None)
        }
        Method::Sorted => {
            let log = &learned_set(LearningRun::AsRead)?.log;
            (LearningRun::AsRead, by_position(log), None)
        }
        Method::Traced => {
            let log = &learned_set(LearningRun::AsRead)?.log;
            (LearningRun::AsRead, one_by_one(log), None)
        }
        Method::Shift => {
            let shifted =
                metadata_shift(&learned_set(LearningRun::AsRead)?.log, as_read.shift_bytes);
            (LearningRun::AsRead, one_by_one(&shifted), None)
        }
        Method::Fast => {
            let (first, second) = (
                learned_set(LearningRun::AsRead)?,
                learned_set(LearningRun::AsReadAgain)?,
            );
            let map = learned.blocks.as_ref().context(
                "`fast` needs the map from blocks to paths: make it with BlockMap::read \
                 after the as-read sets",
            )?;
            let sequence: Vec<LogEntry> = common_sequence(first, second);
            let calls = generate(&sequence, &first.profile, map);
            (
                LearningRun::AsRead,
                one_by_one(&sequence),
                Some(Arc::new(calls)),
            )
        }
    };
    let set = learned_set(how)?;
    let held = match method.held() {
        true => entries.len(),
        false => chosen.as_ref().map_or(0, |chosen| chosen.held),
    };
    // By path, and waiting for each: no simulation does that.
    let is_simulated = method != Method::Fast && !set.log.is_empty();
    let predicted = match method.alone() {
        _ if !is_simulated => None,
        true => drive.predict_alone(set, &entries),
        false => drive.predict(set, &entries, held),
    };
    let profile = Profile {
        entries,
        // The plan says what the app is held for.
        hold: None,
        ..set.profile.clone()
    };
    Ok(Plan {
        method,
        profile: Arc::new(profile),
        calls,
        left_out: None,
        held,
        chosen,
        predicted,
    })
}

/// The plan of a sweep for a drive, beside an app or `alone`.
///
/// # Errors
/// Names the learned set that is missing.
pub fn swept_plan(
    swept: Swept,
    learned: &LearnedApp,
    drive: &PlannedDrive,
    alone: bool,
) -> Result<Plan> {
    let usual = plan(swept.method(), learned, drive)?;
    let set = (swept.method().needs().first()).and_then(|&how| learned.get(how));
    let set = set.with_context(|| format!("`{swept}` needs a learned set"))?;
    let entries = swept.schedule(&set.log, drive.class);
    let predicted = match alone {
        true => drive.predict_alone(set, &entries),
        false => drive.predict(set, &entries, 0),
    };
    Ok(Plan {
        profile: Arc::new(Profile {
            entries,
            hold: None,
            ..set.profile.clone()
        }),
        predicted,
        ..usual
    })
}
