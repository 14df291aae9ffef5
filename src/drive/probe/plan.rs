//! What a probe reads, in which order, and how much of it at most; and what the times of its reads say. Pure.

use std::time::Duration;

use crate::model::{DriveCosts, PAGE_SIZE, median};
use crate::schedule::formula::FAR_SEEK_US;

/// How the reads of a step follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPattern {
    /// Each somewhere else on the drive.
    Random,
    /// Each somewhere else in one area of [`NEAR_AREA`]: what a launch reads lies together in files, and flash that looks up
    /// addresses in a table of its own has those of an area at hand.
    Near,
    /// Each where the one before ended.
    Sequential,
}

/// Bytes of the area of near reads: what a page of a drive's table of addresses is for, as far as is known of such tables,
/// or more.
pub const NEAR_AREA: u64 = 4 << 20;

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

/// What a step has measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeSample {
    /// How the reads follow each other.
    pub pattern: ReadPattern,
    /// Bytes of each.
    pub bytes: u64,
    /// How many were in flight.
    pub depth: u32,
    /// Time from one completion to the next, in µs. At depth 1 that is what a read took.
    pub us: f64,
}

/// Why samples tell no costs: what they lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Small reads, one at a time.
    #[error("too few small reads were timed")]
    NoSingle,
    /// Large reads in sequence.
    #[error("too few reads in sequence were timed")]
    NoSequence,
    /// What was measured is no drive: times of 0, for instance.
    #[error("the times measured are no drive's")]
    Unsound,
}

/// Bytes of large reads.
const LARGE: u64 = 128 << 10;

/// Requests in flight while reading large ones in sequence.
const SEQUENCE_DEPTH: u32 = 8;

/// Requests in flight where the queue is filled.
const FILLED: u32 = 32;

