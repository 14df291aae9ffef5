//! Counting waits for the drive, which is switched on and off on any thread.

use std::io;
use std::os::fd::OwnedFd;

use super::object::attach;

/// The loaded programs that count waits for the drive, and notice the use of completion pages. They run at
/// every context switch and page fault of the system: attach them while launches are under way.
pub struct WaitPrograms(pub(super) Vec<OwnedFd>);

/// They are attached until this is dropped.
pub struct CountingWaits {
    _links: Vec<OwnedFd>,
}

impl WaitPrograms {
    /// Attaches them.
    ///
    /// # Errors
    /// When the kernel refuses one; then none stays attached.
    pub fn attach(self) -> io::Result<CountingWaits> {
        Ok(CountingWaits {
            _links: attach(&self.0)?,
        })
    }
}
