//! The kernel's software counters of a thread and of everything that it starts: perf_event_open(2), in the
//! form of its first version (`PERF_ATTR_SIZE_VER0`). `unsafe` for that system call.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Nanoseconds on a processor (`PERF_COUNT_SW_TASK_CLOCK`).
    ProcessorTime,
    /// Context switches (`PERF_COUNT_SW_CONTEXT_SWITCHES`), whoever causes them.
    Switches,
}

/// Of the calling thread: all that it and the tasks that it starts from now on do, those that end included;
/// and what it does itself.
#[derive(Debug)]
pub struct Started {
    all: File,
    own: File,
}

/// `struct perf_event_attr` up to `config1` (linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
/// `inherit`, the second of the flags.
const INHERIT: u64 = 1 << 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

impl Count {
    fn config(self) -> u64 {
        match self {
            Count::ProcessorTime => 1,
            Count::Switches => 3,
        }
    }
}

impl Started {
    /// Counts from now on.
    ///
    /// # Errors
    /// Without root, or where the kernel was built without performance events.
    pub fn count(what: Count) -> io::Result<Started> {
        Ok(Started {
            all: open(what, INHERIT)?,
            own: open(what, 0)?,
        })
    }

    /// What the tasks that the thread has started since did so far.
    ///
    /// # Errors
    /// When a counter cannot be read.
    pub fn so_far(&self) -> io::Result<u64> {
        // In this order: what happens in between is the thread's own, and is not taken for a child's.
        let all = read(&self.all)?;
        let own = read(&self.own)?;
        Ok(all.saturating_sub(own))
    }
}

/// Whether a counter cannot be had because the user may not count, or the kernel cannot.
pub fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::ENOSYS)
    )
}

fn open(what: Count, flags: u64) -> io::Result<File> {
    let attributes = Attributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: what.config(),
        flags,
        ..Attributes::default()
    };
    let (this_thread, any_processor, no_group) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, all of which are set, and keeps no pointer.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_processor,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call has just returned this descriptor, which nobody else has.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

fn read(mut counter: &File) -> io::Result<u64> {
    let mut value = [0; 8];
    counter.read_exact(&mut value)?;
    Ok(u64::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn counter(what: Count) -> Option<Started> {
        match Started::count(what) {
            Ok(started) => Some(started),
            Err(error) if is_refused(&error) => {
                eprintln!("SKIPPED: only root may count, and not every kernel can ({error})");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn threads_and_processes_that_were_started_are_counted_and_this_one_is_not() {
        let (Some(switches), Some(time)) =
            (counter(Count::Switches), counter(Count::ProcessorTime))
        else {
            return;
        };
        for _ in 0..50 {
            thread::sleep(Duration::from_micros(100));
        }
        assert!(switches.so_far().unwrap() < 10, "those were ours");
        // A nap of a thread that gets no processor may be over before it has begun, and is no switch.
        let sleeper = || {
            let mut naps = 0;
            while switches.so_far().unwrap() < 50 {
                thread::sleep(Duration::from_micros(100));
                naps += 1;
                assert!(naps < 100_000, "its switches are not counted");
            }
        };
        thread::scope(|scope| scope.spawn(sleeper).join().unwrap());
        let by_thread = switches.so_far().unwrap();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; /bin/sleep 0.001";
        let done = Command::new("/bin/sh").args(["-c", script]).status();
        assert!(done.unwrap().success());
        assert!(switches.so_far().unwrap() > by_thread);
        let us = time.so_far().unwrap() / 1000;
        assert!(us > 1000, "{us} µs of a loop of 20,000 turns");
    }
}
