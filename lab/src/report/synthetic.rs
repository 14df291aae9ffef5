//! Made-up results for tests of reports: what a session on one drive could leave behind.

use crate::record::{Launch, Learned, Record, Session};
use crate::timeline::{Idle, Miss, Timeline, Why};

/// Apps, with their cold time in seconds and the warm share of it.
pub const APPS: &[(&str, f64, f64)] = &[
    ("gimp", 2.4, 0.42),
    ("libreoffice-writer", 0.9, 0.21),
    ("libreoffice-impress", 1.1, 0.24),
    ("chromium", 2.3, 0.20),
    ("inkscape", 1.3, 0.31),
    ("scribus", 1.6, 0.35),
    ("okular", 0.8, 0.28),
    ("vlc", 0.7, 0.30),
    ("blender", 1.9, 0.52),
    ("extreme-tux-racer", 1.0, 0.55),
];

/// Scenarios, and which share of the gap between cold and warm each closes.
pub const SCENARIOS: &[(&str, f64)] = &[
    ("cold", 0.0),
    ("warm", 1.0),
    ("only-as-read", 0.86),
    ("only-exact", 1.08),
    ("gsoc", 0.28),
    ("sorted", 0.36),
    ("fast", 0.52),
    ("traced", 0.66),
    ("shift", 0.73),
    ("shift+merge", 0.77),
    ("exact", 0.88),
    ("infill", 0.93),
];

/// A drive's records: a session, learned sets, and launches of `scenarios` in `turns` turns.
pub fn records(
    device: &str,
    apps: &[(&str, f64, f64)],
    scenarios: &[(&str, f64)],
    turns: u32,
) -> Vec<Record> {
    let mut records = vec![Record::Session(Session {
        started: 1_770_000_000,
        device: device.to_owned(),
        drive: "QLC SATA class, CQ 32; 4 KiB random 7,400/s at depth 1, 540 MB/s".to_owned(),
        kernel: "6.18.0".to_owned(),
        machine: "2 processors, 24 GiB".to_owned(),
        version: "0.1.0".to_owned(),
        read_ahead_kb: 128,
        costs: None,
    })];
    for (index, (app, cold, _)) in apps.iter().enumerate() {
        let size = (cold * 3000.0) as u64;
        records.push(Record::Learned(Learned {
            device: device.to_owned(),
            app: (*app).to_owned(),
            how: "exact".to_owned(),
            log_entries: size * 2,
            entries: size,
            metadata_bytes: size * 200,
            data_bytes: size * 12_000,
            files: 200 + index as u64,
            seconds: cold * 3.1,
            ..Learned::default()
        }));
    }
    for turn in 0..turns {
        for (index, app) in apps.iter().enumerate() {
            for (place, scenario) in scenarios.iter().enumerate() {
                let noise = noise(u64::from(turn) * 1009 + index as u64 * 31 + place as u64 * 7);
                records.push(Record::Launch(launch(device, *app, *scenario, turn, noise)));
            }
        }
    }
    records
}

fn launch(
    device: &str,
    (app, cold, warm): (&str, f64, f64),
    (scenario, closed): (&str, f64),
    turn: u32,
    noise: f64,
) -> Launch {
    // Apps differ in how much a prefetcher gains.
    let skew = if closed > 0.0 && closed < 1.0 {
        (app.len() % 5) as f64 * 0.03 - 0.06
    } else {
        0.0
    };
    let time = cold * (1.0 - (closed + skew) * (1.0 - warm)) * (1.0 + noise * 0.04);
    let only = scenario.starts_with("only-");
    let disturbed = turn == 1 && app == "vlc" && scenario == "gsoc";
    let late = if app == "okular" { 1.18 } else { 1.04 };
    Launch {
        device: device.to_owned(),
        app: app.to_owned(),
        scenario: scenario.to_owned(),
        turn,
        started: 1_770_000_000 + u64::from(turn) * 900,
        window: (!only).then_some(time),
        completion: (!only).then_some(time * late),
        exit: only.then_some(time),
        app_requests: (cold * 1500.0 * (1.0 - closed).max(0.0)) as u64,
        app_bytes: (cold * 4e7 * (1.0 - closed).max(0.0)) as u64,
        prefetch_requests: if closed > 0.0 {
            (cold * 900.0) as u64
        } else {
            0
        },
        prefetch_bytes: if closed > 0.0 { (cold * 5e7) as u64 } else { 0 },
        cpu: cold * warm,
        effort: None,
        emulator_cpu: 0.1,
        disturbed: if disturbed {
            vec!["steal 8 %".to_owned()]
        } else {
            Vec::new()
        },
        served: None,
        beside: None,
        shield: Vec::new(),
    }
}

