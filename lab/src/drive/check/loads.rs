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

/// Reads.
pub(in crate::drive) const READS: [Load; 5] = [
    Load {
        what: "4 KiB random, depth 1",
        io: fio::Load {
            rw: "randread",
            block_kib: 4,
            depth: 1,
        },
        unit: Unit::Requests,
        claim: |claims| Some(claims.random_4k_depth_1),
    },
    Load {
        what: "4 KiB random, depth 8",
        io: fio::Load {
            rw: "randread",
            block_kib: 4,
            depth: 8,
        },
        unit: Unit::Requests,
        claim: |claims| Some(claims.random_4k_depth_8),
    },
    Load {
        what: "4 KiB random, depth 32",
        io: fio::Load {
            rw: "randread",
            block_kib: 4,
            depth: 32,
        },
        unit: Unit::Requests,
        claim: |claims| Some(claims.random_4k_depth_32),
    },
    Load {
        what: "128 KiB random, depth 1",
        io: fio::Load {
            rw: "randread",
            block_kib: 128,
            depth: 1,
        },
        unit: Unit::Megabytes,
        claim: |claims| Some(claims.random_128k_mb_s),
    },
    Load {
        what: "128 KiB sequential, depth 8",
        io: fio::Load {
            rw: "read",
            block_kib: 128,
            depth: 8,
        },
        unit: Unit::Megabytes,
        claim: |claims| Some(claims.sequential_mb_s),
    },
];

/// Writes, into the SLC cache if there is one.
pub(super) const WRITES: [Load; 3] = [
    Load {
        what: "written, 4 KiB random, depth 1",
        io: fio::Load {
            rw: "randwrite",
            block_kib: 4,
            depth: 1,
        },
        unit: Unit::Requests,
        claim: |claims| Some(claims.write_4k_depth_1),
    },
    Load {
        what: "written, 4 KiB random, depth 32",
        io: fio::Load {
            rw: "randwrite",
            block_kib: 4,
            depth: 32,
        },
        unit: Unit::Requests,
        claim: |claims| Some(claims.write_4k_depth_32),
    },
    Load {
        what: "written, 128 KiB sequential, depth 8",
        io: fio::Load {
            rw: "write",
            block_kib: 128,
            depth: 8,
        },
        unit: Unit::Megabytes,
        claim: |claims| Some(claims.write_sequential_mb_s),
    },
];

/// Writes beyond it.
pub(super) const SUSTAINED: Load = Load {
    what: "written with a full SLC cache, 128 KiB sequential, depth 8",
    io: fio::Load {
        rw: "write",
        block_kib: 128,
        depth: 8,
    },
    unit: Unit::Megabytes,
    claim: |claims| claims.write_sustained_mb_s,
};

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
