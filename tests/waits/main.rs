//! The wait detector against waits that are produced on purpose: on a real ext4 whose drive stands still while the
//! file system below it is frozen; and `paralfetch-waits` beside a writer.

mod command;
mod files;
mod journal;
mod queue;
mod sums;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One at a time: they look at all waits of the system, and some turn its knobs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
