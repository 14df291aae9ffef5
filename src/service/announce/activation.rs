//! Descriptors that systemd passed to the service (sd_listen_fds(3)).

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::AnnounceError;

/// A descriptor that systemd passed.
#[derive(Debug)]
pub struct Passed {
    /// `FileDescriptorName=` of the socket unit; the unit's name by default.
    pub name: String,
    /// The descriptor; it is closed at execve.
    pub fd: OwnedFd,
}

/// Takes over the descriptors that systemd passed to this process. There are none if no socket unit
/// started the process, and none at a second call. The environment stays as it is: `LISTEN_PID` names
/// this process, so that children do not take the descriptors for theirs.
///
/// # Errors
/// When the environment contradicts itself or the descriptors; then nothing is taken over.
pub fn passed() -> Result<Vec<Passed>, AnnounceError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let named = sd_notify::listen_fds_with_names()
        .map_err(|error| AnnounceError::Activation(error.to_string()))?;
    let owned = named.map(|(fd, name)| Passed {
        name,
        // SAFETY: the descriptor is open: `sd_notify` has set its flags. systemd left it to this process,
        // and no other call takes it.
        fd: unsafe { OwnedFd::from_raw_fd(fd) },
    });
    Ok(owned.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_socket_unit_no_descriptor_is_passed() {
        assert!(passed().unwrap().is_empty());
    }
}
