//! Tables of made-up records.

use super::tables::{line, page};
use crate::record::{Operation, Throughput, Waited, Written};

fn run(turn: u32, writer: Option<&str>, measure: &str, mean_ms: f64) -> Written {
    Written {
        device: "emmc".to_owned(),
        scheduler: "mq-deadline".to_owned(),
        benchmark: "m1".to_owned(),
        writer: writer.map(str::to_owned),
        measure: measure.to_owned(),
        turn,
        operations: vec![Operation {
            name: "all".to_owned(),
            count: 10,
            mean_ms,
            p50_ms: mean_ms,
            p95_ms: mean_ms,
            p99_ms: mean_ms,
            worst_ms: 2.0 * mean_ms,
        }],
        throughput: writer.map(|_| Throughput {
            seconds: 20.0,
            drive_mb_s: 25.0,
            writer_mb_s: 30.0,
        }),
        ..Written::default()
    }
}

fn records() -> Vec<Written> {
    let mut all = Vec::new();
    for turn in 0..3 {
        let slower = f64::from(turn + 1);
        all.push(run(turn, None, "none", 4.0));
        all.push(run(turn, Some("create"), "none", 4000.0 * slower));
        all.push(run(turn, Some("create"), "requests", 40.0 * slower));
    }
    all
}

#[test]
fn ratios_are_to_nothing_done_in_the_same_turn() {
    let page = page(&records());
    assert!(
        page.starts_with("# Waiting for background writes: emmc, mq-deadline\n"),
        "{page}"
    );
    assert!(
        page.contains("| all | quiet | 30 | 4.0 | 4.0 | 4.0 | 4.0 | 8.0 | "),
        "{page}"
    );
    assert!(page.contains("| all | none | 30 | 8000 | 8000 |"), "{page}");
    assert!(page.contains("| 1.00 | 1.00 |"), "{page}");
    assert!(page.contains("| 0.0100 | 0.0100 |"), "{page}");
    assert!(page.contains("| requests | 25.0 | 30.0 | 1.00 |"), "{page}");
    assert!(
        !page.contains("waits for") && !page.contains("What the shield did"),
        "{page}"
    );
}

#[test]
fn a_turn_without_its_base_has_no_ratio() {
    let page = page(&[
        run(0, Some("create"), "requests", 5.0),
        run(1, Some("create"), "none", 9.0),
    ]);
    assert!(
        page.contains("| all | requests | 10 | 5.0 | 5.0 | 5.0 | 5.0 | 10.0 | – | – |"),
        "{page}"
    );
}

#[test]
fn waits_are_told_by_condition_and_by_benchmark() {
    let mut all = records();
    let waited = |cause: &str, total_ms| Waited {
        cause: cause.to_owned(),
        count: 2,
        total_ms,
        worst_ms: total_ms,
        for_whom: vec!["kworker".to_owned()],
    };
    for record in all.iter_mut().filter(|one| one.writer.is_some()) {
        record.waits = vec![waited("sync", 1000.0), waited("metadata", 2000.0)];
        record.lost_waits = 1;
    }
    all[2].done = vec!["loop0: 2.0 s".to_owned()];
    let page = page(&all);
    assert!(
        page.contains("| none | metadata | 6 | 6.00 | 2000 | kworker |"),
        "{page}"
    );
    assert!(page.contains("| requests | (lost) | 3 |"), "{page}");
    assert!(page.contains("| m1 | 6.00 (6) | 3.00 (6) |"), "{page}");
    assert!(
        page.contains("- requests, turn 1: loop0: 2.0 s\n"),
        "{page}"
    );
}

#[test]
fn a_run_is_told_in_a_line() {
    let mut record = run(0, Some("create"), "requests", 5.0);
    record.cut = true;
    assert_eq!(
        line(&record),
        "emmc m1 (create, requests): 10 all of 5.0 ms on average, worst 10.0, cut by the limit; drive 25.0 MB/s"
    );
    assert_eq!(page(&[]), "Nothing has been measured yet.\n");
}
