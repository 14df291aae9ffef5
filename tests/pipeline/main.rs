//! The whole pipeline on a real ext4 file system with real programs: learn, show, run.
//!
//! Caches and settings belong to the whole system, so these tests take turns.

mod bench;
#[path = "../common/cold.rs"]
mod cold;
#[path = "../common/mod.rs"]
mod common;
mod doctor;
#[path = "../common/fake_bus.rs"]
mod fake_bus;
mod faults;
mod helpers;
mod holds;
mod identity;
mod known;
mod learning;
mod log;
mod misses;
mod passing;
mod prefetching;
mod processes;
#[path = "../common/reads.rs"]
mod reads;
#[path = "../common/root.rs"]
mod root;
mod sandbox;
#[path = "../common/scheduler.rs"]
mod scheduler;
#[path = "../common/slowed.rs"]
#[expect(dead_code, reason = "the other tests use more of it")]
mod slowed;
mod stalls;
mod threads;
mod waits;

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use root::Root;

static TURN: Mutex<()> = Mutex::new(());

/// The image for one test, and its turn; `None` where the machine does not allow it.
fn set_up() -> Option<(Root, MutexGuard<'static, ()>)> {
    if !common::privileged() {
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Some((Root::new(), turn))
}

/// Waits for something that is sure to come, unless it is broken.
fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !reached() {
        assert!(Instant::now() < limit, "waited in vain until {what}");
        std::thread::yield_now();
    }
}
