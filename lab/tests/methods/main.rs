//! The methods on a real ext4 file system: a small app is learned, and prefetched by every method.
//!
//! This program is its own harness, since learning needs the process's main thread. It is one test:
//! its steps share what was learned.

mod image;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::harness;
use lab::methods::{
    BlockMap, Call, Completion, LearnedApp, LearningRun, Method, Plan, PlannedDrive, Running, plan,
};
use paralfetch::apps::{Rules, identify_command};
use paralfetch::drive::KnobError;
use paralfetch::learn::{LearnError, LearnOptions, learn};
use paralfetch::model::{GivenParams, LaunchLimits};
use paralfetch::model::{Place, PrefetchEntry, PrefetchReport, Span};
use paralfetch::process::{Command, Spawn, Stdio, Supervisor};

use image::Image;

/// A step, by its name.
type Step = (&'static str, fn(&Image, &LearnedApp));

const STEPS: [Step; 8] = [
    ("the_last_stages_are_the_products_profiles", product),
    ("learned_sets_are_read_back", kept),
    ("fast_knows_what_was_read_by_path", by_path),
    ("prefetched_launches_read_what_the_method_leaves", leftovers),
    ("the_completion_block_is_left_to_the_app", completion),
    ("a_prefetch_ends_when_it_is_told_to", told_to_end),
    ("a_warm_launch_is_left_alone", warm),
    ("apps_that_start_together_are_prefetched_together", several),
];

fn main() -> ExitCode {
    if harness::is_listing() {
        harness::list(STEPS.map(|(name, _)| name));
        return ExitCode::SUCCESS;
    }
    if !common::privileged() {
        return ExitCode::SUCCESS;
    }
    // Before any other thread, which would get its signals.
    let mut supervisor = Supervisor::new().unwrap();
    let image = Image::new();
    let learned = learned(&image, &mut supervisor);
    for (name, step) in STEPS {
        step(&image, &learned);
        println!("test {name} ... ok");
    }
    harness::close(STEPS.len() as u32, 0)
}

/// All learned sets of the image's app.
fn learned(image: &Image, supervisor: &mut Supervisor) -> LearnedApp {
    let mut app = LearnedApp::default();
    for how in LearningRun::ALL {
        let learned = loop {
            let argv = Image::APP.map(Into::into);
            let command = Command::find_for(&argv, Some(image.root()), None).unwrap();
            let options = LearnOptions {
                app: identify_command(&Rules::builtin(), &command, 0).app,
                how: how.learned(),
                limits: LaunchLimits::default(),
                keeper: None,
                earlier: None,
                given: GivenParams::default(),
                state_dir: None,
                tell: |_| (),
            };
            let mut spawn = Spawn::new(command);
            spawn.stdio = Stdio::Null;
            match learn(spawn, options, supervisor) {
                // Another test program is learning.
                Err(LearnError::Knob(KnobError::Busy)) => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        app.set(how, learned.profile.unwrap().into());
    }
    app.blocks = Some(BlockMap::read(&app, image.root()).unwrap());
    app
}

fn planned(method: Method, learned: &LearnedApp) -> Plan {
    // That of the drive under the test, whatever it is.
    let class = learned.exact.as_ref().unwrap().profile.devices[0].class;
    plan(method, learned, &PlannedDrive::of(class)).unwrap()
}

fn product(_: &Image, learned: &LearnedApp) {
    for (method, how) in [
        (Method::ShiftMerge, LearningRun::AsRead),
        (Method::Infill, LearningRun::Exact),
    ] {
        let profile = &learned.get(how).unwrap().profile;
        assert_eq!(*planned(method, learned).profile, *profile, "{method}");
    }
}

fn kept(_: &Image, learned: &LearnedApp) {
    let dir = tempfile::tempdir().unwrap();
    learned.save(dir.path()).unwrap();
    let loaded = LearnedApp::load(dir.path()).unwrap();
    let spans = |learned: &LearnedApp, method| -> Vec<Span> {
        let plan = planned(method, learned);
        plan.profile
            .entries
            .iter()
            .map(|entry: &PrefetchEntry| entry.span)
            .collect()
    };
    for method in Method::ALL {
        assert_eq!(spans(&loaded, method), spans(learned, method), "{method}");
        let calls = planned(method, learned).calls;
        assert_eq!(planned(method, &loaded).calls, calls, "{method}");
    }
}

fn by_path(_: &Image, learned: &LearnedApp) {
    let plan = planned(Method::Fast, learned);
    let calls = plan.calls.as_ref().unwrap();
    let path = |path: &u32| String::from_utf8(calls.paths[*path as usize].clone()).unwrap();
    let mut listed = Vec::new();
    let mut opened = Vec::new();
    let mut advised = 0;
    for call in &calls.calls {
        match call {
            Call::List { path: directory } => listed.push(path(directory)),
            Call::Open { path: file } => opened.push(path(file)),
            Call::Advise { .. } => advised += 1,
        }
    }
    assert!(listed.contains(&"/data".to_owned()), "{listed:?}");
    // A directory that the app lists, and no file of it opened.
    assert!(listed.contains(&"/data/listed".to_owned()), "{listed:?}");
    assert!(
        opened.iter().any(|path| path.starts_with("/data/")),
        "{opened:?}"
    );
    assert!(advised > image::FILES, "{advised} calls");
    let (metadata, _) = plan.pages();
    assert!(
        calls.unnamed * 5 < metadata,
        "{} of {metadata} without a name",
        calls.unnamed
    );
}

fn leftovers(image: &Image, learned: &LearnedApp) {
    let cold = image.with_empty_caches(|| image.reads_of_launch());
    assert!(cold > 100, "a cold launch makes {cold} reads");
    let mut reads = BTreeMap::new();
    for method in Method::ALL {
        let plan = planned(method, learned);
        let left = image.fewest_reads(|| {
            let mut running = Running::start(&plan, image.root()).unwrap();
            let held = running.hold().unwrap();
            let report = running.finish().unwrap().unwrap();
            assert!(report.duration <= held, "{held:?}, {report:?}");
            assert!(!report.warm && !report.cut_short, "{report:?}");
            assert!(report.skipped.is_empty(), "{report:?}");
            assert_eq!(report.prevented(), None, "{report:?}");
            assert_eq!(entries(&report), report.scheduled, "{report:?}");
            if method != Method::Fast {
                let pages = (report.metadata.pages, report.data.pages);
                assert_eq!(pages, plan.pages(), "{report:?}");
            }
        });
        reads.insert(method, left);
    }
    println!("reads of a launch: cold {cold}, after prefetching {reads:?}");
    let gsoc = reads.remove(&Method::Gsoc).unwrap();
    let metadata = learned.exact.as_ref().unwrap().log.iter();
    let metadata = metadata
        .filter(|entry| entry.span.place.is_metadata())
        .count() as u64;
    assert!(
        0 < gsoc && gsoc <= metadata,
        "{gsoc} reads of {metadata} of metadata"
    );
    // It knows no more than what the drive read in both learning runs, and of that not all by name.
    let fast = reads.remove(&Method::Fast).unwrap();
    assert!(fast * 10 <= cold, "{fast} reads");
    for (method, reads) in reads {
        assert_eq!(reads, 0, "{method}");
    }
}

fn completion(image: &Image, learned: &LearnedApp) {
    let completion = Completion::of(&learned.exact.as_ref().unwrap().profile).unwrap();
    for method in Method::ALL {
        let plan = planned(method, learned).without(&completion);
        let span = plan.left_out.unwrap();
        let Place::Data { file } = span.place else {
            panic!("{span:?}");
        };
        let path = plan.profile.files[file as usize].path.clone().unwrap();
        let found = image.with_empty_caches(|| {
            let mut running = Running::start(&plan, image.root()).unwrap();
            running.hold().unwrap();
            let before = image.is_cached(&path, completion.page);
            let reads = image.reads_of_launch();
            (before, reads > 0, image.is_cached(&path, completion.page))
        });
        assert_eq!(found, (false, true, true), "{method}");
    }
}

/// What was carried out of a plan.
fn entries(report: &PrefetchReport) -> u64 {
    report.metadata.entries + report.data.entries
}

fn told_to_end(image: &Image, learned: &LearnedApp) {
    for method in Method::ALL {
        let started = || Running::start(&planned(method, learned), image.root()).unwrap();
        let report = image.with_empty_caches(|| started().finish().unwrap().unwrap());
        assert!(
            report.cut_short || entries(&report) == report.scheduled,
            "{report:?}"
        );
        until_alone();

        // Dropped on the way, as by an error elsewhere.
        image.with_empty_caches(|| drop(started()));
        until_alone();
    }
}

fn warm(image: &Image, learned: &LearnedApp) {
    let report = image.with_empty_caches(|| {
        image.reads_of_launch();
        let mut running = Running::start(&planned(Method::Infill, learned), image.root()).unwrap();
        running.hold().unwrap();
        running.finish().unwrap().unwrap()
    });
    assert!(report.warm && report.calls == 0, "{report:?}");
}

fn several(image: &Image, learned: &LearnedApp) {
    let plans = [Method::Infill, Method::Fast].map(|method| planned(method, learned));
    let reads = image.fewest_reads(|| {
        let running = plans
            .each_ref()
            .map(|plan| Running::start(plan, image.root()).unwrap());
        for mut running in running {
            running.hold().unwrap();
        }
    });
    assert_eq!(reads, 0);
    let nowhere = Path::new("/proc/nowhere");
    let error = Running::start(&planned(Method::Fast, learned), nowhere)
        .err()
        .unwrap();
    assert!(format!("{error:#}").contains("/proc/nowhere"), "{error:#}");
}

/// Waits until the kernel has taken down the threads that have ended: a moment, unless one lives on.
fn until_alone() {
    let limit = Instant::now() + Duration::from_secs(60);
    while fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        assert!(Instant::now() < limit, "a thread outlives its prefetch");
        std::thread::yield_now();
    }
}
