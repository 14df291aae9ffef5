//! Reads in flight: the kernel's asynchronous I/O (io_submit(2)), which takes a queue of any depth from one thread and
//! waits with a limit. `unsafe` for the system calls, which have no wrapper, and for the kernel writing into our buffer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// `IOCB_CMD_PREAD`.
const PREAD: u16 = 0;

/// `struct iocb`. On big-endian machines the second and third field change places; both are 0.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    control_block: u64,
    result: i64,
    result2: i64,
}

/// A completed read.
#[derive(Clone, Copy, Debug)]
pub struct CompletedRead {
    /// When it was begun.
    pub begun: Instant,
    /// When it was seen to be complete.
    pub ended: Instant,
}

/// A queue of reads into one buffer.
pub struct ReadQueue {
    context: libc::c_ulong,
    /// A slot of `slot_bytes` for each read.
    buffer: *mut libc::c_void,
    slot_bytes: usize,
    slots: usize,
    free: Vec<usize>,
    begun: Vec<Instant>,
    events: Vec<IoEvent>,
}

impl ReadQueue {
    /// A queue of `depth` reads of up to `bytes` each.
    ///
    /// # Errors
    /// The errors of io_setup(2) and mmap(2): `ENOSYS` on a kernel without asynchronous I/O, `EAGAIN` if other programs use
    /// all of `fs.aio-max-nr`.
    pub fn new(depth: u32, bytes: u64) -> io::Result<ReadQueue> {
        let slots = depth.max(1) as usize;
        let slot_bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, slots, &raw mut context) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other. It is aligned to pages, as
        // direct I/O wants it.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                slots * slot_bytes,
                access,
                MapFlags::PRIVATE,
            )
        };
        let buffer = match mapped {
            Ok(buffer) => buffer,
            Err(errno) => {
                // SAFETY: the context was set up above, and nothing is in flight.
                unsafe { libc::syscall(libc::SYS_io_destroy, context) };
                return Err(errno.into());
            }
        };
        Ok(ReadQueue {
            context,
            buffer,
            slot_bytes,
            slots,
            free: (0..slots).rev().collect(),
            begun: vec![Instant::now(); slots],
            events: vec![IoEvent::default(); slots],
        })
    }

    /// Reads in flight.
    pub fn in_flight(&self) -> usize {
        self.slots - self.free.len()
    }

    /// Begins a read of `bytes`, which may not be more than a slot has.
    ///
    /// # Errors
    /// The errors of io_submit(2), and `WouldBlock` if there is no room.
    pub fn begin(&mut self, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
        let slot = *self.free.last().ok_or(io::ErrorKind::WouldBlock)?;
        if bytes > self.slot_bytes as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let block = ControlBlock {
            data: slot as u64,
            opcode: PREAD,
            fd: file.as_raw_fd() as u32,
            buffer: self.buffer as u64 + (slot * self.slot_bytes) as u64,
            bytes,
            offset: offset as i64,
            ..ControlBlock::default()
        };
        let mut list = [&raw const block];
        self.begun[slot] = Instant::now();
        // SAFETY: the kernel copies the block; its buffer is the slot's own, which stays mapped until nothing is in
        // flight.
        let taken =
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        if taken < 0 {
            return Err(io::Error::last_os_error());
        }
        if taken == 1 {
            self.free.pop();
        }
        Ok(())
    }

    /// Waits until a read is complete, and gives all that are. Empty if none was within `limit`.
    ///
    /// # Errors
    /// The errors of io_getevents(2), and the first error of a read; a read that ended early is `UnexpectedEof`.
    pub fn completed(&mut self, limit: Duration) -> io::Result<Vec<CompletedRead>> {
        let mut limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        };
        let events = self.events.as_mut_ptr();
        // SAFETY: the kernel writes as many events as there is room for, and reads the limit.
        let count = unsafe {
            let (context, most) = (self.context, self.slots);
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                1usize,
                most,
                events,
                &raw mut limit,
            )
        };
        let ended = Instant::now();
        let count = match usize::try_from(count) {
            Ok(count) => count.min(self.slots),
            Err(_) => return Err(io::Error::last_os_error()),
        };
        let mut completed = Vec::with_capacity(count);
        let mut failed = None;
        for event in &self.events[..count] {
            let slot = (event.data as usize).min(self.slots - 1);
            self.free.push(slot);
            match event.result {
                error if error < 0 => {
                    failed = Some(io::Error::from_raw_os_error(-error as i32));
                }
                0 => failed = Some(io::ErrorKind::UnexpectedEof.into()),
                _ => completed.push(CompletedRead {
                    begun: self.begun[slot],
                    ended,
                }),
            }
        }
        failed.map_or(Ok(completed), Err)
    }

    /// Gives the queue up while the drive holds reads in it: waiting for them could take for ever. The kernel still
    /// writes into the buffer, which therefore stays.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for ReadQueue {
    /// Waits for what is in flight.
    fn drop(&mut self) {
        // SAFETY: the context is this queue's. io_destroy(2) returns when nothing is in flight, so that nobody writes
        // into the buffer any more.
        unsafe {
            libc::syscall(libc::SYS_io_destroy, self.context);
            let _ = munmap(self.buffer, self.slots * self.slot_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn structures_are_the_kernels() {
        assert_eq!(size_of::<ControlBlock>(), 64);
        assert_eq!(size_of::<IoEvent>(), 32);
    }

    #[test]
    fn reads_complete_and_errors_are_given() {
        let file =
            std::fs::File::open(env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml").unwrap();
        let mut queue = ReadQueue::new(2, 4096).unwrap();
        assert!(
            queue.begin(file.as_fd(), 0, 8192).is_err(),
            "larger than a slot"
        );
        queue.begin(file.as_fd(), 0, 512).unwrap();
        queue.begin(file.as_fd(), 512, 512).unwrap();
        assert_eq!(queue.in_flight(), 2);
        assert!(queue.begin(file.as_fd(), 0, 512).is_err());
        let mut done = 0;
        while queue.in_flight() > 0 {
            let completed = queue.completed(Duration::from_secs(10)).unwrap();
            assert!(!completed.is_empty(), "nothing within 10 s");
            done += completed.len();
        }
        assert_eq!(done, 2);
        assert!(
            queue
                .completed(Duration::from_millis(1))
                .unwrap()
                .is_empty()
        );
        queue.begin(file.as_fd(), 1 << 30, 512).unwrap();
        let error = queue.completed(Duration::from_secs(10)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
