//! Judging a prefetched launch: one more, watched in full, apart from those that are measured.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};
use paralfetch::fs::mounts::MountTable;
use paralfetch::judge::{self, LiveSystem, Miss, Recorder};
use paralfetch::model::LaunchLimits;
use paralfetch::model::{Place, Span};

use super::job::Job;
use super::launcher::Request;
use super::learned_store::LearnedStore;
use super::work::{PreparedApp, Work};
use crate::apps::App;
use crate::methods::{Method, Plan};
use crate::record::{MissKind, Missed, Record};
use crate::scenarios::{Condition, Scenario};

/// The scenario that is judged: the product with its defaults.
const JUDGED: Scenario = Scenario::Prefetched(Method::Infill);

fn path(job: &Job, app: &str, scenario: Scenario) -> PathBuf {
    let name = format!("{}-{app}-{scenario}.jsonl", job.device);
    job.out.join("misses").join(name)
}

/// The scenarios in which the app can be judged and is not yet: the product's, and the launches of sweeps among those
/// that are `measured`.
pub(super) fn missing(
    job: &Job,
    measured: &[Scenario],
    app: &App,
    store: &LearnedStore,
) -> Vec<Scenario> {
    let sweeps = measured.iter().copied();
    let sweeps = sweeps.filter(|scenario| matches!(scenario, Scenario::Swept(_)));
    let learned = store.learned(Condition::Idle);
    let is_learned = |scenario: &Scenario| {
        let mut needed = scenario.method().map_or(&[][..], Method::needs).iter();
        needed.all(|&how| learned.get(how).is_some())
    };
    std::iter::once(JUDGED)
        .chain(sweeps)
        .filter(|_| job.misses && app.window.is_some())
        .filter(is_learned)
        .filter(|scenario| !path(job, &app.name, *scenario).exists())
        .collect()
}

/// Launches the app once more in a scenario that prefetches, and records what it still read itself and why.
///
/// # Errors
/// When the launch fails or cannot be recorded.
pub(super) fn record(work: &mut Work, prepared: PreparedApp<'_>, scenario: Scenario) -> Result<()> {
    let PreparedApp {
        app,
        store,
        completion,
        ..
    } = prepared;
    let method = scenario.method().context("nothing is prefetched")?;
    let plan = work.plan(method, scenario, store, completion)?;
    let bus = work.start_bus()?;
    work.launcher.empty_caches()?;
    let command = work.launcher.find(&app.command)?;
    let rule = app.window.as_ref().context("the app has no window")?;
    let windows = vec![work.display.watch(rule)?];
    let recorder = Recorder::attach(LaunchLimits::default())?;
    let started = SystemTime::now();
    let seen = work.launcher.launch(Request {
        windows,
        completion,
        plans: &[&plan],
        bus,
        mark: Some(recorder.start_mark()),
        ..Request::of(&command)
    })?;
    let mut recording = recorder.finish()?;
    // Ending the app reads, too.
    recording
        .accesses
        .retain(|access| access.time_ns <= seen.over_ns);
    let prefetched = seen.prefetched.first().and_then(Option::as_ref);
    let launch = judge::JudgedLaunch {
        start_ns: recording.start_ns,
        accesses: &recording.accesses,
        profile: &plan.profile,
        prefetch: prefetched.context("the prefetch did not say what it did")?,
    };
    let mut system = LiveSystem::new(MountTable::read()?, started);
    let misses = judge::misses(&launch, &mut system);
    write(&path(&work.job, &app.name, scenario), &misses)?;
    let missed = Missed {
        device: work.job.device.clone(),
        app: app.name.clone(),
        scenario: scenario.to_string(),
        launch_requests: misses.launch_requests,
        kinds: kinds(&misses.misses, &plan),
        others: misses.others.len() as u64,
    };
    eprintln!(
        "lab: {} {scenario} missed {}",
        app.name, misses.total.requests
    );
    work.journal.add(&Record::Missed(missed))
}

/// All misses, a line each.
fn write(path: &std::path::Path, misses: &judge::Misses) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut lines = Vec::new();
    for miss in misses.misses.iter().chain(&misses.others) {
        serde_json::to_writer(&mut lines, miss)?;
        lines.push(b'\n');
    }
    fs::File::create(path)
        .and_then(|mut file| file.write_all(&lines))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn kinds(misses: &[Miss], plan: &Plan) -> Vec<MissKind> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for miss in misses {
        let left_out = plan.left_out.is_some_and(|span| is_of(miss, &span, plan));
        let reason = if left_out {
            "left-out".to_owned()
        } else {
            miss.reason.to_string()
        };
        let of = match &miss.place {
            judge::MissedPlace::Data { .. } => "data".to_owned(),
            judge::MissedPlace::Metadata { block } => block.to_string(),
        };
        *counts.entry((reason, of)).or_default() += 1;
    }
    let mut kinds: Vec<MissKind> = counts
        .into_iter()
        .map(|((reason, of), requests)| MissKind {
            reason,
            of,
            requests,
        })
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.requests));
    kinds
}

/// Whether the request is for this data.
fn is_of(miss: &Miss, span: &Span, plan: &Plan) -> bool {
    let (judge::MissedPlace::Data { inode, .. }, Place::Data { file }) = (&miss.place, span.place)
    else {
        return false;
    };
    plan.profile.files[file as usize].ino == *inode
        && miss.start < span.end()
        && span.start < miss.start + miss.pages
}
