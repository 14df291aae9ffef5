//! What a probe reads, in which order, and how much of it at most; and what the times of its reads say. Pure.

use std::time::Duration;

use crate::model::{PAGE_SIZE, ProbeSample, ReadPattern};

/// One kind of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeStep {
    /// How they follow each other.
    pub pattern: ReadPattern,
    /// Bytes of each.
    pub bytes: u64,
    /// How many are in flight.
    pub depth: u32,
    /// Most reads.
    pub most: u32,
    /// Longest time in which reads are begun.
    pub time: Duration,
    /// Whether it is measured: the first reads only wake up drive and processor.
    pub counts: bool,
}

/// Bytes of large reads.
const LARGE: u64 = 128 << 10;

/// Bytes of the largest reads, about the largest requests that most drives take. What a command costs weighs less in
/// them than in large ones, which tells what long prefetch entries cost where commands are slow.
const LARGEST: u64 = 512 << 10;

/// Requests in flight while reading in sequence.
const SEQUENCE_DEPTH: u32 = 8;

/// Distances of strides, in bytes.
const STRIDES: [u64; 8] = [
    0,
    1 << 16,
    1 << 20,
    1 << 24,
    1 << 28,
    1 << 32,
    1 << 35,
    1 << 38,
];

/// Time for all strides together, in ms.
const STRIDES_MS: u64 = 440;

/// Bytes of near reads, with the most reads that are made one at a time and with the queue filled. Larger ones need not be
/// measured: see [`DriveModel::fit`](crate::model::DriveModel::fit).
const NEAR: [(u64, u32, u32); 3] = [
    (PAGE_SIZE, 64, 384),
    (4 * PAGE_SIZE, 48, 160),
    (8 * PAGE_SIZE, 32, 112),
];

/// Requests in flight where the queue is filled.
const FILLED: u32 = 32;

/// The steps for a drive that spans so many bytes. They are begun within 2 s, and read less than 32 MiB.
pub fn plan(span: u64) -> Vec<ProbeStep> {
    let step = |pattern, bytes, depth, most, ms| ProbeStep {
        pattern,
        bytes,
        depth,
        most,
        time: Duration::from_millis(ms),
        counts: true,
    };
    let random = |bytes, depth, most, ms| step(ReadPattern::Random, bytes, depth, most, ms);
    let mut steps = vec![
        ProbeStep {
            counts: false,
            ..random(PAGE_SIZE, 1, 64, 60)
        },
        random(PAGE_SIZE, 1, 256, 280),
        random(LARGE, 1, 24, 160),
        random(LARGEST, 1, 5, 60),
        random(PAGE_SIZE, 8, 512, 170),
        random(PAGE_SIZE, FILLED, 1536, 330),
        step(ReadPattern::Sequential, LARGE, SEQUENCE_DEPTH, 54, 130),
    ];
    for (bytes, alone, queued) in NEAR {
        steps.push(step(ReadPattern::Near, bytes, 1, alone, 50));
        steps.push(step(ReadPattern::Near, bytes, FILLED, queued, 60));
    }
    // Further apart than half the span, reads would only go back and forth.
    let mut strides = STRIDES.to_vec();
    strides.retain(|&distance| distance <= span / 2);
    let ms = STRIDES_MS / strides.len() as u64;
    steps.extend(strides.into_iter().map(|distance| ProbeStep {
        pattern: ReadPattern::Stride(distance),
        ..random(PAGE_SIZE, 1, 16, ms)
    }));
    steps
}

/// Where a read of a stride goes, as a distance that varies by an eighth: a drive may remember what it has read.
/// `share` is 0 to 1.
pub fn vary(distance: u64, share: f64) -> u64 {
    let eighth = distance as f64 / 8.0;
    (distance as f64 + eighth * (2.0 * share - 1.0)) as u64
}

/// Groups of completions of which the median counts.
const MOST_GROUPS: usize = 8;

/// Samples of reads that were in flight together, from the times of their completions, in µs and in order; only those
/// before the queue began to run empty. A group is so large that it holds the queue several times over.
pub fn samples_of_completions(step: &ProbeStep, completions: &[f64]) -> Vec<ProbeSample> {
    let intervals = completions.len().saturating_sub(1);
    if intervals == 0 {
        return Vec::new();
    }
    let groups = (intervals / (4 * step.depth as usize)).clamp(1, MOST_GROUPS);
    let boundary = |group: usize| intervals * group / groups;
    (0..groups)
        .map(|group| {
            let (from, to) = (boundary(group), boundary(group + 1));
            let us = (completions[to] - completions[from]) / (to - from) as f64;
            step.sample(us)
        })
        .collect()
}

impl ProbeStep {
    /// A sample of this step.
    pub fn sample(&self, us: f64) -> ProbeSample {
        ProbeSample {
            pattern: self.pattern,
            bytes: self.bytes,
            depth: self.depth,
            us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_bounded_in_time_and_bytes() {
        for span in [0, 64 << 20, 1 << 30, 1 << 40, u64::MAX] {
            let steps = plan(span);
            let time: Duration = steps.iter().map(|step| step.time).sum();
            let bytes: u64 = steps
                .iter()
                .map(|step| step.bytes * u64::from(step.most))
                .sum();
            assert!(time <= Duration::from_millis(1960), "{time:?}");
            assert!(bytes <= 32 << 20, "{bytes}");
            let far = |step: &ProbeStep| matches!(step.pattern, ReadPattern::Stride(far) if far > span / 2);
            assert!(!steps.iter().any(far));
        }
        assert_eq!(plan(1 << 40).len(), 21);
    }

    #[test]
    fn rates_are_of_groups_and_a_pause_is_in_one_of_them() {
        let step = ProbeStep {
            depth: 8,
            ..plan(0)[4]
        };
        assert_eq!(samples_of_completions(&step, &[]), []);
        assert_eq!(samples_of_completions(&step, &[5.0]), []);
        let few: Vec<f64> = (0..30).map(|n| f64::from(n) * 10.0).collect();
        assert_eq!(samples_of_completions(&step, &few), [step.sample(10.0)]);
        let paused = |n: i32| f64::from(n) * 10.0 + if n > 100 { 1e6 } else { 0.0 };
        let many: Vec<f64> = (0..500).map(paused).collect();
        let samples = samples_of_completions(&step, &many);
        assert_eq!(samples.len(), 8);
        assert_eq!(samples.iter().filter(|sample| sample.us > 10.5).count(), 1);
    }

    #[test]
    fn strides_vary_by_an_eighth() {
        assert_eq!(vary(0, 0.7), 0);
        assert_eq!(vary(800, 0.0), 700);
        assert_eq!(vary(800, 1.0), 900);
    }
}
