use proptest::prelude::*;

use super::*;

/// A Wednesday, at noon UTC.
const NOW_S: u64 = 1_700_049_600 - 1_700_049_600 % DAY_S + DAY_S / 2;

fn launch(app: u32, ago_s: u64) -> PastLaunch {
    let at_s = NOW_S - ago_s;
    PastLaunch { app, at_s }
}

fn of(app: u32, probabilities: &[(u32, f64)]) -> f64 {
    probabilities
        .iter()
        .find(|(other, _)| *other == app)
        .map_or(0.0, |(_, probability)| *probability)
}

fn probability(app: u32, history: &[PastLaunch]) -> f64 {
    of(app, &probabilities(history, NOW_S, 0))
}

#[test]
fn nothing_is_likely_before_the_first_launch() {
    assert!(probabilities(&[], NOW_S, 0).is_empty());
}

#[test]
fn one_launch_is_no_certainty() {
    let once = probability(1, &[launch(1, HORIZON_S)]);
    assert!(0.3 < once && once < 0.9, "{once}");
}

#[test]
fn an_app_of_each_window_is_likelier_than_one_of_every_other() {
    let history: Vec<PastLaunch> = (0..40)
        .flat_map(|window| [(1, true), (2, window % 2 == 0)].map(|each| (window, each)))
        .filter(|(_, (_, launched))| *launched)
        .map(|(window, (app, _))| launch(app, window * HORIZON_S))
        .collect();
    let found = probabilities(&history, NOW_S, 0);
    assert!(of(1, &found) > 0.9, "{found:?}");
    assert!((0.3..0.7).contains(&of(2, &found)), "{found:?}");
}

#[test]
fn a_burst_counts_once() {
    let history = |launches: u64| -> Vec<PastLaunch> {
        let burst = (0..launches).map(|n| launch(1, 5 * HORIZON_S + n));
        burst.chain([launch(2, HORIZON_S)]).collect()
    };
    assert_eq!(probability(1, &history(1)), probability(1, &history(100)));
}

#[test]
fn what_is_launched_at_these_hours_is_likelier_than_what_is_launched_at_others() {
    // In the coming hours a day and more ago, and in those after them, which are younger.
    let days = |app: u32, later_s: u64| {
        (1..20).map(move |day| launch(app, day * DAY_S - HORIZON_S / 2 - later_s))
    };
    let history: Vec<PastLaunch> = days(1, 0).chain(days(2, HORIZON_S)).collect();
    let found = probabilities(&history, NOW_S, 0);
    assert!(of(1, &found) > of(2, &found), "{found:?}");
}

#[test]
fn on_a_working_day_what_is_launched_on_working_days_is_likelier() {
    // The Sunday before that Wednesday is younger than Friday.
    let history = [launch(1, 5 * DAY_S), launch(2, 3 * DAY_S)];
    let found = probabilities(&history, NOW_S, 0);
    assert!(of(1, &found) > of(2, &found), "{found:?}");
}

/// Late on a Friday in UTC it may be Saturday already.
#[test]
fn the_kind_of_day_is_that_of_the_local_time() {
    let friday_2000 = NOW_S + 2 * DAY_S + 8 * 3600;
    let kind = |utc_offset_s| {
        let clock = Clock {
            now_s: friday_2000,
            utc_offset_s,
        };
        clock.is_weekend(None)
    };
    assert_eq!(
        [0, 5, -8].map(|hours| kind(hours * 3600)),
        [false, true, false]
    );
}

#[test]
fn what_followed_the_last_app_is_likelier() {
    // 2 follows 1, and 3 has windows of its own, as many.
    let mut history = vec![launch(1, 60)];
    for window in (1..20).step_by(2) {
        history.push(launch(1, window * HORIZON_S + 100));
        history.push(launch(2, window * HORIZON_S + 50));
        history.push(launch(3, (window + 1) * HORIZON_S + 50));
    }
    let found = probabilities(&history, NOW_S, 0);
    let without = probabilities_by(
        &Evidence {
            before: false,
            ..Evidence::ALL
        },
        &history,
        NOW_S,
        0,
    );
    assert!(of(2, &found) > of(2, &without), "{found:?} {without:?}");
}

#[test]
fn a_vote_weighs_by_the_age_the_hours_and_the_kind_of_day_of_its_window() {
    let clock = Clock {
        now_s: NOW_S,
        utc_offset_s: 0,
    };
    assert_eq!(
        [0, 24, 72].map(|window| clock.freshness(window)),
        [1.0, 0.5, 0.25]
    );
    // Monday begins with window 14 before Wednesday's noon, and Saturday with window 26.
    let weekend = [None, Some(0), Some(14), Some(15), Some(26), Some(27)];
    assert_eq!(
        weekend.map(|window| clock.is_weekend(window)),
        [false, false, false, true, true, false]
    );
    let all = Evidence::ALL;
    let weight = |window| clock.weight(&all, window) / clock.freshness(window);
    assert_eq!(weight(0), SAME_KIND_OF_DAY);
    assert_eq!(weight(15), 1.0);
    assert!((weight(5) - SAME_HOURS * SAME_KIND_OF_DAY).abs() < 1e-9);
    assert!((weight(17) - SAME_HOURS).abs() < 1e-9);
    assert_eq!(clock.weight(&Evidence::NONE, 5), 1.0);
}