/// The steps. They are begun within a second, and read less than 10 MiB.
pub fn plan() -> Vec<ProbeStep> {
    use ReadPattern::{Near, Random, Sequential};
    let step = |pattern, bytes, depth, most, ms| ProbeStep {
        pattern,
        bytes,
        depth,
        most,
        time: Duration::from_millis(ms),
        counts: true,
    };
    vec![
        ProbeStep {
            counts: false,
            ..step(Random, PAGE_SIZE, 1, 32, 50)
        },
        step(Random, PAGE_SIZE, 1, 64, 300),
        step(Near, PAGE_SIZE, 1, 64, 100),
        step(Near, LARGE, 1, 24, 150),
        step(Near, PAGE_SIZE, FILLED, 384, 120),
        step(Sequential, PAGE_SIZE, 1, 48, 60),
        step(Sequential, LARGE, SEQUENCE_DEPTH, 32, 150),
    ]
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

/// What the reads cost. Medians throughout: a few reads that something else held up change nothing.
///
/// A random read that takes several ms longer than one behind the read before it has had a seek. With heads, the wait for
/// the sector hides what the bytes of a single read cost, so that both the request and its bytes are measured in sequence. Without,
/// they are measured by small and large reads near each other, as those of a launch are.
///
/// # Errors
/// Which samples are missing. Large and queued near reads may be: then a KiB costs what it does in sequence, and depth
/// gains nothing.
pub fn fit(samples: &[ProbeSample]) -> Result<DriveCosts, FitError> {
    use ReadPattern::{Near, Random, Sequential};
    let small_kib = (PAGE_SIZE / 1024) as f64;
    let large_kib = (LARGE / 1024) as f64;
    let of = |pattern, bytes, depth| {
        let is_it = |sample: &&ProbeSample| {
            (sample.pattern, sample.bytes, sample.depth) == (pattern, bytes, depth)
        };
        let us: Vec<f64> = samples
            .iter()
            .filter(is_it)
            .map(|sample| sample.us)
            .collect();
        median(&us)
    };
    let random_us = of(Random, PAGE_SIZE, 1).ok_or(FitError::NoSingle)?;
    let near_us = of(Near, PAGE_SIZE, 1).unwrap_or(random_us);
    let behind_us = of(Sequential, PAGE_SIZE, 1).unwrap_or(near_us);
    let stream_us = of(Sequential, LARGE, SEQUENCE_DEPTH).ok_or(FitError::NoSequence)?;
    let stream_kib_us = stream_us / large_kib;
    let has_heads = random_us - behind_us >= FAR_SEEK_US.max(behind_us);
    let line_kib_us = of(Near, LARGE, 1).map(|large| (large - near_us) / (large_kib - small_kib));
    let (small_us, kib_us) = match has_heads {
        true => (behind_us, stream_kib_us),
        false => (near_us, line_kib_us.unwrap_or(0.0).max(stream_kib_us)),
    };
    let queued_us = of(Near, PAGE_SIZE, FILLED).unwrap_or(near_us);
    let costs = DriveCosts {
        request_us: (small_us - small_kib * kib_us).max(0.0),
        kib_us,
        far_seek_us: (random_us - small_us).max(0.0),
        depth_gain: near_us / queued_us,
    };
    match costs.is_sound() {
        true => Ok(costs),
        false => Err(FitError::Unsound),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::DriveClass;
    use crate::schedule::formula;

    #[test]
    fn a_probe_is_bounded_in_time_and_bytes() {
        let steps = plan();
        let time: Duration = steps.iter().map(|step| step.time).sum();
        let bytes = steps.iter().map(|step| step.bytes * u64::from(step.most));
        assert!(time <= Duration::from_secs(1), "{time:?}");
        assert!(bytes.sum::<u64>() <= 10 << 20);
    }

    #[test]
    fn rates_are_of_groups_and_a_pause_is_in_one_of_them() {
        let step = ProbeStep {
            depth: 8,
            ..plan()[4]
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

    /// Samples of all steps of a drive whose reads take so long, in µs; two of each are held up.
    fn samples(us: impl Fn(&ProbeStep) -> f64) -> Vec<ProbeSample> {
        let steps = plan().into_iter().filter(|step| step.counts);
        let of_step = |step: ProbeStep| {
            let us = us(&step);
            [us, us, us * 50.0, us, us, us * 50.0, us].map(|us| step.sample(us))
        };
        steps.flat_map(of_step).collect()
    }

    #[test]
    fn a_disk_is_known_by_its_seeks_and_its_bytes_are_measured_in_sequence() {
        let disk = samples(|step| match (step.pattern, step.bytes) {
            (ReadPattern::Random, _) => 12_700.0,
            (ReadPattern::Near, _) => 5_400.0,
            (ReadPattern::Sequential, LARGE) => 870.4,
            (ReadPattern::Sequential, _) => 157.2,
        });
        let costs = fit(&disk).unwrap();
        assert_eq!(formula::class(&costs), DriveClass::Rotational);
        assert!((costs.request_us - 130.0).abs() < 0.1, "{costs:?}");
        assert!((costs.kib_us - 6.8).abs() < 0.01, "{costs:?}");
        assert!((costs.far_seek_us - 12_542.8).abs() < 0.1, "{costs:?}");
    }

    #[test]
    fn samples_that_lack_a_kind_are_refused_or_do_without() {
        let all = samples(|step| 100.0 + step.bytes as f64 / 1024.0);
        let without = |pattern, bytes| {
            let others = all
                .iter()
                .filter(|it| (it.pattern, it.bytes) != (pattern, bytes));
            fit(&others.copied().collect::<Vec<_>>())
        };
        let no_single = without(ReadPattern::Random, PAGE_SIZE);
        assert_eq!(no_single, Err(FitError::NoSingle));
        let no_sequence = without(ReadPattern::Sequential, LARGE);
        assert_eq!(no_sequence, Err(FitError::NoSequence));
        assert_eq!(
            without(ReadPattern::Near, PAGE_SIZE).unwrap().depth_gain,
            1.0
        );
        assert_eq!(fit(&samples(|_| 0.0)), Err(FitError::Unsound));
    }

    proptest! {
        /// What flash costs is found again, whatever it costs.
        #[test]
        fn costs_of_flash_are_those_of_its_reads(
            request_us in 10.0..2000.0f64,
            kib_us in 0.1..50.0f64,
            far_us in 0.0..2000.0f64,
            gain in 1.0..30.0f64,
        ) {
            let flash = samples(|step| {
                let alone = request_us + kib_us * step.bytes as f64 / 1024.0;
                match (step.pattern, step.depth) {
                    (ReadPattern::Random, _) => alone + far_us,
                    (ReadPattern::Near, FILLED) => alone / gain,
                    (ReadPattern::Sequential, SEQUENCE_DEPTH) => kib_us * 128.0,
                    _ => alone,
                }
            });
            let costs = fit(&flash).unwrap();
            let is_near = |found: f64, expected: f64| (found - expected).abs() <= 0.001 * (1.0 + expected);
            prop_assert!(is_near(costs.request_us, request_us) && is_near(costs.kib_us, kib_us));
            prop_assert!(is_near(costs.far_seek_us, far_us) && is_near(costs.depth_gain, gain));
        }
    }
}
