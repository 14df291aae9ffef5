//! A short session of the laboratory: two apps, one emulated drive, one turn. The apps are learned idle,
//! live and while one of them is running; they are prefetched beside the launch, before it (`sorted`) and
//! by the service.

mod session;

use std::path::Path;
use std::process::Command;

use lab::record::{Launch, Record, Share};
use lab::report;
use session::{lab, possible};

const APPS: &str = "xpdf,mousepad";
const DEVICE: &str = "qlc-sata";
const BACKGROUND: &str = "mousepad";
const TURNS: u32 = 1;
/// Scenarios of every app. `sorted` holds the app until its prefetch is complete.
const SCENARIOS: [&str; 6] = [
    "cold",
    "infill",
    "sorted",
    "live-infill",
    "warm",
    "warm-live",
];
/// Launches of each round with the service on.
const LAUNCHES: u32 = 2;
/// Share of what was learned exactly that every other learning run must have, of file data and of
/// metadata. The rest is what differs from one launch to the next.
const RECALL: (f64, f64) = (0.99, 0.98);

fn run(out: &str) -> std::process::Output {
    let turns = TURNS.to_string();
    lab(&[
        "run",
        "--device",
        DEVICE,
        "--apps",
        APPS,
        "--scenarios",
        "short,sorted,live,background-infill,service",
        "--launches",
        &LAUNCHES.to_string(),
        "--background",
        BACKGROUND,
        "--runs",
        &turns,
        "--no-check",
        "--out",
        out,
    ])
}

fn launches(out: &Path) -> Vec<Launch> {
    let launches = report::load(out).unwrap().launches;
    assert!(!launches.is_empty());
    launches
}

/// These scenarios, and the background scenario for apps other than the background app itself.
fn with_background<'a>(app: &str, scenarios: &[&'a str]) -> Vec<&'a str> {
    let background = (app != BACKGROUND).then_some("background-infill");
    scenarios.iter().copied().chain(background).collect()
}

#[test]
fn a_short_session_leaves_results_and_reports() {
    if !possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let loops = attached();
    let output = run(out);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

    let launches_made = launches(directory.path());
    for app in APPS.split(',') {
        for scenario in with_background(app, &SCENARIOS) {
            let found: Vec<&Launch> = launches_made
                .iter()
                .filter(|launch| launch.app == app && launch.scenario == scenario)
                .collect();
            assert!(found.len() >= TURNS as usize, "{app} {scenario}: {said}");
            for launch in found {
                assert!(
                    launch.window.is_some_and(|seconds| seconds > 0.0),
                    "{launch:?}"
                );
            }
        }
        // An app that waits for its prefetch hardly reads itself, a warm one even less. What one reads that does not
        // wait goes by the host's speed, and is less than it would be without. As in the reports, launches from
        // which the kernel has reclaimed pages, or that were disturbed otherwise, do not count, as long as there is
        // another.
        let requests = |scenario: &str| {
            let of = |launch: &&Launch| launch.app == app && launch.scenario == scenario;
            let found: Vec<&Launch> = launches_made.iter().filter(of).collect();
            let quiet = found.iter().filter(|launch| launch.disturbed.is_empty());
            let mut quiet: Vec<u64> = quiet.map(|launch| launch.app_requests).collect();
            quiet.sort_unstable();
            let best = || found.iter().map(|launch| launch.app_requests).min();
            quiet.get(quiet.len() / 2).copied().or_else(best).unwrap()
        };
        let cold = requests("cold");
        assert!(cold > 50, "{app}: {cold} requests");
        let sorted = requests("sorted");
        assert!(
            sorted * 4 < cold,
            "{app} sorted: {sorted} of {cold} requests"
        );
        for scenario in with_background(app, &["infill", "live-infill"]) {
            let own = requests(scenario);
            assert!(own < cold, "{app} {scenario}: {own} of {cold} requests");
        }
        for scenario in ["warm", "warm-live"] {
            let own = requests(scenario);
            assert!(
                own * 10 < cold,
                "{app} {scenario}: {own} of {cold} requests"
            );
        }
    }
    check_served(&launches_made);
    check_recall(directory.path());
    check_reports(directory.path());
    assert_eq!(attached(), loops, "no loop device is left behind");

    // The same session again has nothing left to do.
    let before = launches_made.len();
    let output = run(out);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(launches(directory.path()).len(), before);

    let same = lab(&["compare", out, out]);
    assert!(
        same.status.success(),
        "{}",
        String::from_utf8_lossy(&same.stderr)
    );
    assert!(String::from_utf8_lossy(&same.stdout).contains("mousepad"));
}