/// −1..1, and always the same for the same number.
fn noise(number: u64) -> f64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 40;
    mixed as f64 / f64::from(1 << 23) - 1.0
}

/// A prefetched launch as it could have been recorded.
pub fn timeline(device: &str, app: &str, scenario: &str) -> Timeline {
    let end = 1_240_000;
    let prefetching = scenario != "cold";
    let pages = 12_000;
    let reading = if prefetching { 0.55 } else { 0.95 };
    let steps = |from: u64, until: u64| (from..until).step_by(900);
    let place = |time: u64| time as f64 / end as f64;
    let depth = |time: u64| match noise(time) {
        _ if place(time) > reading + 0.1 => 0,
        noise if prefetching => (14.0 + 4.0 * noise + 13.0 * self::noise(time / 41_000)) as u64,
        noise => u64::from(noise > -0.6),
    };
    let entry = |index: u64, sorted: bool| {
        let metadata = index.is_multiple_of(17);
        let file = if sorted { index / 40 } else { index / 12 };
        let spread = ((noise(file) + 1.0) * 4e6) as u64;
        let sector = if metadata {
            2_000_000 * (file % 5)
        } else {
            600_000 + spread
        };
        [
            index,
            sector + index % 40 * 8,
            1 + index % 5,
            u64::from(metadata),
        ]
    };
    let miss = |index: u64| Miss {
        time_us: 30_000 + index * 83_000,
        wait_us: 300 + index * 140,
        what: if index.is_multiple_of(4) {
            "inode table".into()
        } else {
            format!("/usr/lib/lib{app}-{index}.so")
        },
        offset: index * 11,
        pages: 1 + index % 4,
        why: if index.is_multiple_of(3) {
            Why::CameTooLate
        } else {
            Why::NotInProfile
        },
    };
    let curve = |speed: f64| {
        let so_far =
            move |time: u64| (pages as f64 * (place(time) / speed).min(1.0).powf(0.9)) as u64;
        steps(4_000, end)
            .map(move |time| [time, so_far(time)])
            .collect()
    };
    // Launches go through phases of some tens of milliseconds.
    let tasks = |most: f64, seed: u64| {
        let count = move |time: u64| {
            let (phase, moment) = (noise(time / 37_000 + seed), noise(time + seed));
            ((phase * 0.4 + moment * 0.3 + 0.5) * most).round().max(0.0) as u64
        };
        steps(0, end)
            .map(move |time| [time, time + 800, count(time)])
            .collect()
    };
    Timeline {
        device: device.to_owned(),
        app: app.to_owned(),
        scenario: scenario.to_owned(),
        seconds: end as f64 / 1e6,
        window: Some(1.1),
        completion: Some(1.17),
        cpu: tasks(2.0, 3),
        waiting: tasks(if prefetching { 0.8 } else { 1.6 }, 11),
        idle: Some(Idle::of([(3_000, 40_000), (180_000, 900_000)])),
        background: prefetching.then(|| vec![[200_000, 240_000, 1], [700_000, 712_000, 2]]),
        background_us: prefetching.then_some(52_000),
        queue: steps(2_000, end).map(|time| [time, depth(time)]).collect(),
        prefetch: if prefetching { curve(0.6) } else { Vec::new() },
        app_position: curve(0.95),
        total_pages: pages,
        misses: (0..if prefetching { 13 } else { 0 }).map(miss).collect(),
        before: (0..2400).map(|index| entry(index, false)).collect(),
        after: (0..1500).map(|index| entry(index, true)).collect(),
        totals: None,
    }
}

/// Records as a `results.jsonl`.
pub fn lines(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).expect("a record can be written") + "\n";
    records.iter().map(line).collect()
}
