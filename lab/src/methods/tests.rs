//! Plans of made-up sets.

use std::collections::BTreeSet;

use paralfetch::model::{DriveClass, DriveCosts};
use paralfetch::model::{LogEntry, Params, Place, PrefetchEntry, Span};
use paralfetch::schedule::schedule;
use proptest::prelude::*;

use super::samples::{self, FILES, METADATA, learned_set, reads};
use super::*;

const CLASS: DriveClass = DriveClass::CommandQueuing;

fn drive() -> PlannedDrive {
    PlannedDrive::of(CLASS)
}

fn spans(entries: &[PrefetchEntry]) -> Vec<Span> {
    entries.iter().map(|entry| entry.span).collect()
}

/// Every page, once for each time that it comes.
fn pages(spans: impl IntoIterator<Item = Span>) -> Vec<(Place, u64)> {
    let mut pages: Vec<(Place, u64)> = spans
        .into_iter()
        .flat_map(|span| (span.start..span.end()).map(move |page| (span.place, page)))
        .collect();
    pages.sort_unstable();
    pages
}

fn log_pages(log: &[LogEntry]) -> Vec<(Place, u64)> {
    pages(log.iter().map(|entry| entry.span))
}

fn learned_app(exact: LearnedSet, as_read: LearnedSet, again: LearnedSet) -> LearnedApp {
    LearnedApp {
        dynamic: Some(exact.clone()),
        exact: Some(exact),
        as_read: Some(as_read),
        as_read_again: Some(again),
        blocks: Some(BlockMap::default()),
    }
}

fn alike(one: LearnedSet) -> LearnedApp {
    learned_app(one.clone(), one.clone(), one)
}

#[test]
fn the_formula_sweeps_a_disk_and_keeps_the_order_of_flash() {
    let reads = [(FILES, 0, 9), (2, 3, 1), (0, 11, 1), (1, 8, 2), (0, 12, 4)];
    let app = alike(learned_set(&reads, false));
    let entries = |method, drive: &PlannedDrive| {
        let plan = plan(method, &app, drive).unwrap();
        spans(&plan.profile.entries)
    };
    let flash = drive();
    let infill = entries(Method::Infill, &flash);
    assert_eq!(entries(Method::Formula, &flash), infill);
    let disk = PlannedDrive {
        costs: Some(DriveCosts::of_class(DriveClass::Rotational)),
        ..flash
    };
    assert_eq!(entries(Method::Infill, &disk), infill);
    let swept = entries(Method::Formula, &disk);
    assert_ne!(swept, infill);
    assert_eq!(pages(swept), pages(infill));
    for name in ["shift-4", "distance-16", "hole-2"] {
        let swept = Swept::parse(name).unwrap();
        let planned = swept_plan(swept, &app, &flash).unwrap();
        let pages_of = pages(spans(&planned.profile.entries));
        let all = log_pages(&app.get(swept.method().needs()[0]).unwrap().log);
        assert!(all.iter().all(|page| pages_of.contains(page)), "{name}");
    }
}

#[test]
fn gsoc_goes_by_inode_and_offset_and_leaves_metadata_out() {
    // Inode numbers 17, 12, 90, 41; the fragments of a file are one request.
    let reads = [(2, 3, 1), (FILES, 0, 9), (0, 11, 1), (1, 8, 2), (0, 12, 4)];
    let plan = plan(Method::Gsoc, &alike(learned_set(&reads, false)), &drive()).unwrap();
    let found: Vec<_> = spans(&plan.profile.entries)
        .iter()
        .map(|span| match span.place {
            Place::Data { file } => (plan.profile.files[file as usize].ino, span.start, span.len),
            Place::Metadata { .. } => panic!("{span:?}"),
        })
        .collect();
    assert_eq!(found, [(12, 8, 2), (17, 11, 5), (90, 3, 1)]);
}

#[test]
fn sorted_goes_by_position_and_joins_within_a_place() {
    // The metadata end where the first file begins; its two fragments lie apart.
    let reads = [(0, 12, 1), (0, 2, 1), (FILES, 20, 4), (0, 0, 2), (0, 11, 1)];
    let plan = plan(Method::Sorted, &alike(learned_set(&reads, false)), &drive()).unwrap();
    let found: Vec<_> = spans(&plan.profile.entries)
        .iter()
        .map(|span| (span.place.is_metadata(), span.start, span.len))
        .collect();
    assert_eq!(
        found,
        [
            (true, METADATA + 20, 4),
            (false, 0, 3),
            (false, 11, 1),
            (false, 12, 1)
        ]
    );
}

