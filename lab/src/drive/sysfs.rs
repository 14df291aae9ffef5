//! Attributes of a loop device's request queue, so that software sees the drive that is emulated.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::profile::DriveProfile;

/// read_ahead_kb of every drive: the kernel's own default, which distributions leave as it is.
const READ_AHEAD_KB: u32 = 128;

/// Sets what the kernel lets be set. A loop device has no queue depth of its own to set: there is no
/// `device/queue_depth`, and `nr_requests` is the host's queue and at least 4.
pub(super) fn describe(name: &str, profile: &DriveProfile) -> Result<()> {
    let queue = PathBuf::from("/sys/block").join(name).join("queue");
    let set = |attribute: &str, value: &str| {
        let path = queue.join(attribute);
        fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
    };
    // First: a scheduler brings its own nr_requests.
    set("scheduler", "none")?;
    if profile.is_emulated() {
        set(
            "rotational",
            if profile.heads.is_some() { "1" } else { "0" },
        )?;
    }
    if let Some(requests) = profile.nr_requests {
        set("nr_requests", &requests.to_string())?;
    }
    set("read_ahead_kb", &READ_AHEAD_KB.to_string())
}
