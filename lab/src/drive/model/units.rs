//! Times in ns.

/// µs as whole ns.
pub(super) fn micros(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// The time that `bytes` take at `mb_s` MB (10⁶ bytes) a second, in ns.
pub(super) fn transfer(bytes: u64, mb_s: f64) -> u64 {
    (bytes as f64 * 1e3 / mb_s).ceil() as u64
}
