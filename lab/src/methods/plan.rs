//! What a method prefetches, and in which order.

use std::sync::Arc;

use anyhow::{Context, Result};
use paralfetch::model::DriveClass;
use paralfetch::model::Profile;
use paralfetch::model::{LogEntry, Params, Place, PrefetchEntry, Span};
use paralfetch::schedule::{metadata_shift, schedule};

use super::calls::{Calls, generate};
use super::learned::{LearnedApp, LearningRun};
use super::method::Method;
use super::order::{by_inode, by_position, one_by_one};
use super::pages::{Completion, common_sequence};

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

impl Plan {
    /// The plan without the block that launches are timed by, so that the app reads it itself. A plan
    /// whose launches never read that file stays as it is.
    pub fn without(self, completion: &Completion) -> Plan {
        Plan {
            left_out: completion.span_in(&self.profile),
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

/// Makes the plan of a method for a drive of this class.
///
/// # Errors
/// Names the learned set that is missing.
pub fn plan(method: Method, learned: &LearnedApp, class: DriveClass) -> Result<Plan> {
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
        Method::Exact => {
            let params = Params {
                infill: None,
                ..exact
            };
            let log = &learned_set(LearningRun::Exact)?.log;
            (LearningRun::Exact, schedule(log, &params), None)
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
    let profile = Profile {
        entries,
        ..learned_set(how)?.profile.clone()
    };
    Ok(Plan {
        method,
        profile: Arc::new(profile),
        calls,
        left_out: None,
    })
}
