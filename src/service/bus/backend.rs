//! What the face of the service stands on.

use thiserror::Error;

use super::types::{AppState, LaunchRecord, Mode, Status};
use crate::policy::PhaseRequest;

/// The calls that the face needs. The service implements them, [`super::Client`] passes them on to
/// the running service, and [`crate::service::Local`] carries them out without one.
///
/// The service is called from the bus's only thread: an implementation should answer at once, and
/// must not wait for whoever drops the [`super::Bus`].
pub trait Backend: Send + Sync + 'static {
    /// The service as a whole.
    ///
    /// # Errors
    /// When it cannot be found out.
    fn status(&self) -> Result<Status, BackendError>;

    /// All managed apps.
    ///
    /// # Errors
    /// When they cannot be found out.
    fn apps(&self) -> Result<Vec<AppState>, BackendError>;

    /// One managed app, by its path, command, .desktop entry or name.
    ///
    /// # Errors
    /// [`BackendError::Unknown`] when it is not managed.
    fn app(&self, app: &str) -> Result<AppState, BackendError>;

    /// The newest launches of an app, or of all, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`BackendError::Unknown`] when the app is not managed.
    fn launches(&self, app: Option<&str>, limit: u32) -> Result<Vec<LaunchRecord>, BackendError>;

    /// Learns, prefetches or disables an app from its next launch on, managed so far or not. Returns
    /// what identifies it ([`AppState::app`]).
    ///
    /// # Errors
    /// [`BackendError::Unknown`] when there is no such app, [`BackendError::Refused`] when it cannot
    /// be managed.
    fn ask(&self, app: &str, request: PhaseRequest) -> Result<String, BackendError>;

    /// Forgets an app and its profile.
    ///
    /// # Errors
    /// [`BackendError::Unknown`] when it is not managed.
    fn forget(&self, app: &str) -> Result<(), BackendError>;

    /// Which apps are managed.
    ///
    /// # Errors
    /// When it cannot be found out.
    fn mode(&self) -> Result<Mode, BackendError>;

    /// Sets which apps are managed.
    ///
    /// # Errors
    /// When it cannot be set.
    fn set_mode(&self, mode: Mode) -> Result<(), BackendError>;

    /// Reads the configuration again.
    ///
    /// # Errors
    /// [`BackendError::Refused`] when it is wrong; that of before stays in force.
    fn reload(&self) -> Result<(), BackendError>;
}

/// Why a call came to nothing, in one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
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
