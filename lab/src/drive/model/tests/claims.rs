//! That the shipped drives are as they claim.

use super::*;
use crate::drive::profile::Claims;

/// Requests that are always so many under way.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub operation: Operation,
    pub depth: usize,
    pub length: u64,
    pub sequential: bool,
    /// Requests before the measurement, which fill caches.
    pub before: usize,
    /// Requests that are measured.
    pub measured: usize,
}

impl Load {
    pub(super) fn new(operation: Operation, depth: usize, length: u64, sequential: bool) -> Load {
        Load {
            operation,
            depth,
            length,
            sequential,
            before: 2000,
            measured: 4000,
        }
    }

    /// Of writes that the SLC caches of shipped drives can take.
    fn small(self) -> Load {
        Load {
            before: 1000,
            measured: 1000,
            ..self
        }
    }
}

/// Requests a second.
pub(super) fn rate(drive: &DriveProfile, load: Load) -> f64 {
    let mut model = Model::new(drive, CAPACITY).unwrap();
    let mut state = 1_u64;
    let mut next = 0;
    let mut place = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        next += load.length;
        let random = (state >> 33) % (CAPACITY / load.length) * load.length;
        if load.sequential {
            next % CAPACITY
        } else {
            random
        }
    };
    // When to ask for which request, and whether its completion is known.
    let mut pending: Vec<(u64, Ticket, bool)> = Vec::new();
    let (mut completed, mut now, mut measured_from) = (0, 0, 0);
    while completed < load.before + load.measured {
        while pending.len() < load.depth {
            let ticket = model.arrive(Request {
                operation: load.operation,
                ..read(place(), load.length, now)
            });
            pending.push((now, ticket, false));
        }
        pending.sort_by_key(|(time, ..)| *time);
        let (time, ticket, known) = pending.remove(0);
        now = time;
        if known {
            completed += 1;
            if completed == load.before {
                measured_from = now;
            }
        } else {
            match model.ask(ticket, now) {
                Timing::Complete(time) => pending.push((time, ticket, true)),
                Timing::AskAt(time) => pending.push((time, ticket, false)),
            }
        }
    }
    load.measured as f64 * 1e9 / (now - measured_from) as f64
}

/// What is measured and what is claimed, in requests a second.
fn figures(drive: &DriveProfile, claims: &Claims) -> Vec<(&'static str, f64, f64)> {
    let (small, large) = (4096, 131_072);
    let reads = |depth, length, sequential| {
        rate(drive, Load::new(Operation::Read, depth, length, sequential))
    };
    let writes = |depth, length, sequential| {
        let load = Load::new(Operation::Write, depth, length, sequential);
        rate(drive, load.small())
    };
    let megabytes = |rate: f64| rate * 1e6 / large as f64;
    let mut figures = vec![
        ("depth 1", reads(1, small, false), claims.random_4k_depth_1),
        ("depth 8", reads(8, small, false), claims.random_4k_depth_8),
        (
            "depth 32",
            reads(32, small, false),
            claims.random_4k_depth_32,
        ),
        (
            "128 KiB",
            reads(1, large, false),
            megabytes(claims.random_128k_mb_s),
        ),
        (
            "sequential",
            reads(8, large, true),
            megabytes(claims.sequential_mb_s),
        ),
        (
            "writes at depth 1",
            writes(1, small, false),
            claims.write_4k_depth_1,
        ),
        (
            "writes at depth 32",
            writes(32, small, false),
            claims.write_4k_depth_32,
        ),
        (
            "sequential writes",
            writes(8, large, true),
            megabytes(claims.write_sequential_mb_s),
        ),
    ];
    if let Some(sustained) = claims.write_sustained_mb_s {
        let load = Load {
            before: 3000,
            ..Load::new(Operation::Write, 8, large, true)
        };
        let is = rate(drive, load);
        figures.push(("sustained writes", is, megabytes(sustained)));
    }
    figures
}

#[test]
fn shipped_drives_keep_their_claims_on_a_machine_without_overhead() {
    let mut wrong = Vec::new();
    for drive in built_in().unwrap() {
        let Some(claims) = drive.claims.as_ref().filter(|_| drive.is_emulated()) else {
            continue;
        };
        for (what, is, claimed) in figures(&drive, claims) {
            if (is / claimed - 1.0).abs() > 0.05 {
                wrong.push(format!(
                    "{} {what}: {is:.1} a second, claimed {claimed:.1}",
                    drive.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
