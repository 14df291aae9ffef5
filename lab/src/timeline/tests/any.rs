//! What holds for every timeline, whatever was recorded.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// As long and busy as launches get, and longer: nothing repeats and nothing is adjacent.
#[test]
fn the_file_stays_small() {
    let mut events = Vec::new();
    for number in 0..40_000_u64 {
        let time = number * 700 + number % 37;
        events.push((time, issue(number, By::Tree, 60, number * 3, 1)));
        events.push((time + 10, wait(60, None)));
        events.push((time + 300 + number % 91, What::Done(number)));
        events.push((time + 420 + number % 53, What::In(60)));
        events.push((time + 421, What::Added(By::Helper, place(number * 3, 1))));
        events.push((time + 421, What::Touched(place(number * 3, 1))));
    }
    let parts: Vec<(u64, u64)> = (0..40_000).map(|number| (number * 3, 1)).collect();
    let entries: Vec<PrefetchEntry> = parts
        .iter()
        .map(|&(start, len)| entry(start, len))
        .collect();
    let mut raw = raw(&events);
    raw.names.insert(FILE, "/usr/lib/".repeat(30));
    let timeline = analyse(&raw, &learned_set(&parts), &entries, facts(28.0));
    let bytes = serde_json::to_vec(&timeline).unwrap().len();
    assert!(bytes < 500_000, "{bytes} bytes");
    // The sums are those of before.
    assert!(
        timeline.summary().contains("40000 misses"),
        "{}",
        timeline.summary()
    );
    assert!(timeline.misses.len() > 1000);
    assert_eq!(timeline.app_position.last().unwrap()[1], 40_000);
    check(&timeline);
}

/// What holds for every timeline.
fn check(timeline: &Timeline) {
    for series in [&timeline.cpu, &timeline.waiting] {
        assert!(series.iter().all(|part| part[0] < part[1] && part[2] > 0));
        // Adjacent intervals differ, or they would be one.
        let pairs = || series.windows(2).map(|pair| (pair[0], pair[1]));
        assert!(pairs().all(|(one, next)| one[1] <= next[0]));
        assert!(pairs().all(|(one, next)| one[1] < next[0] || one[2] != next[2]));
    }
    let all = [&timeline.queue, &timeline.prefetch, &timeline.app_position];
    for steps in all {
        assert!(steps.windows(2).all(|pair| pair[0][0] < pair[1][0]));
    }
    for steps in &all[1..] {
        assert!(steps.windows(2).all(|pair| pair[0][1] < pair[1][1]));
        assert!(steps.iter().all(|step| step[1] <= timeline.total_pages));
    }
    let misses = &timeline.misses;
    assert!(
        misses
            .windows(2)
            .all(|pair| pair[0].time_us <= pair[1].time_us)
    );
}

fn any_place() -> impl Strategy<Value = Place> {
    (0..3_u64, 0..60_u64, 1..9_u64).prop_map(|(ino, start, pages)| Place {
        file: FileId {
            ino: ino * 6,
            generation: if ino == 2 { 5 } else { 0 },
            ..FILE
        },
        start,
        pages,
    })
}

fn any_what() -> impl Strategy<Value = What> {
    let by = prop_oneof![Just(By::Tree), Just(By::Helper), Just(By::Other)];
    let pid = 1..4_u32;
    prop_oneof![
        pid.clone().prop_map(What::Fork),
        (pid.clone(), pid.clone()).prop_map(|(pid, was)| What::Exec { pid, was }),
        pid.clone().prop_map(What::In),
        (
            pid.clone(),
            any::<bool>(),
            proptest::option::of(any_place())
        )
            .prop_map(|(pid, io_wait, place)| What::Out {
                pid,
                io_wait,
                place
            }),
        pid.clone().prop_map(What::Gone),
        (0..5_u64, any::<bool>(), pid, by.clone(), any_place()).prop_map(
            |(request, write, pid, by, place)| What::Issue {
                request,
                sector: place.start,
                bytes: place.pages * 4096,
                write,
                pid,
                by,
                place: Some(place),
            }
        ),
        (0..5_u64).prop_map(What::Done),
        (by, any_place()).prop_map(|(by, place)| What::Added(by, place)),
        any_place().prop_map(What::Touched),
    ]
}

proptest! {
    #[test]
    fn any_recording_gives_a_sound_timeline(
        events in vec((0..3000_u64, any_what()), 0..200),
        parts in vec((0..8_u64, 1..7_u64), 0..8),
        seconds in prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), 0.0..0.004],
    ) {
        let parts: Vec<_> = parts.iter().map(|(start, len)| (start * 7, *len)).collect();
        let recording = raw(&events);
        let set = learned_set(&parts);
        let timeline = analyse(&recording, &set, &[entry(3, 9)], facts(seconds));
        check(&timeline);
        // Five requests have names: no more can be in flight.
        prop_assert!(timeline.queue.iter().all(|step| step[1] <= 5));
        prop_assert!(timeline.cpu.iter().chain(&timeline.waiting).all(|part| part[2] <= 3));
        let whole = timeline.window.unwrap_or(0.0).max(timeline.seconds).min(3600.0) * 1e6;
        let end = whole.ceil() as u64;
        prop_assert!(timeline.cpu.iter().all(|part| part[1] <= end));
        prop_assert!(timeline.misses.iter().all(|miss| miss.time_us < end));
        prop_assert!(!timeline.summary().is_empty());
    }
}
