//! What the product's simulation predicts of drives, held against the emulated ones.

use paralfetch::model::{
    DriveClass, DriveModel, LogEntry, PAGE_SIZE, Params, Place, PrefetchEntry, ProbeSample,
    ReadPattern, Span,
};
use paralfetch::schedule::{LaunchSimulator, RegionPlan, regional, schedule};

use super::*;

/// The drive that images are on, in bytes.
const DISK: u64 = 16 << 30;

/// Largest request that the kernel makes, in bytes.
const LARGEST: u64 = 128 << 10;

/// Requests that the kernel has in flight.
const DEPTH: usize = 32;

/// The prediction may be so far off, as a share.
const TOLERANCE: f64 = 0.15;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// When each of these reads, so many in flight, is complete, in µs, in order of completion.
fn completions_us(drive: &DriveProfile, reads: &[(u64, u64)], depth: usize) -> Vec<f64> {
    let mut model = Model::new(drive, DISK).unwrap();
    let mut coming = reads.iter();
    let mut pending: Vec<(u64, Ticket, bool)> = Vec::new();
    let (mut now, mut done) = (0, Vec::new());
    loop {
        while pending.len() < depth {
            let Some(&(offset, length)) = coming.next() else {
                break;
            };
            pending.push((now, model.arrive(read(offset, length, now)), false));
        }
        pending.sort_by_key(|(time, ..)| *time);
        if pending.is_empty() {
            return done;
        }
        let (time, ticket, known) = pending.remove(0);
        now = time;
        if known {
            done.push(now as f64 / 1e3);
            continue;
        }
        match model.ask(ticket, now) {
            Timing::Complete(time) => pending.push((time, ticket, true)),
            Timing::AskAt(time) => pending.push((time, ticket, false)),
        }
    }
}

/// The model that a probe would make of the drive.
fn probed(drive: &DriveProfile) -> DriveModel {
    let mut numbers = Numbers(1);
    let mut samples = Vec::new();
    let mut sample = |pattern, bytes, depth: usize, reads: &[(u64, u64)]| {
        let ends = completions_us(drive, reads, depth);
        for part in ends.chunks(ends.len() / 8) {
            samples.push(ProbeSample {
                pattern,
                bytes,
                depth: depth as u32,
                us: (part[part.len() - 1] - part[0]) / (part.len() - 1) as f64,
            });
        }
    };
    for depth in [1, 8, DEPTH] {
        let reads: Vec<_> = (0..2_000)
            .map(|_| (numbers.below(DISK / PAGE_SIZE) * PAGE_SIZE, PAGE_SIZE))
            .collect();
        sample(ReadPattern::Random, PAGE_SIZE, depth, &reads);
    }
    for bytes in [4096, 16384, 32768] {
        for depth in [1, DEPTH] {
            let place = bytes + PAGE_SIZE;
            let places = (4 << 20) / place;
            let base = numbers.below(DISK / PAGE_SIZE - 2048) * PAGE_SIZE;
            let reads: Vec<_> = (0..places)
                .map(|index| (base + index * 617 % places * place, bytes))
                .collect();
            sample(ReadPattern::Near, bytes, depth, &reads);
        }
    }
    let large = LARGEST;
    let reads: Vec<_> = (0..400)
        .map(|_| (numbers.below(DISK / large) * large, large))
        .collect();
    sample(ReadPattern::Random, large, 1, &reads);
    let reads: Vec<_> = (0..400).map(|index| (index * large, large)).collect();
    sample(ReadPattern::Sequential, large, 8, &reads);
    for distance in [0, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 32] {
        let mut at = 0;
        let reads: Vec<_> = (0..64)
            .map(|_| {
                // By an eighth to either side, as the product's probe does.
                let part = numbers.below((distance / 4 / PAGE_SIZE).max(1)) * PAGE_SIZE;
                at = (at + PAGE_SIZE + distance - distance / 8 + part) % DISK;
                (at, PAGE_SIZE)
            })
            .collect();
        sample(ReadPattern::Stride(distance), PAGE_SIZE, 1, &reads);
    }
    DriveModel::fit(&samples).unwrap()
}

