//! Wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};

unsafe extern "C" {
    /// tzset(3), which libc lacks.
    fn tzset();
}

/// The time of day in seconds since the epoch; 0 if the clock is set to a time before it.
pub fn now_s() -> u64 {
    epoch_s(SystemTime::now())
}

/// When the system was started, in seconds since the epoch, by the present time of day.
pub fn booted_s() -> u64 {
    let up_s = rustix::system::sysinfo().uptime;
    now_s().saturating_sub(u64::try_from(up_s).unwrap_or(0))
}

/// How far the local time is ahead of UTC now, in seconds, by the system's time zone.
pub fn utc_offset_s() -> i32 {
    let now = libc::time_t::try_from(now_s()).unwrap_or(0);
    // SAFETY: all fields are numbers, or a pointer that is not used.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // Once it is known, localtime_r(3) alone keeps the zone for ever, and laptops travel.
    // SAFETY: takes nothing, and locks what it changes. No thread of this program changes its environment.
    unsafe { tzset() };
    // SAFETY: both structures live through the call. No thread of this program changes its environment.
    let found = unsafe { libc::localtime_r(&raw const now, &raw mut local) };
    match found.is_null() {
        true => 0,
        false => i32::try_from(local.tm_gmtoff).unwrap_or(0),
    }
}

/// A time in seconds since the epoch; 0 if it is before that.
pub fn epoch_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
