//! What the service asks of the kernel for its own process, so that it is quick at the next launch.

use std::io;
use std::thread::{Builder, JoinHandle};

use rustix::io::Errno;
use rustix::mm::{Advice, MlockFlags, madvise, mlock_with};
use rustix::process::{getpriority_process, setpriority_process};

use super::mailbox::Outbox;
use super::message::Message;
use crate::drive::FileMapping;

/// The nice value of the highest ordinary priority. Real-time scheduling could shut out other programs for good.
const HIGHEST: i32 = -20;

/// Locks the pages of this process's program and libraries in memory, each from its next use on. Reads none of
/// them. The kernel would reclaim the code of a service that has been idle for days first, and at the next
/// launch each page would be a read from the drive before the first prefetch request.
///
/// Code in use until now is unmapped first: what only the start needs would be locked for as long as the service runs.
/// What is used again is found in the page cache.
///
/// # Errors
/// When /proc cannot be read, or RLIMIT_MEMLOCK does not allow it.
pub fn lock_code() -> io::Result<()> {
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let mappings = FileMapping::all_in(&smaps).into_iter();
    for mapping in mappings.filter(|mapping| mapping.read_only) {
        let start = std::ptr::without_provenance_mut(mapping.addresses.start as usize);
        let length = (mapping.addresses.end - mapping.addresses.start) as usize;
        if mapping.executable && !mapping.own_or_locked {
            // SAFETY: none of the mapping's pages has been changed, so that each is found in its file again. No thread
            // unmaps code, so that no other mapping has taken its place.
            unsafe { madvise(start, length, Advice::LinuxDontNeed)? };
        }
        // SAFETY: locking changes no contents. If the mapping is gone by now, the call fails or locks
        // another mapping of this process.
        unsafe { mlock_with(start, length, MlockFlags::ONFAULT)? };
    }
    Ok(())
}

/// Has the C library return what is freed at the end of each of its heaps, and keep large buffers out of them. By
/// default it raises both bounds to the size of what the program frees, up to 32 MiB: after ten lessons, 18 MiB of freed
/// memory stayed in the heaps of threads, which malloc_trim(3) does not shorten.
pub fn keep_heaps_short() {
    // The bounds that it begins with, which are not raised any more once they are set (mallopt(3)).
    #[cfg(target_env = "gnu")]
    for bound in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: mallopt(3) has no conditions, and locks what it touches.
        unsafe {
            libc::mallopt(bound, 128 << 10);
        }
    }
}

/// Returns freed memory to the system. The C library keeps it for later use; loading BPF programs and unpacking
/// profiles takes tens of megabytes for a moment, and an idle service may not need them again for hours.
/// This takes about a millisecond: do not call it on the event loop while launches are under way.
pub fn release_heap() {
    // Only glibc has malloc_trim(3); other C libraries release memory by themselves.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) has no conditions, and locks what it touches.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Raises the calling thread to the highest ordinary priority. At the beginning of a launch, the event loop
/// works for some tens of microseconds before the prefetch begins. On a busy system it would wait behind all that
/// a program's start wakes, the app itself first of all.
///
/// # Errors
/// Without CAP_SYS_NICE, or a limit (RLIMIT_NICE) that allows it; the priority stays what it was.
pub fn raise_priority() -> Result<(), Errno> {
    setpriority_process(None, HIGHEST)
}

/// Takes the calling thread back to the ordinary priority. A thread that inherits the event loop's priority starts at once on
/// a busy system, too; it calls this, and goes on as other threads do.
pub fn take_ordinary_priority() {
    if getpriority_process(None).is_ok_and(|own| own < 0) {
        // It does not fail where raising the priority did not.
        let _ = setpriority_process(None, 0);
    }
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

/// Has a thread at the ordinary priority do some work and send what came of it to the event loop.
///
/// # Errors
/// When the system has no thread to give.
pub fn work_behind(
    name: &str,
    outbox: &Outbox,
    work: impl FnOnce() -> Message + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let outbox = outbox.clone();
    let work = move || {
        outbox.send(work());
    };
    start_behind(|| Builder::new().name(name.to_owned()).spawn(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_locked() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let field = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
            let kib = field.unwrap().trim().trim_end_matches(" kB");
            kib.parse::<u64>().unwrap()
        };
        let before = locked();
        match lock_code() {
            Ok(()) => assert!(locked() > before),
            Err(error) => eprintln!("SKIPPED: locking memory: {error}"),
        }
    }

    #[test]
    fn threads_have_the_ordinary_priority_from_their_start_or_once_they_run() {
        let test = || {
            let priority = || getpriority_process(None).unwrap();
            if raise_priority().is_err() {
                eprintln!("SKIPPED: raising the priority needs CAP_SYS_NICE");
                return;
            }
            let inside = start_behind(|| std::thread::spawn(priority)).join();
            assert_eq!((inside.unwrap(), priority()), (0, HIGHEST));
            let lowered = move || {
                let at_first = priority();
                take_ordinary_priority();
                (at_first, priority())
            };
            let inside = std::thread::spawn(lowered).join();
            assert_eq!((inside.unwrap(), priority()), ((HIGHEST, 0), HIGHEST));
        };
        std::thread::spawn(test).join().unwrap();
    }
}
