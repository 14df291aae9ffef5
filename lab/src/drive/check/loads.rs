//! The loads under which a drive is measured.

use std::time::Duration;

use crate::drive::fio::{self, Rate};
use crate::drive::profile::Claims;

/// A load, and the claim of a profile for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::drive) struct Load {
    pub what: &'static str,
    pub io: fio::Load,
    pub unit: Unit,
    pub claim: fn(&Claims) -> Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::drive) enum Unit {
    /// Requests a second.
    Requests,
    /// MB (10⁶ bytes) a second.
    Megabytes,
}

impl Load {
    /// Bytes of each request.
    pub(in crate::drive) fn bytes(&self) -> u64 {
        u64::from(self.io.block_kib) << 10
    }

    /// Time per request at the claimed rate with a full queue (Little's law).
    pub(super) fn latency(&self, claimed: f64) -> Duration {
        let per_second = match self.unit {
            Unit::Requests => claimed,
            Unit::Megabytes => claimed * 1e6 / self.bytes() as f64,
        };
        Duration::from_secs_f64(f64::from(self.io.depth) / per_second)
    }
}

impl Unit {
    /// The rate of requests of so many bytes that complete every `us` µs.
    pub(in crate::drive) fn per_second(self, us: f64, bytes: u64) -> f64 {
        match self {
            Unit::Requests => 1e6 / us,
            Unit::Megabytes => bytes as f64 / us,
        }
    }

    pub(in crate::drive) fn amount(self, rate: &Rate) -> f64 {
        match self {
            Unit::Requests => rate.iops,
            Unit::Megabytes => rate.bw_bytes / 1e6,
        }
    }
}

/// A load of requests of so many KiB, so many in flight, and its claim.
const fn load(
    what: &'static str,
    (rw, block_kib, depth): (&'static str, u32, u32),
    unit: Unit,
    claim: fn(&Claims) -> Option<f64>,
) -> Load {
    let io = fio::Load {
        rw,
        block_kib,
        depth,
    };
    Load {
        what,
        io,
        unit,
        claim,
    }
}

/// Reads.
#[rustfmt::skip]
pub(in crate::drive) const READS: [Load; 5] = [
    load("4 KiB random, depth 1", ("randread", 4, 1), Unit::Requests, |claims| Some(claims.random_4k_depth_1)),
    load("4 KiB random, depth 8", ("randread", 4, 8), Unit::Requests, |claims| Some(claims.random_4k_depth_8)),
    load("4 KiB random, depth 32", ("randread", 4, 32), Unit::Requests, |claims| Some(claims.random_4k_depth_32)),
    load("128 KiB random, depth 1", ("randread", 128, 1), Unit::Megabytes, |claims| Some(claims.random_128k_mb_s)),
    load("128 KiB sequential, depth 8", ("read", 128, 8), Unit::Megabytes, |claims| Some(claims.sequential_mb_s)),
];

/// Writes, into the SLC cache if there is one.
#[rustfmt::skip]
pub(super) const WRITES: [Load; 3] = [
    load("written, 4 KiB random, depth 1", ("randwrite", 4, 1), Unit::Requests, |claims| Some(claims.write_4k_depth_1)),
    load("written, 4 KiB random, depth 32", ("randwrite", 4, 32), Unit::Requests, |claims| Some(claims.write_4k_depth_32)),
    load("written, 128 KiB sequential, depth 8", ("write", 128, 8), Unit::Megabytes, |claims| Some(claims.write_sequential_mb_s)),
];

/// Writes beyond it.
pub(super) const SUSTAINED: Load = load(
    "written with a full SLC cache, 128 KiB sequential, depth 8",
    ("write", 128, 8),
    Unit::Megabytes,
    |claims| claims.write_sustained_mb_s,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_follows_from_claim_and_depth() {
        let us = |load: &Load, claimed| load.latency(claimed).as_micros();
        assert_eq!(us(&READS[0], 8000.0), 125);
        assert_eq!(us(&READS[2], 80_000.0), 400);
        assert_eq!(us(&READS[3], 131.072), 1000);
        assert_eq!(us(&READS[4], 131.072), 8000);
        assert_eq!(us(&WRITES[1], 80_000.0), 400);
        assert_eq!(us(&SUSTAINED, 131.072), 8000);
    }
}
