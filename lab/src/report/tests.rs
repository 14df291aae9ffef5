//! Whole reports from made-up results.

use std::fs;
use std::path::Path;

use super::synthetic::{APPS, SCENARIOS, lines, records};
use super::*;
use crate::record::{Launch, Parameter, Record, Served, Throughput, Written};
use crate::tables::{NOTHING, Table};

fn store_results(dir: &Path, records: &[Record]) {
    fs::write(dir.join("results.jsonl"), lines(records)).unwrap();
}

/// The report of these records, through files.
fn report(records: &[Record]) -> String {
    let dir = tempfile::tempdir().unwrap();
    store_results(dir.path(), records);
    write(dir.path()).unwrap();
    fs::read_to_string(dir.path().join("report.md")).unwrap()
}

#[test]
fn a_whole_session() {
    let mut all = records("qlc-sata", APPS, SCENARIOS, 5);
    let background = [("background-fast", 0.3), ("background-infill", 0.9)];
    all.extend(records("qlc-sata", &APPS[..3], &background, 5).split_off(4));
    all.extend(records("microsd", APPS, SCENARIOS, 5));
    let writer = [
        ("writer-cold", 0.0),
        ("writer-prefetch", 0.9),
        ("writer-shield", 1.0),
    ];
    all.extend(records("microsd", &APPS[..2], &writer, 5).split_off(3));
    for record in &mut all {
        if let Record::Launch(launch) = record
            && launch.scenario.starts_with("writer-")
        {
            launch.beside = Some(Throughput {
                seconds: 20.0,
                drive_mb_s: if launch.scenario == "writer-shield" {
                    9.0
                } else {
                    10.0
                },
                writer_mb_s: 10.0,
            });
        }
    }
    let together = [
        ("together-cold", 0.0),
        ("together-fast", 0.1),
        ("together-infill", 0.3),
    ];
    all.extend(records("microsd", &[("gimp+okular", 4.0, 0.5)], &together, 5).split_off(2));
    let markdown = report(&all);
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
        assert!(markdown.contains(part), "{part} is missing");
    }
    assert!(markdown.contains("steal 8 %"));
    assert!(
        markdown.contains("| gimp | 10.0 | 10.0 | 9.0 | 0.90 |"),
        "{markdown}"
    );
    assert!(markdown.contains("bound exact"));
}

#[test]
fn benchmarks_beside_a_writer_have_a_page_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let written = |device: &str| {
        Record::Written(Written {
            device: device.to_owned(),
            benchmark: "m1".to_owned(),
            writer: Some("create".to_owned()),
            measure: "none".to_owned(),
            ..Written::default()
        })
    };
    store_results(
        dir.path(),
        &[written("emmc"), written("ufs"), written("emmc")],
    );
    write(dir.path()).unwrap();
    let page = fs::read_to_string(dir.path().join("writes.md")).unwrap();
    assert_eq!(
        page.matches("# Waiting for background writes").count(),
        2,
        "{page}"
    );
    assert!(!dir.path().join("report.md").exists());
}

#[test]
fn one_app_with_gaps() {
    let some = [SCENARIOS[0], SCENARIOS[8], ("brand-new", 0.5)];
    let markdown = report(&records("nvme", &APPS[..1], &some, 1));
    assert!(markdown.contains("brand-new"));
    assert!(
        !markdown.contains("\n| average |"),
        "one app has no average of its own"
    );
    assert!(markdown.contains("(1 run)"), "one run has no interval");
    assert!(!markdown.contains("FAST, Figure 6") && !markdown.contains("Figure 10"));
}

