//! Why an announcement is not passed on, or none can be received.

use std::io;

use thiserror::Error;

/// Why an announcement is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not as [`super::parse`] describes, or with descriptors attached.
    Malformed,
    /// Beyond the rate of its user.
    TooOften,
    /// Without a sender that exists in this pid namespace; also sent before the socket asked for
    /// credentials.
    Unidentified,
    /// With a process id from another pid namespace, where it means another process: from there, a process
    /// can announce itself (process id 0 or none). Or from a user namespace of the user's own.
    Namespace,
    /// For a process of another user.
    NotTheirs,
    /// For a process that is neither the sender nor a descendant of it.
    NotDescendant,
    /// For a process that does not exist, has ended, or is a thread; or the sender has ended.
    Gone,
}

impl Refusal {
    /// Whether processes were looked at before.
    pub fn was_looked_at(self) -> bool {
        match self {
            Refusal::Malformed | Refusal::TooOften | Refusal::Unidentified => false,
            Refusal::Namespace | Refusal::NotTheirs | Refusal::NotDescendant | Refusal::Gone => {
                true
            }
        }
    }
}

/// Announcements cannot be received, or one does not hold.
#[derive(Debug, Error)]
pub enum AnnounceError {
    /// In one line that says what to do.
    #[error("{0}")]
    Failed(String),
    /// This announcement is not passed on.
    #[error("an announcement was refused: {0:?}")]
    Refused(Refusal),
}

impl From<Refusal> for AnnounceError {
    fn from(refusal: Refusal) -> Self {
        AnnounceError::Refused(refusal)
    }
}

/// A system call failed for a reason on our side: no descriptors, no memory, no /proc.
impl From<io::Error> for AnnounceError {
    fn from(error: io::Error) -> Self {
        AnnounceError::Failed(format!("cannot receive announcements: {error}"))
    }
}

impl From<rustix::io::Errno> for AnnounceError {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}
