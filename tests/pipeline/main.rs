//! The whole pipeline on a real ext4 file system with real programs: learn, show, run.
//!
//! Caches and settings belong to the whole system, so these tests take turns.

mod bench;
mod doctor;
mod faults;
mod helpers;
mod identity;
mod known;
mod learning;
mod log;
mod misses;
mod passing;
mod prefetching;
mod processes;
mod sandbox;
mod stalls;
mod threads;
mod travel;

use std::sync::{Mutex, MutexGuard};

use common::root::Root;

static TURN: Mutex<()> = Mutex::new(());

/// The image for one test, and its turn; `None` where the machine does not allow it.
fn set_up() -> Option<(Root, MutexGuard<'static, ()>)> {
    if !common::privileged() {
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Some((Root::new(), turn))
}
