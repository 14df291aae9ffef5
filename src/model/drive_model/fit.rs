//! A drive's model from timed reads. Medians throughout: a few reads that something else held up change nothing.

use std::collections::BTreeMap;

use super::{DriveModel, NearCost, Origin, QueuedCost, SMALL_KIB, SeekCost};
use crate::model::{PAGE_SIZE, median};

/// How the reads of a sample follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPattern {
    /// Each somewhere else on the drive.
    Random,
    /// Each somewhere else in one area of some MiB.
    Near,
    /// Each so many bytes behind the end of the one before.
    Stride(u64),
    /// Each where the one before ended.
    Sequential,
}

/// What a probe has measured.
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

/// Why samples make no model: what they lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Random reads of 4 KiB, one at a time.
    #[error("too few single reads were timed")]
    NoSingle,
    /// Reads in sequence.
    #[error("too few reads in sequence were timed")]
    NoSequence,
    /// What was measured is no drive: times of 0, for instance.
    #[error("the times measured are no drive's")]
    Unsound,
}

/// Least difference between the nearest and the farthest reads that takes heads, in µs: a quarter of a rotation at 7,200
/// rpm. A flash drive that looks up the address of a page beyond its map takes a tenth of that.
const LEAST_SEEK_US: f64 = 2000.0;

/// And so many times the nearest: a remote drive's reads take milliseconds, near and far alike.
const LEAST_SEEK_RATIO: f64 = 2.0;

/// Least samples that a distance counts with.
const LEAST_SAMPLES: usize = 3;

impl DriveModel {
    /// The model that explains the samples best.
    ///
    /// # Errors
    /// Which samples are missing. Samples with strides, of large random reads and of deeper queues may be: then the
    /// drive has no heads, a KiB costs what it does in sequence, and depth does not help.
    pub fn fit(samples: &[ProbeSample]) -> Result<DriveModel, FitError> {
        let groups = SampleGroups::of(samples);
        let single = groups.queued(1).ok_or(FitError::NoSingle)?;
        let stream_kib_us = groups.stream_kib_us().ok_or(FitError::NoSequence)?;
        let strides = groups.strides();
        let near = strides.first().map_or(single, |(_, us)| *us);
        let far = strides.last().map_or(single, |(_, us)| *us);
        let has_heads = far - near >= LEAST_SEEK_US && far >= near * LEAST_SEEK_RATIO;
        // With heads, how long a request waits for its sector hides what its bytes cost.
        let kib_us = match has_heads {
            true => stream_kib_us,
            false => groups.kib_us().unwrap_or(0.0).max(stream_kib_us),
        };
        let without_bytes = |us: f64| (us - SMALL_KIB * kib_us).max(0.0);
        let request_us = without_bytes(if has_heads { near } else { single });
        let mut seeks = Vec::new();
        if has_heads {
            seeks = strides;
            for (_, us) in &mut seeks {
                *us = (without_bytes(*us) - request_us).max(0.0);
            }
            make_monotone(&mut seeks, |low, high| low <= high);
        }
        let mut queue = groups.all_queued();
        make_monotone(&mut queue, |shallow, deep| shallow >= deep);
        let near = match has_heads {
            true => Vec::new(),
            false => groups.near_costs(single, stream_kib_us),
        };
        let model = DriveModel {
            origin: Origin::Measured,
            request_us,
            kib_us,
            stream_kib_us,
            seeks: seeks
                .into_iter()
                .map(|(distance, us)| SeekCost { distance, us })
                .collect(),
            queue: queue
                .into_iter()
                .map(|(depth, request_us)| QueuedCost { depth, request_us })
                .collect(),
            near,
        };
        match model.is_sound() {
            true => Ok(model),
            false => Err(FitError::Unsound),
        }
    }
}

/// Samples of one kind, sorted out.
#[derive(Default)]
struct SampleGroups {
    /// Small random reads, by depth.
    queued: BTreeMap<u32, Vec<f64>>,
    /// Single random reads, by bytes.
    single: BTreeMap<u64, Vec<f64>>,
    /// Small single reads, by distance: the power of two that is nearest to it, or 0.
    strides: BTreeMap<u64, Vec<f64>>,
    /// Near reads, by bytes: alone, and with others in flight.
    near: BTreeMap<u64, (Vec<f64>, Vec<f64>)>,
    /// µs of each KiB in sequence.
    stream: Vec<f64>,
}