/// Pages of files all over the disk, as an exact learning run finds them: near each other in a file, with holes of
/// all sizes.
fn launch() -> Vec<LogEntry> {
    let mut numbers = Numbers(7);
    let mut log: Vec<LogEntry> = Vec::new();
    for file in 0..120u32 {
        let base = numbers.below(DISK / PAGE_SIZE / 2);
        let mut page = 0;
        for _ in 0..numbers.below(30) {
            let len = 1 + numbers.below(8);
            log.push(LogEntry {
                span: Span {
                    place: Place::Data { file },
                    start: page,
                    len,
                },
                device: 0,
                lba: (base + page) * 8,
                time_us: log.len() as u64,
            });
            let bits = numbers.below(9);
            page += len + 1 + numbers.below(1 << bits);
        }
    }
    log
}

/// The same in the order of accesses: files are read a few pages at a time, in turns.
fn accessed() -> Vec<LogEntry> {
    let mut numbers = Numbers(3);
    let mut files: Vec<Vec<LogEntry>> = launch()
        .chunk_by(|a, b| a.span.place == b.span.place)
        .map(<[LogEntry]>::to_vec)
        .collect();
    let mut log = Vec::new();
    while !files.is_empty() {
        // Programs begin with a few files and come to others later.
        let file = numbers.below(files.len().min(12) as u64) as usize;
        let count = (1 + numbers.below(6) as usize).min(files[file].len());
        log.extend(files[file].drain(..count));
        if files[file].is_empty() {
            files.remove(file);
        }
    }
    for (entry, time_us) in log.iter_mut().zip(0..) {
        entry.time_us = time_us;
    }
    log
}

fn emulated_us(drive: &DriveProfile, log: &[LogEntry], schedule: &[PrefetchEntry]) -> f64 {
    let mut reads = Vec::new();
    for entry in schedule {
        let first = log
            .iter()
            .find(|at| (at.span.place, at.span.start) == (entry.span.place, entry.span.start));
        let (mut at, end) = (first.unwrap().lba * 512, entry.span.bytes());
        let end = at + end;
        while at < end {
            let bytes = LARGEST.min(end - at);
            reads.push((at, bytes));
            at += bytes;
        }
    }
    let ends = completions_us(drive, &reads, DEPTH);
    ends[ends.len() - 1]
}

/// Errors of predictions beyond the tolerance.
fn wrong(drive: &str, log: &[LogEntry], schedules: &[(String, Vec<PrefetchEntry>)]) -> Vec<String> {
    let drive = profile(drive);
    let models = [probed(&drive)];
    let simulator = LaunchSimulator::new(log, &models, paralfetch::model::Learned::Exact);
    let mut wrong = Vec::new();
    for (name, schedule) in schedules {
        let predicted = simulator.simulate(schedule, schedule.len()).held_us;
        let measured = emulated_us(&drive, log, schedule);
        if (predicted / measured - 1.0).abs() > TOLERANCE {
            wrong.push(format!(
                "{}, {name}: {predicted:.0} µs, not {measured:.0}; {}",
                drive.name,
                models[0].describe()
            ));
        }
    }
    wrong
}

#[test]
fn a_sweep_over_the_disk_takes_what_is_predicted_with_any_hole() {
    let log = launch();
    let sweep = |hole| {
        let schedule = regional(&log, &RegionPlan::one(hole)).entries;
        (format!("holes of {hole} pages"), schedule)
    };
    let wrong = wrong("hdd", &log, &[0, 2, 8, 32, 128, 512].map(sweep));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn flash_takes_what_is_predicted_in_the_order_of_accesses_and_in_regions() {
    let log = accessed();
    let mut schedules = Vec::new();
    for class in [DriveClass::CommandQueuing, DriveClass::NoCommandQueuing] {
        let params = Params::for_device(class, true);
        schedules.push((format!("{class:?}"), schedule(&log, &params)));
    }
    for count in [1, 4, 32] {
        for hole_pages in [0, 2, 8] {
            let length_us = (log.len() as u64).div_ceil(count);
            let plan = RegionPlan {
                first_us: length_us,
                length_us,
                hole_pages,
                shift_bytes: 0,
            };
            let name = format!("{count} regions, holes of {hole_pages} pages");
            schedules.push((name, regional(&log, &plan).entries));
        }
    }
    let drives = ["qlc-sata", "ufs", "emmc", "microsd"];
    let wrong: Vec<String> = (drives.into_iter())
        .flat_map(|drive| wrong(drive, &log, &schedules))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