/// Checks the reports. On a shared machine, all launches of a kind may have been disturbed, and reports
/// leave these out. So sections that need them are checked in a copy that marks no launch as disturbed.
fn check_reports(out: &Path) {
    let undisturbed = tempfile::tempdir().unwrap();
    let results = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
    let lines = results.lines().map(|line| {
        let mut record: Record = serde_json::from_str(line).unwrap();
        if let Record::Launch(launch) = &mut record {
            launch.disturbed.clear();
        }
        serde_json::to_string(&record).unwrap() + "\n"
    });
    let lines: String = lines.collect();
    std::fs::write(undisturbed.path().join("results.jsonl"), lines).unwrap();
    let again = lab(&["report", undisturbed.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success(), "{said}");
    let holds = |directory: &Path, texts: &[&str]| {
        let report = std::fs::read_to_string(directory.join("report.md")).unwrap();
        for text in texts {
            assert!(report.contains(text), "{text} is not in {report}");
        }
    };
    let always = [DEVICE, "mousepad", "were disturbed and are left out"];
    holds(out, &always);
    holds(undisturbed.path(), &always);
    let of_all = ["Cost of live learning", "Launches with the service on"];
    holds(undisturbed.path(), &of_all);
}

/// Checks the launches with the service on: the first ones are learned, the others prefetched.
fn check_served(launches: &[Launch]) {
    for app in APPS.split(',') {
        let of = |number: u32| -> Vec<&Launch> {
            let name = format!("service-{number}");
            let is_it = |launch: &&Launch| launch.app == app && launch.scenario == name;
            launches.iter().filter(is_it).collect()
        };
        for number in 1..=LAUNCHES {
            let found = of(number);
            assert_eq!(found.len(), TURNS as usize, "{app}: {launches:?}");
            // Two launches are learned at least, and more where windows still tell something.
            let kinds: &[&str] = match number {
                1 | 2 => &["learned"],
                _ => &["learned", "prefetched"],
            };
            for launch in found {
                let served = launch.served.as_ref();
                let kind = served.map(|served| served.kind.as_str());
                assert!(kind.is_some_and(|kind| kinds.contains(&kind)), "{launch:?}");
            }
        }
        let best = |number: u32, requests: fn(&Launch) -> u64| {
            of(number).into_iter().map(requests).min().unwrap()
        };
        let learned = best(1, |launch| launch.app_requests);
        let own = best(2, |launch| launch.app_requests);
        let prefetched = best(2, |launch| launch.prefetch_requests);
        eprintln!("{app}: {learned} requests learned, {own} left of them, {prefetched} prefetched");
        // How many of them, goes by the host's speed: the app does not wait for its prefetch.
        assert!(own < learned, "{app}: {own} of {learned} requests");
        assert!(prefetched > 50, "{app}: {prefetched} prefetched");
    }
}

/// A set that was learned live, or while an app with many of the same libraries was running, must hold
/// what a cold launch on an idle system needs.
fn check_recall(out: &Path) {
    let learned = report::load(out).unwrap().learned;
    for app in APPS.split(',') {
        let beside = (app != BACKGROUND).then_some("exact-background");
        for how in ["exact-live"].into_iter().chain(beside) {
            let found = learned.iter().find(|one| one.app == app && one.how == how);
            let accuracy = found.and_then(|one| one.against_exact);
            let accuracy = accuracy.unwrap_or_else(|| panic!("{app} {how}: {learned:?}"));
            let is_well = |share: Share, least| share.needed > 50 && share.recall() >= least;
            eprintln!("{app} {how}: {accuracy:?}");
            assert!(
                is_well(accuracy.data, RECALL.0),
                "{app} {how}: {accuracy:?}"
            );
            assert!(
                is_well(accuracy.metadata, RECALL.1),
                "{app} {how}: {accuracy:?}"
            );
        }
    }
}

/// Loop devices with files of the laboratory.
fn attached() -> usize {
    let output = Command::new("losetup").arg("--list").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|line| line.contains("paralfetch-lab"))
        .count()
}

/// The error message of a command that must fail.
fn refused(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn run_refuses_unknown_drives_apps_and_scenarios() {
    for (device, option, value, complaint) in [
        (
            "floppy",
            "--apps",
            "all",
            "there is no drive 'floppy'; there are nvme",
        ),
        ("microsd", "--apps", "emacs", "there is no app 'emacs'"),
        (
            "microsd",
            "--scenarios",
            "tepid",
            "there is no scenario 'tepid'",
        ),
    ] {
        let said = refused(&[
            "run",
            "--device",
            device,
            option,
            value,
            "--out",
            "/nonexistent/x",
        ]);
        assert!(said.contains(complaint), "{said}");
    }
}

#[test]
fn errors_in_data_files_name_the_app_the_drive_or_the_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.toml");
    let path = file.to_str().unwrap();
    let apps = "[[app]]\nname = 'clock'\ntitle = 'Clock'\npackages = []\ncommand = []\n";
    std::fs::write(&file, apps).unwrap();
    let said = refused(&["list", "--apps-file", path]);
    let expected = format!("lab: in {path}: the app 'clock' has no command: name the");
    assert!(said.starts_with(&expected), "{said}");
    let drives = "[[drive]]\nname = 'card'\ntitle = 'A card'\nnr_requests = 1\n";
    std::fs::write(&file, drives).unwrap();
    let said = refused(&["list", "--drives-file", path]);
    let expected = format!("lab: in {path}: drive profile 'card': 'nr_requests' is 1;");
    assert!(said.starts_with(&expected), "{said}");
    std::fs::write(&file, "[[drive]]\nname = 'card\n").unwrap();
    let said = refused(&["list", "--drives-file", path]);
    assert!(said.contains(path) && said.contains("line 2"), "{said}");
}
