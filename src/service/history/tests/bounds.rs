//! How much is remembered.

use proptest::prelude::*;

use super::*;

#[test]
fn a_clock_that_is_wrong_for_a_while_does_not_empty_the_history() {
    let (_dir, path) = place();
    let mut history = filled(&path, 100);
    // Three launches with a clock years ahead take a few of the oldest each.
    for _ in 0..3 {
        history
            .add(&launch("/a", NOW_S + 10_000 * DAY_S))
            .expect("added");
    }
    let left = 100 - 3 * prune::OLD_AT_ONCE as usize;
    assert_eq!(times(&history).len(), left + 3);
    // One behind takes nothing, and those that it leaves go first.
    for _ in 0..3 {
        history.add(&launch("/a", 0)).expect("added");
    }
    assert_eq!(times(&history).len(), left + 6);
    history.add(&launch("/a", NOW_S + 1000)).expect("added");
    assert_eq!(times(&history).len(), left + 4);
    assert!(times(&history).iter().all(|&time| time >= NOW_S));
}

#[test]
fn the_file_shrinks_when_less_is_to_be_remembered() {
    let (_dir, path) = place();
    drop(filled(&path, 1000));
    let before = fs::metadata(&path).unwrap().len();
    let limits = HistoryLimits {
        max_launches: 100,
        ..LIMITS
    };
    let (mut history, _) = open(&path, limits);
    history.add(&launch("/a", NOW_S)).expect("added");
    assert_eq!(times(&history).len(), 100);
    let after = fs::metadata(&path).unwrap().len();
    assert!(after * 4 < before, "{after} of {before}");
}

#[test]
fn long_names_cost_launches_and_no_more_space() {
    let (_dir, path) = place();
    let limits = HistoryLimits {
        max_launches: 1000,
        ..LIMITS
    };
    let (mut history, _) = open(&path, limits);
    let name = "n".repeat(MAX_APP_BYTES - 4);
    for index in 0..1000 {
        let app = format!("{index:04}{name}");
        history.add(&launch(&app, NOW_S + index)).expect("added");
    }
    let len = fs::metadata(&path).unwrap().len();
    assert!(len <= (4 << 20) + 1000 * (1 << 10), "{len}");
    let kept = times(&history);
    assert!((100..1000).contains(&kept.len()), "{}", kept.len());
    // The newest are there.
    let first = NOW_S + 1000 - kept.len() as u64;
    assert!(kept.into_iter().eq(first..NOW_S + 1000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever times come in whatever order: never more launches than allowed, the newest one is
    /// there, what remains is in order, and no launch takes more old ones with it than it may.
    #[test]
    fn pruning_keeps_to_the_bounds(
        max_launches in 1u64..30,
        days in prop::collection::vec(prop_oneof![
            9 => 19_800u64..20_200,
            1 => Just(0),
            1 => Just(u64::MAX / DAY_S),
        ], 1..80),
    ) {
        let (_dir, path) = place();
        let limits = HistoryLimits { max_launches, max_days: 100 };
        let (mut history, _) = open(&path, limits);
        let mut given = Vec::new();
        for day in days {
            let before = times(&history).len();
            let time = (day * DAY_S).min(i64::MAX as u64);
            given.push(time);
            history.add(&launch("/a", time)).expect("added");
            let kept = times(&history);
            prop_assert!(kept.len() as u64 <= max_launches);
            prop_assert_eq!(kept.last(), Some(&time));
            // One for the number, the others for their age.
            prop_assert!(kept.len() + prune::OLD_AT_ONCE as usize >= before);
            let mut rest = given.iter();
            for time in &kept {
                prop_assert!(rest.any(|given| given == time), "{time} is out of order");
            }
        }
    }

    /// With a clock that goes right, nothing within the bounds is lost, and nothing older is kept once
    /// as many launches have come as were too old.
    #[test]
    fn a_right_clock_loses_nothing(steps in prop::collection::vec(0u64..40, 1..60)) {
        let (_dir, path) = place();
        let (mut history, _) = open(&path, LIMITS);
        let mut given: Vec<u64> = Vec::new();
        for step in steps {
            let time = given.last().unwrap_or(&NOW_S) + step * DAY_S;
            given.push(time);
            history.add(&launch("/a", time)).expect("added");
            let young = |given: &&u64| **given + LIMITS.max_days * DAY_S >= time;
            let expected: Vec<u64> = given.iter().filter(young).copied().collect();
            prop_assert!(times(&history).ends_with(&expected));
        }
        let last = *given.last().unwrap();
        for _ in 0..given.len() {
            history.add(&launch("/a", last)).expect("added");
        }
        let oldest = times(&history).into_iter().min();
        prop_assert!(oldest.unwrap() + LIMITS.max_days * DAY_S >= last);
    }
}