#[test]
fn averages_of_a_figure_are_over_its_apps() {
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
    let figure = section(&all, "Figure 11");
    let rows = &figure.tables[0].rows;
    let warm = |index: usize| -> f64 {
        let cell = rows[index].last().unwrap();
        cell.split(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(rows.len(), 3);
    let off = warm(2) - (warm(0) + warm(1)) / 2.0;
    assert!(off.abs() <= 0.01, "{rows:?}");
}

#[test]
fn only_learned_or_nothing_at_all() {
    assert!(report(&[]).contains("Nothing has been measured"));
    let markdown = report(&records("nvme", &APPS[..1], &[], 0));
    assert!(markdown.contains("Learned sets"));
}

#[test]
fn apps_without_cold_launches_are_said_in_a_sentence() {
    let of = |records: &[Record]| report(records);
    let one = of(&records("nvme", &APPS[..1], &SCENARIOS[1..2], 2));
    assert!(
        one.contains("gimp has no cold launch to be normalized to."),
        "{one}"
    );
    let mut all = records("nvme", &APPS[4..7], &[("background-fast", 0.3)], 2);
    all.extend(records("nvme", &APPS[7..8], &[("writer-prefetch", 0.3)], 2));
    all.extend(records(
        "nvme",
        &[("a+b", 1.0, 0.5)],
        &[("together-fast", 0.3)],
        2,
    ));
    let text = of(&all);
    for sentence in [
        "inkscape, scribus and okular have no cold launch to be normalized to.\n",
        "vlc has no cold launch under the writer to be normalized to.\n",
        "a+b has no cold launch of all at once to be normalized to.\n",
    ] {
        assert_eq!(text.matches(sentence).count(), 1, "{sentence}: {text}");
    }
    assert_eq!(text.matches("to be normalized to.\n").count(), 3, "{text}");
}

/// Launches that take this share of a cold launch's two seconds, a little more with each turn.
fn shares(app: &str, scenarios: &[(&str, f64)]) -> Vec<Record> {
    let launch = |turn: u32, (scenario, share): (&str, f64)| Launch {
        device: "ufs".to_owned(),
        app: app.to_owned(),
        scenario: scenario.to_owned(),
        turn,
        window: Some(2.0 * share * (1.0 + f64::from(turn) / 100.0)),
        ..Launch::default()
    };
    let turns = (0..5).flat_map(|turn| scenarios.iter().map(move |one| (turn, *one)));
    turns
        .map(|(turn, one)| Record::Launch(launch(turn, one)))
        .collect()
}

fn section(records: &[Record], title: &str) -> sections::Section {
    let results = load::grouped(records.to_vec());
    let parts = sections::of_device(&summary::devices(&results)[0]);
    let found = parts.into_iter().find(|part| part.title.contains(title));
    found.unwrap_or_else(|| panic!("no section {title}"))
}

/// Four launches with the service on: two are learned, then it prefetches, and with another schedule.
fn served(app: &str) -> Vec<Record> {
    let times = [
        ("cold", 1.0),
        ("infill", 0.4),
        ("service-1", 1.1),
        ("service-2", 0.9),
        ("service-3", 0.5),
        ("service-4", 0.48),
    ];
    let mut all = shares(app, &times);
    for record in &mut all {
        let Record::Launch(launch) = record else {
            continue;
        };
        let done = match launch.scenario.as_str() {
            "service-1" | "service-2" => ("learned", None),
            "service-3" => ("prefetched", Some(64)),
            "service-4" => ("prefetched", Some(80)),
            _ => continue,
        };
        launch.served = Some(Served {
            kind: done.0.to_owned(),
            tuning: done.1.map(|value| Parameter {
                name: "shift KiB".to_owned(),
                value,
            }),
            ..Served::default()
        });
    }
    all
}

#[test]
fn launches_with_the_service_on_are_told_by_number() {
    let mut all = served("a");
    all.extend(served("b"));
    let found = section(&all, "service on");
    let [by_default, times, kinds, gain] = &found.tables[..] else {
        panic!("{:?}", found.tables)
    };
    assert_eq!(by_default.head, ["app", "by + infill", "by cold"]);
    assert!(by_default.note.contains("launches 3 to 4"));
    for row in &by_default.rows {
        assert_eq!(row[1..], ["1.225 (1.225–1.225)", "0.490 (0.490–0.490)"]);
    }
    assert_eq!(times.head[3..], ["launch 3", "launch 4"]);
    for row in &times.rows {
        let expected = ["1.10", "0.90", "0.50", "0.48"].map(|one| format!("{one} ({one}–{one})"));
        assert_eq!(row[1..], expected);
    }
    assert_eq!(times.rows[2][0], sections::AVERAGE);
    let expected = [
        "a",
        "learned",
        "learned",
        "prefetched, shift 64 KiB",
        "prefetched, shift 80 KiB",
    ];
    assert_eq!(kinds.rows[0], expected);
    assert_eq!(gain.rows[2], [sections::AVERAGE, "0.960 (0.960–0.960)"]);
    let markdown = report(&all);
    assert_eq!(markdown.matches("Launched plainly and cold").count(), 1);
}

#[test]
fn figure_11_sets_the_background_beside_idle() {
    let times = [
        ("cold", 1.0),
        ("fast", 0.5),
        ("infill", 0.4),
        ("background-fast", 0.8),
        ("background-infill", 0.4),
    ];
    let mut all = shares("a", &times);
    all.extend(shares("b", &times));
    let figure = section(&all, "Figure 11");
    let numbers = &figure.tables[0];
    let labels = [
        "FAST",
        "FAST, background",
        "+ infill",
        "+ infill, background",
    ];
    assert_eq!(numbers.head[1..], labels);
    let expected = ["0.50", "0.80", "0.40", "0.40"].map(|one| format!("{one} ({one}–{one})"));
    assert_eq!(numbers.rows[0][1..], expected);
    let ratios = figure.tables.last().unwrap();
    assert_eq!(ratios.head, ["app", "FAST", "+ infill"]);
    for row in &ratios.rows {
        assert_eq!(
            row[1..],
            ["1.60 (1.60–1.60)", "1.00 (1.00–1.00)"],
            "{row:?}"
        );
    }
    assert_eq!(ratios.rows.last().unwrap()[0], sections::AVERAGE);
}

#[test]
fn figure_11_without_cold_launches_has_the_ratios() {
    let all = shares("a", &[("infill", 0.4), ("background-infill", 0.5)]);
    let figure = section(&all, "Figure 11");
    assert_eq!(figure.tables.len(), 1);
    assert_eq!(figure.tables[0].rows, [["a", "1.25 (1.25–1.25)"]]);
}

#[test]
fn live_learning_costs_what_a_warm_launch_takes_longer() {
    let mut all = shares("a", &[("cold", 1.0), ("warm", 0.2), ("warm-live", 0.202)]);
    all.extend(shares("b", &[("warm", 0.5), ("warm-live", 0.515)]));
    all.extend(shares("c", &[("warm", 0.5)]));
    let cost = section(&all, "Learned live").tables.pop().unwrap();
    assert_eq!(cost.title, "Cost of live learning");
    assert_eq!(
        cost.rows,
        [
            ["a", "0.408", "0.412", "1.010 (1.010–1.010)"],
            ["b", "1.02", "1.05", "1.030 (1.030–1.030)"],
            [sections::AVERAGE, NOTHING, NOTHING, "1.020 (1.020–1.020)"],
        ]
    );
    let compared = section(&all, "Normalized").tables;
    let is_there = |table: &Table| table.head.iter().any(|head| head.contains("learned"));
    assert!(
        !compared.iter().any(is_there),
        "it is no measure for others"
    );
}

#[test]
fn figure_8_is_normalized_to_the_same_set() {
    let mut all = shares("a+b", &[("together-cold", 1.0), ("together-fast", 0.8)]);
    let four = [
        ("together-cold", 2.0),
        ("together-fast", 1.0),
        ("together-infill", 0.5),
    ];
    all.extend(shares("a+b+c+d", &four));
    let figure = section(&all, "Figure 8");
    assert_eq!(
        figure.tables[0].head,
        [
            "apps",
            "cold s",
            "FAST s",
            "FAST by cold",
            "Paralfetch s",
            "Paralfetch by cold",
            "last"
        ]
    );
    let none = NOTHING;
    assert_eq!(
        figure.tables[0].rows,
        [
            ["2", "2.04", "1.63", "0.80", none, none, "b"],
            ["4", "4.08", "2.04", "0.50", "1.02", "0.25", "d"],
        ]
    );
}

#[test]
fn no_gap_between_cold_and_warm_is_not_divided_by() {
    let text = report(&records("nvme", &[("flat", 1.0, 1.0)], SCENARIOS, 5));
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
}

#[test]
fn hostile_names_stay_text() {
    let name = "<script>alert(1)</script>\"' onload=x & |";
    let scenarios = [("cold", 0.0), (name, 0.5)];
    let markdown = report(&records(name, &[(name, 1.0, 0.5)], &scenarios, 2));
    assert!(!markdown.contains("<script"));
}

#[test]
fn an_interrupted_session_is_reported_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let whole = lines(&records("ufs", &APPS[..2], SCENARIOS, 2));
    fs::write(dir.path().join("results.jsonl"), &whole[..whole.len() - 20]).unwrap();
    write(dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(
        text.contains("cut off when the lab was interrupted"),
        "{text}"
    );
}

#[test]
fn the_same_results_make_the_same_report() {
    let all = records("ufs", &APPS[..2], SCENARIOS, 3);
    assert_eq!(report(&all), report(&all));
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
