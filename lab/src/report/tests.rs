//! Whole reports from made-up results.

use std::fs;
use std::path::Path;

use super::synthetic::{self, APPS, SCENARIOS, lines, records};
use super::*;
use crate::record::Record;

fn store_results(dir: &Path, records: &[Record]) {
    fs::write(dir.join("results.jsonl"), lines(records)).unwrap();
}

/// Markdown and HTML of these records, through files.
fn report(records: &[Record]) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    store_results(dir.path(), records);
    write(dir.path()).unwrap();
    let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
    (read("report.md"), read("report.html"))
}

#[test]
fn a_whole_session() {
    let mut all = records("qlc-sata", APPS, SCENARIOS, 5);
    let background = [("background-fast", 0.3), ("background-infill", 0.9)];
    all.extend(records("qlc-sata", &APPS[..3], &background, 5).split_off(4));
    all.extend(records("microsd", APPS, SCENARIOS, 5));
    let writer = [("writer-cold", 0.0), ("writer-prefetch", 0.9)];
    all.extend(records("microsd", &APPS[..2], &writer, 5).split_off(3));
    let together = [
        ("together-cold", 0.0),
        ("together-fast", 0.1),
        ("together-infill", 0.3),
    ];
    all.extend(records("microsd", &[("gimp+okular", 4.0, 0.5)], &together, 5).split_off(2));
    let (markdown, html) = report(&all);
    for text in [&markdown, &html] {
        for part in [
            "Paralfetch, Figure 10",
            "Paralfetch, Figure 11",
            "Paralfetch, Figure 12",
            "Paralfetch, Figure 13",
            "FAST, Figure 6",
            "FAST, Figure 8",
            "QASIO",
            "The two rules disagree by more than 10 % for: okular.",
            "disturbed and are left out",
            "Learned sets",
            "Gap closed",
            "gimp+okular",
        ] {
            assert!(text.contains(part), "{part} is missing");
        }
    }
    assert!(markdown.contains("steal 8 %"));
    assert!(html.contains("bound exact"));
    let apps_with_bars = html.matches("class=\"bar f-infill\"").count();
    assert!(apps_with_bars >= 2 * APPS.len(), "{apps_with_bars}");
}

#[test]
fn one_app_with_gaps() {
    let some = [SCENARIOS[0], SCENARIOS[8], ("brand-new", 0.5)];
    let (markdown, html) = report(&records("nvme", &APPS[..1], &some, 1));
    assert!(markdown.contains("brand-new") && html.contains("brand-new"));
    assert!(
        !markdown.contains("\n| average |"),
        "one app has no average of its own"
    );
    assert!(markdown.contains("(1 run)"), "one run has no interval");
    assert!(!markdown.contains("FAST, Figure 6") && !markdown.contains("Figure 10"));
}

#[test]
fn averages_of_a_picture_are_over_its_apps() {
    let mut all = records(
        "nvme",
        &[("a", 1.0, 0.2), ("b", 1.0, 0.4), ("c", 1.0, 0.9)],
        SCENARIOS,
        1,
    );
    let background = [("background-fast", 0.3), ("background-infill", 0.9)];
    all.extend(records(
        "nvme",
        &[("a", 1.0, 0.2), ("b", 1.0, 0.4)],
        &background,
        1,
    ));
    let results = load::parse(&lines(&all)).unwrap();
    let device = &summary::devices(&results)[0];
    let parts = sections::of_device(device);
    let figure = parts
        .iter()
        .find(|part| part.title.contains("Figure 11"))
        .unwrap();
    let Some(sections::Picture::Groups(groups)) = &figure.picture else {
        panic!("no bars")
    };
    let warm = |index: usize| groups.groups[index].marks[0].unwrap().value;
    assert_eq!(groups.groups.len(), 3);
    assert!((warm(2) - (warm(0) + warm(1)) / 2.0).abs() < 1e-9);
}

#[test]
fn only_learned_or_nothing_at_all() {
    let (markdown, html) = report(&[]);
    assert!(
        markdown.contains("Nothing has been measured")
            && html.contains("Nothing has been measured")
    );
    let (markdown, _) = report(&records("nvme", &APPS[..1], &[], 0));
    assert!(markdown.contains("Learned sets"));
}

#[test]
fn an_app_without_cold_launches_is_said() {
    let (markdown, _) = report(&records("nvme", &APPS[..1], &SCENARIOS[1..2], 2));
    assert!(markdown.contains("gimp has no cold launch"), "{markdown}");
}

#[test]
fn no_gap_between_cold_and_warm_is_not_divided_by() {
    let (markdown, html) = report(&records("nvme", &[("flat", 1.0, 1.0)], SCENARIOS, 5));
    for text in [markdown, html] {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let name = "<script>alert(1)</script>\"' onload=x & |";
    let dir = tempfile::tempdir().unwrap();
    store_results(
        dir.path(),
        &records(name, &[(name, 1.0, 0.5)], &[("cold", 0.0), (name, 0.5)], 2),
    );
    let mut timeline = synthetic::timeline(name, name, name);
    timeline.misses[0].what = name.to_owned();
    fs::create_dir(dir.path().join("timelines")).unwrap();
    let path = dir.path().join("timelines/one.json");
    fs::write(path, serde_json::to_vec(&timeline).unwrap()).unwrap();
    write(dir.path()).unwrap();
    let html = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(html.matches("<script").count(), 1, "only the page's own");
    assert!(html.contains("&lt;script&gt;alert(1)"));
    assert!(!html.contains("\"' onload"));
    let markdown = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(!markdown.contains("<script"));
}

#[test]
fn an_interrupted_session_is_reported_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let whole = lines(&records("ufs", &APPS[..2], SCENARIOS, 2));
    fs::write(dir.path().join("results.jsonl"), &whole[..whole.len() - 20]).unwrap();
    write(dir.path()).unwrap();
    for name in ["report.md", "report.html"] {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(
            text.contains("cut off when the lab was interrupted"),
            "{name}"
        );
    }
}

#[test]
fn the_same_results_make_the_same_report() {
    let all = records("ufs", &APPS[..2], SCENARIOS, 3);
    assert_eq!(report(&all), report(&all));
}

#[test]
fn timelines_are_drawn_and_kept_small() {
    let one = synthetic::timeline("qlc-sata", "gimp", "infill");
    let page = html::page(&[], std::slice::from_ref(&one), &[]);
    for part in [
        "app waits for drive",
        "drive queue",
        "misses",
        "before scheduling",
        "libgimp-1.so",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    let alone = page.len() - html::page(&[], &[], &[]).len();
    assert!(alone < 150_000, "{alone} bytes");
}

#[test]
fn sets_are_compared_through_files() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    store_results(
        a.path(),
        &records("ufs", &[("gimp", 2.0, 0.4)], SCENARIOS, 5),
    );
    store_results(
        b.path(),
        &records(
            "ufs",
            &[("gimp", 1.0, 0.4), ("vlc", 1.0, 0.4)],
            SCENARIOS,
            5,
        ),
    );
    let text = compare(a.path(), b.path()).unwrap();
    assert!(text.contains("faster by 50.0 %"), "{text}");
    assert!(text.contains("Only in B:\n  ufs, vlc, cold"), "{text}");
    assert!(compare(a.path(), Path::new("/nonexistent")).is_err());
}
