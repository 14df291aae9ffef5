//! The event loop's place in the queue for a processor.
//!
//! The loop works for some tens of microseconds at the beginning of a launch, and the prefetch can only
//! begin after it. On a busy system it would wait behind whatever else is woken by a program's start, the
//! app itself first of all.

use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};

/// The highest that there is without real-time scheduling, which could shut out others for good.
const HIGHEST: i32 = -20;

/// Puts the calling thread in front.
///
/// # Errors
/// Without CAP_SYS_NICE; then its place stays what it was.
pub fn raise() -> Result<(), Errno> {
    setpriority_process(None, HIGHEST)
}

/// Starts a thread that is not to be in front: threads inherit the place of the one who starts them.
pub fn start_behind<T>(start: impl FnOnce() -> T) -> T {
    let own = getpriority_process(None).unwrap_or(0);
    if own >= 0 {
        return start();
    }
    // Neither can fail where raising did not, and a thread in the wrong place does no harm.
    let _ = setpriority_process(None, 0);
    let started = start();
    let _ = setpriority_process(None, own);
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_started_behind_are_not_in_front() {
        std::thread::spawn(|| {
            let place = || getpriority_process(None).unwrap();
            if raise().is_err() {
                eprintln!("SKIPPED: raising the priority needs CAP_SYS_NICE");
                return;
            }
            let inside = start_behind(|| std::thread::spawn(place)).join().unwrap();
            assert_eq!((inside, place()), (0, HIGHEST));
        })
        .join()
        .unwrap();
    }
}
