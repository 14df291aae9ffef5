//! The C library keeps freed memory for later use. Loading BPF programs and unpacking profiles takes tens of
//! megabytes for a moment, and an idle service may not need them again for hours.

/// Gives freed memory back to the system. It takes about a millisecond: not for the event loop while launches
/// are under way.
pub fn release_heap() {
    // Only glibc has malloc_trim(3); other C libraries release memory by themselves.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) has no conditions, and locks what it touches.
    unsafe {
        libc::malloc_trim(0);
    }
}