#[test]
fn mobifetch_merges_across_small_holes_of_what_is_near_and_reorders_nothing() {
    // Holes of two and of three pages; metadata behind the data before which Paralfetch would read it.
    let near = [(0, 0, 1), (1, 0, 1), (0, 3, 1), (1, 4, 1), (FILES, 0, 1)];
    let planned = |reads: &[samples::Read]| {
        let app = alike(learned_set(reads, false));
        spans(
            &plan(Method::Mobifetch, &app, &drive())
                .unwrap()
                .profile
                .entries,
        )
        .iter()
        .map(|span| (span.place.is_metadata(), span.start, span.len))
        .collect::<Vec<_>>()
    };
    let metadata = (true, METADATA, 1);
    assert_eq!(
        planned(&near),
        [(false, 0, 4), (false, 0, 1), (false, 4, 1), metadata]
    );
    // Nine positions away.
    let mut far: Vec<samples::Read> = vec![(0, 0, 1)];
    far.extend((0..8).map(|index| (2, index * 3 % 24, 1)));
    far.push((0, 3, 1));
    let parts = planned(&far);
    assert_eq!(
        (parts[0], parts[parts.len() - 1]),
        ((false, 0, 1), (false, 3, 1))
    );
}

#[test]
fn fast_replays_what_the_drive_read_in_both_launches() {
    let mut first = learned_set(&[(0, 0, 4), (FILES, 1, 3), (1, 5, 2), (2, 0, 1)], false);
    let second = learned_set(&[(2, 0, 1), (FILES, 2, 2), (0, 1, 9), (3, 0, 9)], true);
    // Cached before the first launch, or inserted by a dependency check.
    first.unread = vec![first.log[3].span];
    let common = common_sequence(&first, &second);
    let found: Vec<_> = common
        .iter()
        .map(|entry| {
            (
                entry.span.place,
                entry.span.start,
                entry.span.len,
                entry.lba,
            )
        })
        .collect();
    let (data, metadata) = (Place::Data { file: 0 }, Place::Metadata { device: 0 });
    assert_eq!(
        found,
        [
            (data, 1, 3, first.log[0].lba + 8),
            (metadata, METADATA + 2, 2, (METADATA + 2) * 8)
        ]
    );
}

#[test]
fn fast_makes_the_calls_of_table_1() {
    let log = [(FILES, 0, 4), (0, 3, 2), (FILES, 6, 1), (1, 0, 1)];
    let mut all = alike(learned_set(&log, false));
    for one in [&mut all.as_read, &mut all.as_read_again] {
        one.as_mut().unwrap().profile.files[1].path = None;
    }
    let block = |page, replay, path| Block {
        page: METADATA + page,
        replay,
        path,
    };
    all.blocks = Some(BlockMap {
        device: 0,
        paths: vec![b"/lib".to_vec(), b"/lib/17".to_vec()],
        blocks: vec![
            block(0, Replay::Inode, 1),
            block(1, Replay::Directory, 0),
            block(2, Replay::Directory, 0),
            block(6, Replay::Inode, 0),
        ],
    });
    let plan = plan(Method::Fast, &all, &drive()).unwrap();
    let calls = plan.calls.unwrap();
    assert_eq!(
        calls.calls,
        [
            Call::Open { path: 1 },
            Call::List { path: 0 },
            Call::Advise {
                span: plan.profile.entries[1].span
            },
            Call::Open { path: 0 },
        ]
    );
    // The metadata page that nothing is known of, and the file without a path.
    assert_eq!(calls.unnamed, 2);
}

#[test]
fn the_completion_block_is_found_in_the_tables_of_each_set() {
    let mut exact = learned_set(&[(1, 3, 1), (3, 9, 1)], false);
    exact.profile.completion = vec![exact.log[1].span];
    let completion = Completion::of(&exact.profile).unwrap();
    let turned = learned_set(&[(3, 4, 8)], true);
    let all = learned_app(exact, turned.clone(), turned);
    let left_out = |method| {
        plan(method, &all, &drive())
            .unwrap()
            .without(&completion)
            .left_out
    };
    let page = |file| Span {
        place: Place::Data { file },
        start: 9,
        len: 1,
    };
    for method in Method::ALL {
        let is_exact = matches!(
            method.needs(),
            [LearningRun::Exact] | [LearningRun::Dynamic]
        );
        let file = if is_exact { 3 } else { 0 };
        assert_eq!(left_out(method), Some(page(file)), "{method}");
    }
    let elsewhere = Completion {
        ino: 5,
        ..completion
    };
    let plan = plan(Method::Sorted, &all, &drive()).unwrap();
    assert_eq!(plan.without(&elsewhere).left_out, None);
}

