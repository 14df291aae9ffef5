//! Wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch; 0 if the clock is set to a time before it.
pub fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
