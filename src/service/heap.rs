//! The C library keeps freed memory for later use. Loading BPF programs and unpacking profiles takes tens of
//! megabytes for a moment, and an idle service may not need them again for hours.

/// Returns freed memory to the system. This takes about a millisecond: do not call it on the event loop while
/// launches are under way.
pub fn release_heap() {
    // Only glibc has malloc_trim(3); other C libraries release memory by themselves.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) has no conditions, and locks what it touches.
    unsafe {
        libc::malloc_trim(0);
    }
}