#[test]
fn plan_names_a_missing_set() {
    for method in Method::ALL {
        let error = plan(method, &LearnedApp::default(), &drive())
            .unwrap_err()
            .to_string();
        let missing = method.needs()[0].name();
        assert!(
            error.contains(missing) && error.contains(method.name()),
            "{error}"
        );
    }
}

#[test]
fn a_saved_app_is_loaded_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(LearnedApp::load(dir.path()).unwrap(), LearnedApp::default());
    let mut one = learned_set(&[(0, 3, 2), (FILES, 6, 1), (1, 0, 1)], false);
    // As the profile's format rounds times.
    for entry in &mut one.profile.entries {
        entry.time_us = 0;
    }
    one.unread = vec![one.log[1].span];
    let mut all = alike(one.clone());
    all.blocks.as_mut().unwrap().paths.push(vec![b'/', 0xff]);
    all.save(dir.path()).unwrap();
    assert_eq!(LearnedApp::load(dir.path()).unwrap(), all);

    all.set(LearningRun::AsRead, one.clone());
    all.set(LearningRun::Exact, one);
    all.save(dir.path()).unwrap();
    let loaded = LearnedApp::load(dir.path()).unwrap();
    assert_eq!(
        (loaded.blocks, loaded.dynamic),
        (None, None),
        "they belonged to the old sets"
    );
}

#[test]
fn loading_a_damaged_set_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let all = alike(learned_set(&[(0, 3, 2)], false));
    let log = dir.path().join("exact.json");
    for (damage, said) in [
        (
            r#"{"duration_us":1,"log":[[[4,0,1],0,0,0]],"unread":[]}"#,
            "unknown file",
        ),
        (
            r#"{"duration_us":1,"log":[[[-2,0,1],0,0,0]],"unread":[]}"#,
            "unknown file or device",
        ),
        (
            r#"{"duration_us":1,"log":[[[0,0,1],1,0,0]],"unread":[]}"#,
            "unknown device",
        ),
        (
            r#"{"duration_us":1,"log":[[[0,0,0],0,0,0]],"unread":[]}"#,
            "impossible pages",
        ),
        (
            r#"{"duration_us":1,"log":[],"unread":[[-9223372036854775808,0,1]]}"#,
            "impossible device",
        ),
        (r#"{"duration_us":1,"log":[[[0,0"#, "damaged JSON"),
    ] {
        all.save(dir.path()).unwrap();
        std::fs::write(&log, damage).unwrap();
        let error = format!("{:#}", LearnedApp::load(dir.path()).unwrap_err());
        assert!(error.contains("`exact`") && error.contains(said), "{error}");
    }
    all.save(dir.path()).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(LearnedApp::load(dir.path()).is_err());
    std::fs::remove_file(dir.path().join("exact.pf")).unwrap();
    assert_eq!(LearnedApp::load(dir.path()).unwrap().exact, None);
}

