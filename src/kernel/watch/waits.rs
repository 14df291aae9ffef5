//! Attaching the programs that count waits, on any thread.
//!
//! Attaching takes the kernel a millisecond, and tens of them while it waits for all processors to pass
//! a quiet point; so does detaching. Neither is to be done by the thread that waits for launches.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_rs::libbpf_sys::bpf_raw_tracepoint_open;

/// The loaded programs that count waits for the drive, and see completion pages used. They are called at
/// every context switch and page fault of the system: to be attached while launches are under way.
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
    // SAFETY: a program of a BTF tracepoint knows its place, and takes no name.
    let link = unsafe { bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: a descriptor that the kernel has just given to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}
