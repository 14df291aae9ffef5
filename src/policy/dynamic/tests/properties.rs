//! Properties of tuning, whatever launches take and whatever becomes of its steps.

use proptest::prelude::*;

use super::*;
use crate::model::{Infill, ReadOrder};

fn class() -> impl Strategy<Value = DriveClass> {
    prop_oneof![
        Just(DriveClass::CommandQueuing),
        Just(DriveClass::NoCommandQueuing),
        Just(DriveClass::Rotational),
    ]
}

/// In which range any parameters must stay that were the defaults at first.
fn is_allowed(params: &Params, first: &Params) -> bool {
    let hole = |params: &Params| params.infill.map(|infill| infill.hole_pages);
    let distance = |params: &Params| params.infill.map(|infill| infill.distance);
    (first.shift_bytes..=256 << 10).contains(&params.shift_bytes)
        && (first.merge_distance..=64).contains(&params.merge_distance)
        && (hole(first)..=hole(first).map(|_| 15)).contains(&hole(params))
        && distance(params) == distance(first)
}

proptest! {
    /// Whatever launches take, tuning ends after at most two of them at each of the levels there are,
    /// with a level that nothing else was faster than by more than the tolerance, and has never left
    /// the allowed ranges on the way.
    #[test]
    fn tuning_stays_in_range_and_ends_with_the_best(
        class in class(),
        touched in any::<bool>(),
        launches in prop::collection::vec((900..1100u64, 0..12u64), 40),
    ) {
        let mut app = SimulatedApp::new(class, touched);
        let first = app.in_force();
        let mut until_end = 0;
        for (duration_us, switches) in launches {
            until_end += usize::from(app.tuning.ended().is_none());
            app.launch(duration_us, switches);
            prop_assert!(is_allowed(&app.in_force(), &first), "{:?}", app.in_force());
        }
        // 15 distances are the most levels that there are.
        prop_assert!(until_end <= 2 * 15);
        prop_assert!(app.tuning.ended().is_some());
        let levels = app.tuning.levels();
        let kept = levels.iter().find(|level| level.params == app.in_force()).expect("was tried");
        let fastest = levels.iter().map(|level| level.fastest_us).min().expect("one at least");
        if app.tuning.ended() != Some(TuningEnd::NothingFree) {
            prop_assert!(kept.fastest_us * 100 <= fastest * 102);
        }
        if !matches!(app.tuning.ended(), Some(TuningEnd::InTime | TuningEnd::NothingFree)) {
            prop_assert_eq!(kept.fastest_us, fastest);
        }
        // At most all levels, and one step back: far below what a profile can keep.
        prop_assert!(app.history.len() <= 16);
    }

    /// Tuning ends so if steps have no effect, or are lost in crashes together with what was remembered.
    #[test]
    fn tuning_survives_all_that_may_become_of_a_step(
        class in class(),
        touched in any::<bool>(),
        launches in prop::collection::vec((900..1100u64, 0..12u64, 0..8u8, any::<bool>()), 60),
    ) {
        let mut app = SimulatedApp::new(class, touched);
        let first = app.in_force();
        for (duration_us, switches, fate, forgotten) in launches {
            let mut step = app.ask(duration_us, switches);
            if fate == 0 && app.tuning.ended().is_none() && step.is_some() {
                step = app.tuning.no_effect(&TuningRules::default());
            }
            let Some(params) = step else { continue };
            prop_assert!(is_allowed(&params, &first), "{:?}", params);
            if fate != 1 {
                app.put_in_force(params);
            } else if forgotten {
                // A crash before the step.
                app.tuning = Tuning::new(class, &app.history);
            }
        }
        // From here on nothing goes wrong any more.
        for _ in 0..30 {
            app.launch(1000, LATE);
        }
        prop_assert!(app.tuning.ended().is_some());
        prop_assert_eq!(app.launch(1000, LATE), None);
    }

    /// The parameters of a profile may be any numbers.
    #[test]
    fn parameters_out_of_range_are_left_alone(
        class in class(),
        merge_distance in 65..=u64::MAX,
        shift_bytes in (256u64 << 10) + 1..=u64::MAX,
        infill in prop::option::of((16..=u64::MAX, any::<u64>())),
        launches in prop::collection::vec((any::<u64>(), any::<u64>()), 1..8),
    ) {
        let infill = infill.map(|(hole_pages, distance)| Infill { hole_pages, distance });
        let params = Params { merge_distance, shift_bytes, infill, order: ReadOrder::Access };
        let history = vec![Revision { time: 0, params }];
        let mut app = SimulatedApp { tuning: Tuning::new(class, &history), history };
        for (duration_us, switches) in launches {
            prop_assert_eq!(app.launch(duration_us, switches), None);
        }
    }
}
