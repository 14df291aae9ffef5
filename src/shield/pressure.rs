//! The kernel's report that tasks wait for drives (PSI triggers). Where nobody waits, nothing runs for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

const FILE: &str = "/proc/pressure/io";
/// Some task waited for 300 ms of 2 s. Windows other than multiples of 2 s take CAP_SYS_RESOURCE, or a kernel thread.
const TRIGGER: &[u8] = b"some 300000 2000000\0";

/// A trigger; its descriptor has POLLPRI at most once in 2 s.
pub(super) struct PressureTrigger(File);

impl PressureTrigger {
    /// Sets one.
    ///
    /// # Errors
    /// When the kernel does not report pressure, or refuses the trigger: before Linux 6.6 without CAP_SYS_RESOURCE.
    pub fn new() -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK);
        let mut file = options.open(FILE)?;
        file.write_all(TRIGGER)?;
        Ok(PressureTrigger(file))
    }
}

impl AsFd for PressureTrigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
