//! A short session of the experiments that launch an app otherwise than users do: with wrong profiles, on one
//! processor, two at once; and of an app that is learned several times.

mod session;

use std::path::Path;

use lab::record::{Launch, Lessons};
use lab::report;
use session::{lab, possible};

const APPS: &str = "xpdf,mousepad";
const APP: &str = "xpdf";
const OTHER: &str = "mousepad";

#[test]
fn experiments_leave_results_and_reports() {
    if !possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let output = lab(&[
        "run",
        "--device",
        "microsd",
        "--apps",
        APPS,
        "--background",
        OTHER,
        "--scenarios",
        "wrong,one-core,mobifetch",
        "--together",
        "2",
        "--lessons",
        "2",
        "--runs",
        "1",
        "--no-check",
        "--out",
        out,
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let results = report::load(directory.path()).unwrap();
    check_wrong(&results.launches);
    check_one_core(&results.launches);
    check_effort(&results.launches);
    check_lessons(&results.lessons);
    check_report(directory.path());
}

fn launch<'a>(launches: &'a [Launch], app: &str, scenario: &str) -> &'a Launch {
    let found = launches
        .iter()
        .find(|launch| launch.app == app && launch.scenario == scenario);
    found.unwrap_or_else(|| panic!("no {app} {scenario}"))
}

/// A wrong profile is prefetched and leaves the app to read what it needs.
fn check_wrong(launches: &[Launch]) {
    let right = launch(launches, APP, "infill");
    for scenario in ["wrong-page", "wrong-pages", "wrong-app"] {
        let wrong = launch(launches, APP, scenario);
        assert!(wrong.prefetch_bytes > 0, "{wrong:?}");
        assert!(wrong.app_bytes > right.app_bytes, "{wrong:?} {right:?}");
    }
    let other = |launch: &&Launch| launch.app == OTHER && launch.scenario == "wrong-app";
    assert_eq!(
        launches.iter().filter(other).count(),
        0,
        "its own is no other app's"
    );
}

fn check_one_core(launches: &[Launch]) {
    for app in [APP, OTHER] {
        let of = |scenario: &str| launch(launches, app, scenario);
        for scenario in ["warm-infill", "one-core-warm-infill"] {
            let warm = of(scenario);
            let cold = of("cold");
            assert!(warm.prefetch_bytes * 10 < cold.app_bytes, "{warm:?}");
        }
        assert!(of("one-core-infill").prefetch_bytes > 0);
    }
}

/// Prefetchers are counted where there are some, and take waits from the app.
fn check_effort(launches: &[Launch]) {
    for app in [APP, OTHER] {
        let of = |scenario: &str| launch(launches, app, scenario).effort;
        let Some((cold, prefetched)) = of("cold").zip(of("infill")) else {
            panic!("nothing was counted");
        };
        assert_eq!(cold.prefetch_switches, 0, "{cold:?}");
        assert!(prefetched.prefetch_switches > 0, "{prefetched:?}");
        assert!(
            prefetched.switches < cold.switches,
            "{prefetched:?} {cold:?}"
        );
        // By another clock, and this app starts no helper over a bus.
        let ticks = cold.user + cold.system;
        assert!((cold.app - ticks).abs() < 0.1 + 0.2 * ticks, "{cold:?}");
    }
}

fn check_lessons(lessons: &[Lessons]) {
    for app in [APP, OTHER] {
        for how in ["as-read", "exact"] {
            let found = lessons.iter().find(|one| one.app == app && one.how == how);
            let steps = found.map(|one| one.steps.as_slice());
            let Some([first, second]) = steps else {
                panic!("{app} {how}: {lessons:?}");
            };
            assert!(first.in_all > 100, "{app} {how}: {first:?}");
            assert!(second.in_all <= first.in_all, "{app} {how}: {second:?}");
            assert!(
                second.in_all * 10 > first.in_all * 8,
                "{app} {how}: {second:?}"
            );
            assert!(second.in_any >= first.in_any, "{app} {how}: {second:?}");
        }
    }
}

fn check_report(out: &Path) {
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    for title in [
        "Size of the common sequence by number of lessons",
        "Stretches without reads",
    ] {
        assert!(report.contains(title), "{title} is not in the report");
    }
}