proptest! {
    /// Whatever the order: all pages of the set, and each once.
    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(reads in reads()) {
        let one = learned_set(&reads, false);
        let all = log_pages(&one.log);
        let learned = alike(one);
        for method in Method::ALL {
            let planned = pages(spans(&plan(method, &learned, &drive()).unwrap().profile.entries));
            let distinct: BTreeSet<_> = planned.iter().copied().collect();
            prop_assert_eq!(distinct.len(), planned.len(), "{}", method);
            let expected: Vec<_> = match method {
                Method::Gsoc => all.iter().copied().filter(|page| !page.0.is_metadata()).collect(),
                _ => all.clone(),
            };
            let with_holes = matches!(
                method,
                Method::OnlyExact
                    | Method::Infill
                    | Method::Mobifetch
                    | Method::Formula
            );
            if with_holes {
                prop_assert!(expected.iter().all(|page| distinct.contains(page)), "{}", method);
            } else {
                prop_assert_eq!(planned, expected, "{}", method);
            }
        }
    }

    #[test]
    fn sorted_is_sorted_and_joined(reads in reads()) {
        let one = learned_set(&reads, false);
        let position = |place: Place, page: u64| {
            one.log
                .iter()
                .find(|entry| {
                    entry.span.place == place && (entry.span.start..entry.span.end()).contains(&page)
                })
                .map(|entry| entry.lba / 8 + page - entry.span.start)
                .expect("a page of the log")
        };
        let plan = plan(Method::Sorted, &alike(one.clone()), &drive()).unwrap();
        let mut last: Option<(Place, u64)> = None;
        for span in spans(&plan.profile.entries) {
            let first = position(span.place, span.start);
            prop_assert_eq!(position(span.place, span.end() - 1), first + span.len - 1);
            if let Some((place, end)) = last {
                prop_assert!(end <= first);
                prop_assert!(place != span.place || end < first, "left apart: {:?}", span);
            }
            last = Some((span.place, first + span.len));
        }
    }

    #[test]
    fn gsoc_is_sorted_and_joined(reads in reads()) {
        let plan = plan(Method::Gsoc, &alike(learned_set(&reads, false)), &drive()).unwrap();
        let entries = spans(&plan.profile.entries);
        for pair in entries.windows(2) {
            let key = |span: &Span| match span.place {
                Place::Data { file } => plan.profile.files[file as usize].ino,
                Place::Metadata { .. } => 0,
            };
            let (before, after) = (key(&pair[0]), key(&pair[1]));
            prop_assert!(
                before < after || before == after && pair[0].end() < pair[1].start
            );
        }
    }

    #[test]
    fn the_common_sequence_is_in_both_and_in_the_order_of_the_first(
        first in reads(),
        second in reads(),
        cached in any::<prop::sample::Index>(),
    ) {
        let mut first = learned_set(&first, false);
        let second = learned_set(&second, true);
        if !first.log.is_empty() {
            first.unread = vec![first.log[cached.index(first.log.len())].span];
        }
        let common = common_sequence(&first, &second);
        let turned: BTreeSet<_> = log_pages(&second.log)
            .into_iter()
            .map(|(place, page)| match place {
                Place::Data { file } => (Place::Data { file: FILES - 1 - file }, page),
                metadata => (metadata, page),
            })
            .collect();
        let unread = pages(first.unread.iter().copied());
        let expected: Vec<_> = log_pages(&first.log)
            .into_iter()
            .filter(|page| turned.contains(page) && !unread.contains(page))
            .collect();
        prop_assert_eq!(log_pages(&common), expected);
        let mut at = 0;
        for entry in &common {
            let from = first.log[at..].iter().position(|whole| {
                whole.span.place == entry.span.place
                    && whole.span.start <= entry.span.start
                    && entry.span.end() <= whole.span.end()
            });
            at += from.expect("a part of this or a later entry");
            let offset = (entry.span.start - first.log[at].span.start) * 8;
            prop_assert_eq!(entry.lba, first.log[at].lba + offset);
        }
    }

    /// `traced` is the log, `shift` moves nothing but metadata, and the last steps are the product's.
    #[test]
    fn stages_end_with_what_the_product_does(reads in reads()) {
        let one = learned_set(&reads, false);
        let learned = alike(one.clone());
        let entries = |method| spans(&plan(method, &learned, &drive()).unwrap().profile.entries);
        let log: Vec<Span> = one.log.iter().map(|entry| entry.span).collect();
        prop_assert_eq!(&entries(Method::Traced), &log);
        for metadata in [false, true] {
            let of_kind = |spans: &[Span]| -> Vec<Span> {
                let kind = spans.iter().filter(|span| span.place.is_metadata() == metadata);
                kind.copied().collect()
            };
            prop_assert_eq!(of_kind(&entries(Method::Shift)), of_kind(&log));
        }
        let by_product = |exact| spans(&schedule(&one.log, &Params::for_device(CLASS, exact)));
        for (method, exact) in [
            (Method::ShiftMerge, false),
            (Method::OnlyAsRead, false),
            (Method::Infill, true),
            (Method::OnlyExact, true),
        ] {
            prop_assert_eq!(entries(method), by_product(exact), "{}", method);
        }
        prop_assert_eq!(entries(Method::ShiftMerge), spans(&one.profile.entries));
    }
}