impl SampleGroups {
    fn of(samples: &[ProbeSample]) -> SampleGroups {
        let mut groups = SampleGroups::default();
        for sample in samples.iter().filter(|sample| sample.us.is_finite()) {
            let is_small = sample.bytes == PAGE_SIZE;
            match sample.pattern {
                ReadPattern::Random => {
                    if is_small {
                        groups
                            .queued
                            .entry(sample.depth)
                            .or_default()
                            .push(sample.us);
                    }
                    if sample.depth == 1 {
                        groups
                            .single
                            .entry(sample.bytes)
                            .or_default()
                            .push(sample.us);
                    }
                }
                ReadPattern::Near => {
                    let (alone, queued) = groups.near.entry(sample.bytes).or_default();
                    match sample.depth {
                        1 => alone.push(sample.us),
                        _ => queued.push(sample.us),
                    }
                }
                ReadPattern::Stride(distance) if is_small && sample.depth == 1 => {
                    let bin = nearest_power(distance);
                    groups.strides.entry(bin).or_default().push(sample.us);
                }
                ReadPattern::Stride(_) => {}
                ReadPattern::Sequential => {
                    groups
                        .stream
                        .push(sample.us * 1024.0 / sample.bytes.max(1) as f64);
                }
            }
        }
        groups
    }

    fn queued(&self, depth: u32) -> Option<f64> {
        median(self.queued.get(&depth)?)
    }

    fn all_queued(&self) -> Vec<(u32, f64)> {
        let depths = self.queued.iter();
        depths
            .filter_map(|(&depth, us)| Some((depth, median(us)?)))
            .collect()
    }

    fn strides(&self) -> Vec<(u64, f64)> {
        let enough = self
            .strides
            .iter()
            .filter(|(_, us)| us.len() >= LEAST_SAMPLES);
        enough
            .filter_map(|(&distance, us)| Some((distance, median(us)?)))
            .collect()
    }

    /// Costs of near reads, by size; none if those of a page were not measured. Larger ones than those that were follow
    /// from single random reads, without what being far added to them, and from reads in sequence. A larger read never
    /// costs less, nor does one in a filled queue cost more than one that is alone.
    fn near_costs(&self, single_us: f64, stream_kib_us: f64) -> Vec<NearCost> {
        let measured = self.near.iter();
        let mut costs: Vec<(u64, f64, f64)> = measured
            .filter_map(|(&bytes, (alone, queued))| Some((bytes, median(alone)?, median(queued)?)))
            .collect();
        let Some(&(PAGE_SIZE, alone_us, _)) = costs.first() else {
            return Vec::new();
        };
        let largest = costs.last().map_or(0, |(bytes, ..)| *bytes);
        let far_us = (single_us - alone_us).max(0.0);
        for (&bytes, us) in self.single.range(largest + 1..) {
            let stream_us = bytes as f64 / 1024.0 * stream_kib_us;
            costs.extend(median(us).map(|us| (bytes, us - far_us, stream_us)));
        }
        let mut alone: Vec<(u64, f64)> = costs.iter().map(|cost| (cost.0, cost.1)).collect();
        let mut queued: Vec<(u64, f64)> = costs.iter().map(|cost| (cost.0, cost.2)).collect();
        make_monotone(&mut alone, |small, large| small <= large);
        make_monotone(&mut queued, |small, large| small <= large);
        alone
            .into_iter()
            .zip(queued)
            .map(|((bytes, alone_us), (_, queued_us))| NearCost {
                bytes,
                alone_us,
                queued_us: queued_us.min(alone_us),
            })
            .collect()
    }

    fn stream_kib_us(&self) -> Option<f64> {
        median(&self.stream)
    }

    /// What a KiB adds to a single random read: the median slope between the medians of two sizes (Theil and Sen).
    fn kib_us(&self) -> Option<f64> {
        let sizes: Vec<(f64, f64)> = (self.single.iter())
            .filter_map(|(&bytes, us)| Some((bytes as f64 / 1024.0, median(us)?)))
            .collect();
        let mut slopes = Vec::new();
        for (index, small) in sizes.iter().enumerate() {
            for large in &sizes[index + 1..] {
                slopes.push((large.1 - small.1) / (large.0 - small.0));
            }
        }
        median(&slopes)
    }
}

/// The power of two that is nearest on a logarithmic scale; 0 of 0.
fn nearest_power(distance: u64) -> u64 {
    match distance {
        0 => 0,
        distance => 1 << ((distance as f64).log2().round() as u32).min(62),
    }
}

/// Replaces values that are out of order by their mean with their neighbours (the pool-adjacent-violators algorithm).
fn make_monotone<K>(points: &mut [(K, f64)], in_order: impl Fn(f64, f64) -> bool) {
    // Mean and number of the values of each pool.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (_, value) in points.iter() {
        let mut pool = (*value, 1);
        while let Some(&(mean, count)) = pools.last() {
            if in_order(mean, pool.0) {
                break;
            }
            pools.pop();
            let all = count + pool.1;
            pool = (
                (mean * count as f64 + pool.0 * pool.1 as f64) / all as f64,
                all,
            );
        }
        pools.push(pool);
    }
    let values = pools
        .into_iter()
        .flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    for ((_, old), new) in points.iter_mut().zip(values) {
        *old = new;
    }
}

#[cfg(test)]
mod tests;
