//! Recording timelines: launches that are watched in full, apart from those that are measured.

use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::job::Job;
use super::launcher::Request;
use super::learned_store::LearnedStore;
use super::work::{PreparedApp, Work};
use super::writer::WrittenDrive;
use crate::apps::App;
use crate::methods::{LearningRun, Method, Plan};
use crate::scenarios::{Condition, Scenario};
use crate::timeline::{Facts, Recorder, analyse};

/// The scenarios that are shown, and the set that the launch sequence is taken from. Those with a writer, and what the
/// formula makes of the drive's costs, are shown where they are measured.
const SHOWN: [(Scenario, LearningRun); 6] = [
    (Scenario::Cold, LearningRun::Exact),
    (
        Scenario::Prefetched(Method::ShiftMerge),
        LearningRun::AsRead,
    ),
    (Scenario::Prefetched(Method::Infill), LearningRun::Exact),
    (Scenario::Prefetched(Method::Formula), LearningRun::Exact),
    (Scenario::WriterCold, LearningRun::Exact),
    (Scenario::WriterPrefetch, LearningRun::Exact),
];

fn path(job: &Job, app: &str, scenario: Scenario) -> PathBuf {
    let name = format!("{}-{app}-{scenario}.json", job.device);
    job.out.join("timelines").join(name)
}

/// The timelines that an app has not got, of those that what was learned of it allows.
///
/// `measured` are the job's scenarios.
pub(super) fn missing(
    job: &Job,
    measured: &[Scenario],
    app: &App,
    store: &LearnedStore,
) -> Vec<(Scenario, LearningRun)> {
    SHOWN
        .into_iter()
        .filter(|_| job.timelines && app.window.is_some())
        .filter(|(scenario, _)| !is_optional(*scenario) || measured.contains(scenario))
        .filter(|(scenario, how)| {
            store.learned(Condition::Idle).get(*how).is_some()
                && !path(job, &app.name, *scenario).exists()
        })
        .collect()
}

/// Whether a scenario is shown only where it is measured: it needs a writer, or a drive that was probed.
fn is_optional(scenario: Scenario) -> bool {
    scenario.has_writer() || scenario == Scenario::Prefetched(Method::Formula)
}

/// Launches the app once more in a scenario, and keeps its timeline.
///
/// # Errors
/// When the launch fails or cannot be recorded.
pub(super) fn record(
    work: &mut Work,
    prepared: PreparedApp<'_>,
    (scenario, how): (Scenario, LearningRun),
) -> Result<()> {
    let PreparedApp {
        app,
        store,
        completion,
        ..
    } = prepared;
    let plan = scenario
        .method()
        .map(|method| work.plan(method, scenario, store, completion))
        .transpose()?;
    let bus = work.start_bus()?;
    work.launcher.empty_caches()?;
    let mut written = scenario
        .has_writer()
        .then(|| work.begin_writing(scenario.has_shield()))
        .transpose()?;
    let command = work.launcher.find(&app.command)?;
    let rule = app.window.as_ref().context("the app has no window")?;
    let windows = vec![work.display.watch(rule)?];
    let dev = fs::metadata(&work.job.root)?.dev();
    let mut storage = MaybeUninit::uninit();
    let mut recorder = Recorder::attach(&mut storage, dev)?;
    let mark = recorder.start_mark()?;
    let plans: Vec<&Plan> = plan.iter().collect();
    let seen = work.launcher.launch(Request {
        windows,
        completion,
        plans: &plans,
        bus,
        mark: Some(mark),
        shield: written.as_mut().and_then(WrittenDrive::shield),
        ..Request::of(&command)
    })?;
    let raw = recorder.finish()?;
    if let Some(written) = written {
        work.stop_writing(written)?;
    }
    // Timelines begin with the execve, launches a moment earlier.
    let earlier = raw.start_ns.saturating_sub(seen.begun_ns) as f64 / 1e9;
    let since_execve = |seconds: f64| (seconds - earlier).max(0.0);
    let window = seen.window.map(since_execve);
    let set = store.get(how)?;
    let entries = plan.as_ref().map_or(&[][..], |plan| &plan.profile.entries);
    let timeline = analyse(
        &raw,
        set,
        entries,
        Facts {
            device: work.job.device.clone(),
            app: app.name.clone(),
            scenario: scenario.to_string(),
            seconds: window.unwrap_or_default(),
            window,
            completion: seen.completion.map(since_execve),
        },
    );
    let path = path(&work.job, &app.name, scenario);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(&path, serde_json::to_vec(&timeline)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("lab: {} {scenario}: {}", app.name, timeline.summary());
    Ok(())
}
