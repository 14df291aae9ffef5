//! The system service with real programs on real file systems, mostly ext4: started plainly, seen, learned,
//! prefetched; and what may go wrong meanwhile.
//!
//! Caches and settings belong to the whole system, so these tests take turns.

mod bounds;
mod copies;
mod discovered;
mod disks;
mod fault_around;
mod faults;
mod file_systems;
mod helpers;
mod homes;
mod hostile;
mod killed;
mod launches;
mod logins;
mod look_ups;
mod measured;
mod missed;
mod pauses;
mod replaced;
mod running;
mod scanned;
mod snaps;
mod stopped;
mod storms;
mod travel;
mod users;
mod versions;
mod warm_up;
mod writes;

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use common::Mounted;
use running::Image;

static TURN: Mutex<()> = Mutex::new(());

/// A test's turn.
struct Turn {
    /// Goes first.
    _tracefs: Option<Mounted>,
    _guard: MutexGuard<'static, ()>,
}

/// An image with an app on it, and the test's turn; `None` where the machine does not allow it.
fn set_up() -> Option<(Image, Turn)> {
    set_up_on(Image::new)
}

/// The same with this image.
fn set_up_on(image: impl FnOnce() -> Image) -> Option<(Image, Turn)> {
    if !common::privileged() {
        return None;
    }
    let guard = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let turn = Turn {
        _tracefs: mount_tracefs(),
        _guard: guard,
    };
    Some((image(), turn))
}

/// Where users are, systemd mounts it: without it, launches are seen later. Not every kernel has it.
fn mount_tracefs() -> Option<Mounted> {
    let place = Path::new("/sys/kernel/tracing");
    let is_missing = place.exists() && !place.join("events").exists();
    is_missing.then(|| Mounted::new("tracefs", "tracefs", place))
}

/// The test in both ways in which launches are seen: when execve is called, and when it has succeeded.
fn seen_early_and_late(test: impl Fn(&Image)) {
    for early in [true, false] {
        let Some((mut image, _turn)) = set_up() else {
            return;
        };
        image.early = early;
        test(&image);
    }
}