#[test]
fn what_followed_votes_beside_windows_that_weigh_as_two_launches() {
    let evidence = Evidence {
        before: true,
        ..Evidence::NONE
    };
    let history = [
        launch(1, 4 * HORIZON_S - 600),
        launch(2, 4 * HORIZON_S - 1200),
        launch(1, 10),
    ];
    let found = probabilities_by(&evidence, &history, NOW_S, 0);
    // Of two windows and a half, the last app was in two: of it they alone decide. The other one was in one of them, and
    // followed one launch.
    for (app, expected) in [(1, 2.0 / 2.5), (2, (2.0 / 2.5 + 1.0) / 3.0)] {
        assert!((of(app, &found) - expected).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn what_is_launched_a_horizon_later_follows_no_more() {
    let past = [
        launch(1, 2 * HORIZON_S),
        launch(2, HORIZON_S + 1),
        launch(3, HORIZON_S),
    ];
    let followed: Vec<Vec<u32>> = followers(&past, 1)
        .map(|(_, launches)| launches.iter().map(|launch| launch.app).collect())
        .collect();
    assert_eq!(followed, [[2]]);
}

#[test]
fn launches_of_the_future_do_not_count() {
    let future = PastLaunch {
        app: 2,
        at_s: NOW_S + 1,
    };
    let past = [launch(1, 0), launch(1, 10 * DAY_S)];
    let found = probabilities(&[past[0], future, past[1]], NOW_S, 0);
    assert_eq!(found, probabilities(&past, NOW_S, 0));
}

fn any_launch() -> impl Strategy<Value = PastLaunch> {
    let ago_s = prop_oneof![0..30 * DAY_S, 0..2 * HORIZON_S];
    (0..6u32, ago_s).prop_map(|(app, ago_s)| launch(app, ago_s))
}

fn any_history() -> impl Strategy<Value = Vec<PastLaunch>> {
    prop::collection::vec(any_launch(), 0..60)
}

fn hostile_launch() -> impl Strategy<Value = PastLaunch> {
    let edge = prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(NOW_S),
        any::<u64>(),
        NOW_S - DAY_S..NOW_S + DAY_S,
    ];
    let app = prop_oneof![0..4u32, Just(u32::MAX)];
    (app, edge).prop_map(|(app, at_s)| PastLaunch { app, at_s })
}

proptest! {
    #[test]
    fn the_order_of_the_history_does_not_matter(
        (history, shuffled) in any_history()
            .prop_flat_map(|history| (Just(history.clone()), Just(history).prop_shuffle())),
        utc_offset_s in -50_000..50_000i32,
    ) {
        prop_assert_eq!(
            probabilities(&history, NOW_S, utc_offset_s),
            probabilities(&shuffled, NOW_S, utc_offset_s)
        );
    }

    /// Whatever stands in the history: each app that was launched once, likeliest first, with a probability.
    #[test]
    fn probabilities_are_bounded_and_in_order(
        history in prop::collection::vec(hostile_launch(), 0..40),
        now_s in prop_oneof![Just(0), Just(u64::MAX), Just(NOW_S), any::<u64>()],
        utc_offset_s in any::<i32>(),
    ) {
        let found = probabilities(&history, now_s, utc_offset_s);
        for (_, probability) in &found {
            prop_assert!(0.0 < *probability && *probability <= 1.0, "{:?}", found);
        }
        prop_assert!(found.is_sorted_by(|(_, p), (_, q)| p >= q));
        let apps: BTreeSet<u32> = found.iter().map(|(app, _)| *app).collect();
        prop_assert_eq!(apps.len(), found.len());
        let past = history.iter().filter(|launch| launch.at_s <= now_s);
        prop_assert_eq!(apps, past.map(|launch| launch.app).collect::<BTreeSet<u32>>());
    }

    /// Another launch of an app, before the last of all: that one decides what may follow.
    #[test]
    fn a_launch_more_never_makes_an_app_less_likely(
        history in any_history(),
        more in any_launch(),
    ) {
        let newest_s = history.iter().map(|launch| launch.at_s).max();
        prop_assume!(newest_s.is_some_and(|newest_s| more.at_s < newest_s));
        let before = probability(more.app, &history);
        let mut history = history;
        history.push(more);
        let after = probability(more.app, &history);
        prop_assert!(after >= before - 1e-12, "{} < {}", after, before);
    }

    /// Two apps that nobody launches but at the same hours of the same days of the week, one of them weeks later.
    #[test]
    fn a_launch_that_is_more_recent_never_makes_an_app_less_likely(
        history in any_history(),
        ago_s in prop::collection::btree_set(1..40 * DAY_S, 1..10),
        weeks in 1..8u64,
    ) {
        // The last launch of all is of an app that nothing has followed yet.
        let mut history = history;
        history.push(launch(102, 0));
        for &ago_s in &ago_s {
            history.push(launch(100, ago_s));
            history.push(launch(101, ago_s + weeks * 7 * DAY_S));
        }
        let found = probabilities(&history, NOW_S, 0);
        prop_assert!(of(100, &found) >= of(101, &found), "{:?}", found);
    }
}

/// Each launch is looked at a bounded number of times, also where one app follows itself in a single window.
#[test]
fn a_long_history_is_counted_once() {
    let history: Vec<PastLaunch> = (0..50_000).map(|n| launch(n as u32 % 3, n)).collect();
    let mut past = history;
    past.sort_unstable_by_key(|launch| (launch.at_s, launch.app));
    let counted: usize = followers(&past, 0)
        .map(|(_, launches)| launches.len())
        .sum();
    assert!(counted <= past.len(), "{counted}");
}
