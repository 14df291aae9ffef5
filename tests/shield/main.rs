//! The shield on a real ext4, beside a real writer: what it changes, and that everything is as before whatever happens.
//!
//! The machine has few loop devices and one disk, so these tests take turns.

mod faults;
mod launches;
mod system;
mod writer;

use std::sync::{Mutex, MutexGuard};

use system::WrittenImage;

static TURN: Mutex<()> = Mutex::new(());

/// An image that is being written, and the test's turn; `None` where the machine does not allow it.
fn set_up() -> Option<(WrittenImage, MutexGuard<'static, ()>)> {
    if !common::privileged() {
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Some((WrittenImage::new(), turn))
}
