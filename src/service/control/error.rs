//! Why a call fails.

use thiserror::Error;

/// Why a call fails, in one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// There is no such app.
    #[error("{0}")]
    Unknown(String),
    /// It is not allowed, or makes no sense.
    #[error("{0}")]
    Refused(String),
    /// It went wrong.
    #[error("{0}")]
    Failed(String),
}

impl ControlError {
    /// Something went wrong below.
    pub(super) fn failed(error: impl std::fmt::Display) -> Self {
        ControlError::Failed(error.to_string())
    }
}
