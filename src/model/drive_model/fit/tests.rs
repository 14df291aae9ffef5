//! Fits of drives that are known.

use proptest::prelude::*;

use super::*;

/// A drive that answers by formula.
#[derive(Clone, Copy, Debug)]
struct Synthetic {
    request_us: f64,
    kib_us: f64,
    /// Requests that it works on at a time.
    parallel: u32,
    /// The longest seek, if it has heads.
    seek_us: Option<f64>,
}

const SPAN: u64 = 1 << 36;

impl Synthetic {
    fn seek(&self, distance: u64) -> f64 {
        let share = distance as f64 / SPAN as f64;
        match self.seek_us {
            Some(_) if distance == 0 => 0.0,
            Some(longest) => 1000.0 + (longest - 1000.0) * share.powf(0.1),
            None => 0.0,
        }
    }

    fn random_us(&self, bytes: u64, depth: u32) -> f64 {
        let bytes_us = bytes as f64 / 1024.0 * self.kib_us;
        let alone = self.request_us + self.seek(SPAN / 3) + bytes_us;
        let helped = depth.min(self.parallel);
        // A disk's queue shortens seeks; flash works on several requests.
        match self.seek_us {
            Some(_) => alone / f64::from(helped).sqrt(),
            None => (alone / f64::from(helped)).max(bytes_us),
        }
    }

    /// Samples as a probe takes them, with noise: `noise` gives a factor each.
    fn samples(&self, mut noise: impl FnMut() -> f64) -> Vec<ProbeSample> {
        let mut samples = Vec::new();
        let mut add = |pattern, bytes: u64, depth, count, us: f64| {
            for _ in 0..count {
                let us = us * noise();
                samples.push(ProbeSample {
                    pattern,
                    bytes,
                    depth,
                    us,
                });
            }
        };
        for depth in [1, 8, 32] {
            let us = self.random_us(PAGE_SIZE, depth);
            add(ReadPattern::Random, PAGE_SIZE, depth, 31, us);
        }
        add(
            ReadPattern::Random,
            128 << 10,
            1,
            31,
            self.random_us(128 << 10, 1),
        );
        add(
            ReadPattern::Sequential,
            128 << 10,
            8,
            9,
            128.0 * self.kib_us,
        );
        for distance in [0, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 32, 1 << 35] {
            let us = self.request_us + 4.0 * self.kib_us + self.seek(distance);
            // The probe's steps vary by an eighth.
            add(
                ReadPattern::Stride(distance + distance / 8),
                PAGE_SIZE,
                1,
                9,
                us,
            );
        }
        samples
    }
}

const SSD: Synthetic = Synthetic {
    request_us: 120.0,
    kib_us: 2.0,
    parallel: 16,
    seek_us: None,
};

const DISK: Synthetic = Synthetic {
    request_us: 150.0,
    kib_us: 6.8,
    parallel: 32,
    seek_us: Some(16_000.0),
};

const CARD: Synthetic = Synthetic {
    request_us: 830.0,
    kib_us: 30.0,
    parallel: 1,
    seek_us: None,
};

fn exact(drive: Synthetic) -> DriveModel {
    DriveModel::fit(&drive.samples(|| 1.0)).unwrap()
}

#[test]
fn drives_of_each_kind_are_told_apart() {
    let [ssd, disk, card] = [SSD, DISK, CARD].map(exact);
    assert!(!ssd.has_heads() && !card.has_heads() && disk.has_heads());
    assert_eq!(
        [ssd, disk.clone(), card.clone()].map(|model| model.useful_depth()),
        [32, 32, 1]
    );
    assert!(disk.reorders() && !card.reorders());
    assert_eq!(card.hole_pages(), 7);
    assert!((card.request_us - 830.0).abs() < 1e-6 && (card.kib_us - 30.0).abs() < 1e-6);
    assert!((disk.request_us - 150.0).abs() < 1e-6, "{disk:?}");
    assert!(
        (disk.seek_us(1 << 28) - DISK.seek(1 << 28)).abs() < 1.0,
        "{disk:?}"
    );
}

/// Near reads of some sizes, as a probe takes them.
fn near_samples(alone: &[(u64, f64)], queued: &[(u64, f64)]) -> Vec<ProbeSample> {
    let sample = |&(bytes, us): &(u64, f64), depth| ProbeSample {
        pattern: ReadPattern::Near,
        bytes,
        depth,
        us,
    };
    let alone = alone.iter().map(|cost| sample(cost, 1));
    let queued = queued.iter().map(|cost| sample(cost, 32));
    alone.chain(queued).collect()
}

