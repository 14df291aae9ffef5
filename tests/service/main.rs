//! The system service with real programs on a real ext4 file system: started plainly, seen, learned,
//! prefetched; and what may go wrong meanwhile.
//!
//! Caches and settings belong to the whole system, so these tests take turns.

#[path = "../common/mod.rs"]
mod common;
mod disks;
mod faults;
mod killed;
mod launches;
#[path = "../pipeline/root.rs"]
#[expect(dead_code, reason = "the other tests use more of it")]
mod root;
mod running;
mod stopped;
mod storms;

use std::sync::{Mutex, MutexGuard};

use running::Image;

static TURN: Mutex<()> = Mutex::new(());

/// An image with an app on it, and the test's turn; `None` where the machine does not allow it.
fn set_up() -> Option<(Image, MutexGuard<'static, ()>)> {
    if !common::privileged() {
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Some((Image::new(), turn))
}
