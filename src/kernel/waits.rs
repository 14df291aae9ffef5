//! Attaching the programs that count waits, on any thread.
//!
//! Attaching takes the kernel a millisecond, and tens of milliseconds when it waits for an RCU grace period;
//! so does detaching. The thread that waits for launches must do neither.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_rs::libbpf_sys::bpf_raw_tracepoint_open;

/// The loaded programs that count waits for the drive, and notice the use of completion pages. They run at
/// every context switch and page fault of the system: attach them while launches are under way.
pub struct WaitPrograms(pub(super) Vec<OwnedFd>);

/// They are attached until this is dropped.
pub struct CountingWaits {
    _links: Vec<OwnedFd>,
}

impl WaitPrograms {
    /// Attaches them, each to the tracepoint that it was loaded for.
    ///
    /// # Errors
    /// When the kernel refuses one; then none stays attached.
    pub fn attach(self) -> io::Result<CountingWaits> {
        let links = self.0.iter().map(attach).collect::<io::Result<_>>()?;
        Ok(CountingWaits { _links: links })
    }
}

fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed. A program of a BTF tracepoint was loaded for its tracepoint, and takes no
    // name.
    let link = unsafe { bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: a descriptor that the kernel has just given to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}