#[test]
fn what_being_far_adds_is_told_from_what_a_read_costs() {
    let mut samples = CARD.samples(|| 1.0);
    // Random ones wait 200 µs for their addresses, and a read of two pages is no dearer than one of a page.
    let alone = [(4096, 750.0), (8192, 740.0), (32 << 10, 1600.0)];
    let queued = [(4096, 740.0), (8192, 760.0), (32 << 10, 1700.0)];
    samples.extend(near_samples(&alone, &queued));
    let card = DriveModel::fit(&samples).unwrap();
    let single = CARD.random_us(4096, 1);
    assert_eq!(card.near_us(4096), 745.0);
    assert_eq!(card.near_us(8192), 745.0);
    assert_eq!(card.near_us(20 << 10), (745.0 + 1600.0) / 2.0);
    let far_us = single - 745.0;
    let large_us = CARD.random_us(128 << 10, 1) - (single - 750.0);
    assert!(
        (card.near_us(128 << 10) - large_us).abs() < 1e-6,
        "{card:?}"
    );
    assert!((card.far_us().0 - far_us).abs() < 1e-6, "{card:?}");
    assert_eq!(
        card.near_queued_us(32 << 10),
        1600.0,
        "no dearer than alone"
    );
    assert!(card.is_sound() && card.is_order_decisive() && !card.is_queued());
    // Without those of a page nothing is near.
    let mut few = CARD.samples(|| 1.0);
    few.extend(near_samples(&alone[1..], &queued[1..]));
    assert_eq!(DriveModel::fit(&few), Ok(exact(CARD)));
    // Nor on a disk.
    let mut disk = DISK.samples(|| 1.0);
    disk.extend(near_samples(&alone, &queued));
    assert_eq!(DriveModel::fit(&disk), Ok(exact(DISK)));
}

/// All random reads may wait for the same table of addresses, while near ones help each other.
#[test]
fn a_queue_is_seen_by_near_reads_too() {
    let mut samples = CARD.samples(|| 1.0);
    samples.extend(near_samples(&[(4096, 750.0)], &[(4096, 100.0)]));
    let model = DriveModel::fit(&samples).unwrap();
    assert_eq!(model.useful_depth(), 1);
    assert!(model.is_queued() && !model.is_order_decisive());
}

/// A remote drive takes milliseconds for each read, wherever it is: no heads are seen.
#[test]
fn slow_is_not_far() {
    let remote = exact(Synthetic {
        request_us: 9000.0,
        ..CARD
    });
    assert!(!remote.has_heads());
}

#[test]
fn what_is_missing_is_named() {
    let all = SSD.samples(|| 1.0);
    let without = |unwanted: &dyn Fn(&ProbeSample) -> bool| {
        let some: Vec<ProbeSample> = all
            .iter()
            .copied()
            .filter(|sample| !unwanted(sample))
            .collect();
        DriveModel::fit(&some)
    };
    let random = |sample: &ProbeSample| sample.pattern == ReadPattern::Random;
    assert_eq!(without(&random), Err(FitError::NoSingle));
    let in_sequence = |sample: &ProbeSample| sample.pattern == ReadPattern::Sequential;
    assert_eq!(without(&in_sequence), Err(FitError::NoSequence));
    assert_eq!(
        DriveModel::fit(&SSD.samples(|| 0.0)),
        Err(FitError::Unsound)
    );
    assert_eq!(
        DriveModel::fit(&SSD.samples(|| f64::NAN)),
        Err(FitError::NoSingle)
    );
    // The rest is not needed.
    let few = without(&|sample| !in_sequence(sample) && (!random(sample) || sample.depth > 1));
    assert_eq!(
        few.map(|model| (model.useful_depth(), model.has_heads())),
        Ok((1, false))
    );
}

#[test]
fn values_out_of_order_are_pooled() {
    let mut points = [(1, 1.0), (2, 5.0), (3, 3.0), (4, 4.0), (5, 9.0)];
    make_monotone(&mut points, |low, high| low <= high);
    assert_eq!(points.map(|(_, value)| value), [1.0, 4.0, 4.0, 4.0, 9.0]);
    make_monotone(&mut points, |high, low| high >= low);
    assert_eq!(points.map(|(_, value)| value), [4.4; 5]);
}

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() <= 0.15
}

proptest! {
    /// With a noise of 10 % each way and one read in ten held up for long, what the model predicts is within 15 % of
    /// what the drive does.
    #[test]
    fn noisy_drives_are_recognised(
        request_us in 20.0..2000.0f64,
        kib_us in 0.3..50.0f64,
        parallel in prop::sample::select(vec![1u32, 8, 32]),
        seek_us in prop::option::of(8000.0..25_000.0f64),
        noise in prop::collection::vec(0.9..1.1f64, 400),
        held_up in 0..10usize,
    ) {
        let drive = Synthetic { request_us, kib_us, parallel, seek_us };
        let mut noise = noise.iter().cycle().enumerate();
        let samples = drive.samples(|| match noise.next() {
            Some((index, factor)) if index % 10 == held_up => factor * 20.0,
            Some((_, factor)) => *factor,
            None => 1.0,
        });
        let model = DriveModel::fit(&samples).unwrap();
        prop_assert!(model.is_sound());
        prop_assert_eq!(model.has_heads(), seek_us.is_some());
        for depth in [1, 8, 32] {
            prop_assert!(near(model.queued_us(depth), drive.random_us(PAGE_SIZE, depth)), "{}: {:?}", depth, model);
        }
        let large = model.request_cost_us(128 << 10, None);
        prop_assert!(near(large, drive.random_us(128 << 10, 1)), "{}: {:?}", large, model);
        prop_assert!(near(model.stream_kib_us, kib_us));
        if seek_us.is_some() {
            let far = model.request_cost_us(PAGE_SIZE, Some(1 << 28));
            let truth = request_us + 4.0 * kib_us + drive.seek(1 << 28);
            prop_assert!(near(far, truth), "{} for {}: {:?}", far, truth, model);
        }
        prop_assert!(model.describe().contains("measured"));
    }
}
