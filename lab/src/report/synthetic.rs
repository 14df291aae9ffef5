//! Made-up results for tests of reports: what a session on one drive could leave behind.

use crate::record::{Launch, Learned, Record, Session};
use crate::scenarios;

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
    let only = scenarios::is_prefetch_only(scenario);
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

/// Records as a `results.jsonl`.
pub fn lines(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).expect("a record can be written") + "\n";
    records.iter().map(line).collect()
}
