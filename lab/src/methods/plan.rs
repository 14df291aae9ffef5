//! What a method prefetches, and in which order.

use std::sync::Arc;

use anyhow::{Context, Result};
use paralfetch::model::{DriveClass, DriveCosts, Infill};
use paralfetch::model::{LogEntry, Params, Place, PrefetchEntry, Profile, Span};
use paralfetch::schedule::{formula, metadata_shift, schedule};

use super::calls::{Calls, generate};
use super::learned::{LearnedApp, LearningRun};
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
}

/// What is known of the drive that a plan is for.
#[derive(Clone, Copy, Debug)]
pub struct PlannedDrive {
    /// Class of the drive.
    pub class: DriveClass,
    /// What its reads cost, if it was measured.
    pub costs: Option<DriveCosts>,
}

impl PlannedDrive {
    /// A drive that was not measured.
    pub fn of(class: DriveClass) -> PlannedDrive {
        PlannedDrive { class, costs: None }
    }
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

    /// The plan with a profile that is wrong in this way. For [`WrongProfile::OtherApp`] it must
    /// have been made from the other app's set.
    pub fn made_wrong(self, how: WrongProfile) -> Plan {
        Plan {
            profile: Arc::new(Profile {
                entries: how.entries(&self.profile),
                ..Profile::clone(&self.profile)
            }),
            ..self
        }
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

/// The parameters of the papers' schedules, which go in the order of accesses on every drive. Disks queue commands.
pub(super) fn in_access_order(class: DriveClass, exact: bool) -> Params {
    let class = match class {
        DriveClass::Rotational => DriveClass::CommandQueuing,
        flash => flash,
    };
    Params::for_device(class, exact)
}

/// Mobifetch's schedule (§2): entries are merged across small holes within an I/O distance, and nothing else is done to
/// the order. The paper gives no thresholds; the hole is what the class's usual drive reads in the time of a request, as in
/// [`Params::for_device`], and the distance is Paralfetch's (Table 2).
pub(super) fn mobifetch(class: DriveClass) -> Params {
    let usual = in_access_order(class, true);
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
    let learned_set = |how| {
        learned.get(how).with_context(|| {
            format!("`{method}` needs the learned set `{how}`: learn the app so first")
        })
    };
    let as_read = in_access_order(class, false);
    let exact = in_access_order(class, true);
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
        Method::Formula => {
            let costs = drive.costs.unwrap_or(DriveCosts::of_class(class));
            let log = &learned_set(LearningRun::Exact)?.log;
            let entries = schedule(log, &formula::params(&costs, true));
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
    let profile = Profile {
        entries,
        ..set.profile.clone()
    };
    Ok(Plan {
        method,
        profile: Arc::new(profile),
        calls,
        left_out: None,
    })
}

/// The plan of a sweep for a drive.
///
/// # Errors
/// Names the learned set that is missing.
pub fn swept_plan(swept: Swept, learned: &LearnedApp, drive: &PlannedDrive) -> Result<Plan> {
    let usual = plan(swept.method(), learned, drive)?;
    let set = (swept.method().needs().first()).and_then(|&how| learned.get(how));
    let set = set.with_context(|| format!("`{swept}` needs a learned set"))?;
    Ok(Plan {
        profile: Arc::new(Profile {
            entries: swept.schedule(&set.log, drive.class),
            ..set.profile.clone()
        }),
        ..usual
    })
}
