//! Making a profile of what was traced of a launch.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::completion_page::completion_page;
use crate::drive::Sysfs;
use crate::fs::mounts::MountTable;
use crate::kernel::Trace;
use crate::learn::cold::{LearnSummary, LearnedProfile, NotLearned};
use crate::learn::sequence::{Earlier, Observed, Requirements, Sequence, resolve};
use crate::model::{App, Ended, Learned, Params, Profile, Revision};
use crate::process::LaunchOver;
use crate::schedule::schedule;

/// A traced launch, apart from its trace.
pub(super) struct Watched {
    pub app: App,
    pub over: LaunchOver,
    pub started: SystemTime,
    pub how: Learned,
    pub exact_faults: bool,
    pub earlier: Earlier,
    pub sysfs: Sysfs,
}

/// Makes the profile: resolves the trace to a launch sequence and schedules it.
///
/// # Errors
/// [`NotLearned::Nothing`] if nothing of the launch can be prefetched.
pub(super) fn build_profile(
    launch: Watched,
    trace: &Trace,
    mounts: &MountTable,
) -> Result<LearnedProfile, NotLearned> {
    let Watched {
        app,
        over,
        started,
        how,
        exact_faults,
        earlier,
        sysfs,
    } = launch;
    let end_ns = end_of_launch(trace, over);
    let duration = Duration::from_nanos(end_ns.saturating_sub(trace.start_ns));
    let clock = std::time::Instant::now();
    let observed = Observed {
        accesses: &trace.accesses,
        paths: &trace.paths,
        namespaces: &trace.namespaces,
        start_ns: trace.start_ns,
        started,
        touches: how == Learned::Live,
        earlier: &earlier,
    };
    let sequence = resolve(&observed, mounts, &|dev| sysfs.class(dev));
    let required = Requirements::of(&sequence, trace.hooks.faults.sees());
    let Sequence {
        devices,
        files,
        log,
        unread,
        fault_around,
        helpers,
        report,
        ..
    } = sequence;
    let resolving = clock.elapsed();
    if log.is_empty() {
        let reasons: Vec<String> = report.left_out_lines();
        let why = if reasons.is_empty() {
            String::new()
        } else {
            format!(" (left out: {})", reasons.join("; "))
        };
        return Err(NotLearned::Nothing(why));
    }

    let clock = std::time::Instant::now();
    // One set of parameters for all devices: that of the drive from which most of the launch is read.
    let mut pages = vec![0; devices.len()];
    for entry in &log {
        pages[usize::from(entry.device)] += entry.span.len;
    }
    let main_device = (0..devices.len())
        .max_by_key(|&device| pages[device])
        .unwrap_or(0);
    let params = Params::for_device(devices[main_device].class, how.is_touched());
    let entries = schedule(&log, &params);
    let scheduling = clock.elapsed();

    let created = started
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let completion = completion_page(&log, duration);
    let profile = Profile {
        app,
        created,
        learned: how,
        ended: over.ended,
        hooks: trace.hooks,
        history: vec![Revision {
            time: created,
            params,
        }],
        devices,
        files,
        entries,
        fault_around,
        helpers,
        completion,
        log_entries: log.len() as u32,
        obsolete: 0,
    };
    let summary = LearnSummary {
        duration,
        resolved: report,
        required,
        resolving,
        scheduling,
        exact_faults,
        lost_paths: trace.lost_paths,
    };
    Ok(LearnedProfile {
        profile,
        log,
        unread,
        summary,
    })
}

/// When the launch ended, CLOCK_MONOTONIC in nanoseconds: at its completion block, if it fell quiet. Reads in
/// the quiet window after that are learned all the same.
fn end_of_launch(trace: &Trace, over: LaunchOver) -> u64 {
    let last_ns = trace
        .accesses
        .last()
        .map_or(trace.start_ns, |access| access.time_ns);
    let end_ns = match over.ended {
        Ended::Exit => trace.exit_ns,
        Ended::Quiet => over.completion_ns,
        Ended::Timeout => None,
    };
    end_ns.unwrap_or(last_ns)
}
