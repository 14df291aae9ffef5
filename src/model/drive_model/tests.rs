//! Guesses, costs and words.

use proptest::prelude::*;

use super::*;

const CLASSES: [DriveClass; 3] = [
    DriveClass::CommandQueuing,
    DriveClass::NoCommandQueuing,
    DriveClass::Rotational,
];

#[test]
fn guesses_are_drives_of_their_class() {
    let [queuing, one, disk] = CLASSES.map(DriveModel::guess);
    for model in [&queuing, &one, &disk] {
        assert!(model.is_sound());
        assert!(model.describe().contains("(a guess)"));
    }
    assert_eq!(
        [
            queuing.useful_depth(),
            one.useful_depth(),
            disk.useful_depth()
        ],
        [32, 1, 32]
    );
    assert_eq!([queuing.has_heads(), one.has_heads()], [false, false]);
    assert!(disk.has_heads() && disk.reorders() && !queuing.reorders());
    // Mobifetch's seven pages on a card; hundreds on a disk.
    assert_eq!(one.hole_pages(), 7);
    assert!(
        (100..1000).contains(&disk.hole_pages()),
        "{}",
        disk.hole_pages()
    );
    assert!(queuing.hole_pages() < 4);
}

#[test]
fn costs_are_interpolated_and_end_with_the_table() {
    let disk = DriveModel::guess(DriveClass::Rotational);
    assert_eq!(disk.seek_us(0), 0.0);
    assert_eq!(disk.seek_us(u64::MAX / 2), 16_000.0);
    let between = disk.seek_us(1 << 22);
    assert!((5_200.0..6_500.0).contains(&between), "{between}");
    assert_eq!(disk.queued_us(0), 12_800.0);
    assert_eq!(disk.queued_us(1000), 5_300.0);
    assert!((5_300.0..7_700.0).contains(&disk.queued_us(16)));
    assert!(disk.request_cost_us(4096, Some(0)) < disk.request_cost_us(4096, None));
    let card = DriveModel::guess(DriveClass::NoCommandQueuing);
    assert_eq!(card.seek_us(1 << 30), 0.0);
    assert_eq!(
        card.request_cost_us(4096, Some(1 << 30)),
        833.0 + 4.0 * 29.0
    );
}

#[test]
fn models_that_no_drive_has_are_found() {
    let good = DriveModel::guess(DriveClass::Rotational);
    let bad = |change: &dyn Fn(&mut DriveModel)| {
        let mut model = good.clone();
        change(&mut model);
        !model.is_sound()
    };
    assert!(bad(&|model| model.request_us = f64::NAN));
    assert!(bad(&|model| model.request_us = -1.0));
    assert!(bad(&|model| model.kib_us = 0.0));
    assert!(bad(&|model| model.stream_kib_us = f64::INFINITY));
    assert!(bad(&|model| model.queue.clear()));
    assert!(bad(&|model| model.queue.reverse()));
    assert!(bad(&|model| model.queue[0].depth = 2));
    assert!(bad(&|model| model.seeks[1].distance = 0));
    assert!(bad(&|model| model.seeks = vec![model.seeks[0]; 40]));
    let near = |bytes, us| NearCost {
        bytes,
        alone_us: us,
        queued_us: us,
    };
    assert!(!bad(
        &|model| model.near = vec![near(4096, 1.0), near(8192, 1.0)]
    ));
    assert!(bad(
        &|model| model.near = vec![near(8192, 1.0), near(4096, 1.0)]
    ));
    assert!(bad(&|model| model.near = vec![near(4096, 0.0)]));
    assert!(bad(
        &|model| model.near = (1..40).map(|n| near(n, 1.0)).collect()
    ));
}

#[test]
fn a_way_costs_no_more_than_the_bytes_that_pass() {
    let disk = DriveModel::guess(DriveClass::Rotational);
    let passing_us = |kib: f64| kib * disk.kib_us - disk.request_us;
    // While the request is on its way.
    assert_eq!(disk.seek_us(8 << 10), 0.0);
    assert!((disk.seek_us(32 << 10) - passing_us(32.0)).abs() < 1.0);
    // From the distance that was measured on.
    let more_us = passing_us(256.0) - passing_us(64.0);
    assert!((disk.seek_us(256 << 10) - 450.0 - more_us).abs() < 1.0);
    // Where a seek is sooner there.
    assert_eq!(disk.seek_us(1 << 20), 5_200.0);
    // A drive that misses the sector of the next request.
    let mut misses = disk.clone();
    misses.seeks[1].us = 8_000.0;
    misses.seeks[2].us = 9_000.0;
    assert!(misses.seek_us(256 << 10) > 8_000.0 && misses.seek_us(1 << 16) == 8_000.0);
}

proptest! {
    #[test]
    fn a_longer_way_never_costs_less(mut steps in prop::collection::vec((1..1u64 << 24, 0.0..4_000.0f64), 1..6)) {
        let mut disk = DriveModel::guess(DriveClass::Rotational);
        let (mut distance, mut us) = (0, 0.0);
        disk.seeks = steps.drain(..).map(|(farther, more)| {
            let seek = SeekCost { distance, us };
            distance += farther;
            us += more;
            seek
        }).collect();
        let costs: Vec<f64> = (0..200).map(|part| disk.seek_us(distance * part / 100)).collect();
        prop_assert!(costs.is_sorted(), "{:?} {costs:?}", disk.seeks);
    }
}

/// Within what the drive reads on by itself, leaving a hole out saves nothing; beyond, it costs a seek.
#[test]
fn holes_beyond_the_look_ahead_decide() {
    let mut disk = DriveModel::guess(DriveClass::Rotational);
    disk.request_us = 90.0;
    disk.seeks[1].us = 0.0;
    let pages = disk.hole_pages();
    assert!((100..400).contains(&pages), "{pages}");
}

#[test]
fn the_words_name_what_decides() {
    let words = CLASSES.map(|class| DriveModel::guess(class).describe());
    assert!(words[0].contains("with 32 in flight;"), "{}", words[0]);
    assert!(words[1].contains("do not help"), "{}", words[1]);
    assert!(words[1].contains("7 pages"), "{}", words[1]);
    assert!(words[2].starts_with("disk with heads"), "{}", words[2]);
    assert!(words[2].contains("which are reordered"), "{}", words[2]);
    assert!(
        words[2].contains("450 µs (64 KiB) to 16.0 ms (512 GiB)"),
        "{}",
        words[2]
    );
}
