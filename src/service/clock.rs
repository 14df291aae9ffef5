//! Wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time of day in seconds since the epoch; 0 if the clock is set to a time before it.
pub fn now_s() -> u64 {
    epoch_s(SystemTime::now())
}

/// The same of another time.
pub fn epoch_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
