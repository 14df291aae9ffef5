//! The scheduling priority of the event loop.
//!
//! At the beginning of a launch, the loop works for some tens of microseconds before the prefetch begins. On a
//! busy system it would wait behind all that a program's start wakes, the app itself first of all.

use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};

/// The nice value of the highest ordinary priority. Real-time scheduling could shut out other programs for good.
const HIGHEST: i32 = -20;

/// Raises the calling thread to the highest ordinary priority.
///
/// # Errors
/// Without CAP_SYS_NICE; the priority stays what it was.
pub fn raise() -> Result<(), Errno> {
    setpriority_process(None, HIGHEST)
}

/// Starts a thread at the ordinary priority: a thread inherits the priority of the thread that starts it.
pub fn start_behind<T>(start: impl FnOnce() -> T) -> T {
    let own = getpriority_process(None).unwrap_or(0);
    if own >= 0 {
        return start();
    }
    // Neither call fails where raising the priority did not; a thread at the wrong priority does no harm.
    let _ = setpriority_process(None, 0);
    let started = start();
    let _ = setpriority_process(None, own);
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_started_behind_have_the_ordinary_priority() {
        std::thread::spawn(|| {
            let priority = || getpriority_process(None).unwrap();
            if raise().is_err() {
                eprintln!("SKIPPED: raising the priority needs CAP_SYS_NICE");
                return;
            }
            let inside = start_behind(|| std::thread::spawn(priority))
                .join()
                .unwrap();
            assert_eq!((inside, priority()), (0, HIGHEST));
        })
        .join()
        .unwrap();
    }
}
