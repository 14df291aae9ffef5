//! Giving memory back to the system.
//!
//! Loading programs and unpacking profiles takes some ten megabytes for a moment. The C library keeps what
//! was freed for the next time, which in an idle service may be hours away.

/// Gives freed memory back. It takes a millisecond: for threads that nobody waits for, and for the start.
pub fn give_back() {
    // glibc alone has it; others give back by themselves.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) has no conditions, and locks what it touches.
    unsafe {
        libc::malloc_trim(0);
    }
}
