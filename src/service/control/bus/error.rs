//! Errors of the connection, and the names that errors have on the bus.

use std::io;
use std::time::Duration;

use thiserror::Error;
use zbus::DBusError;
use zbus::message::{Header, Message};
use zbus::names::ErrorName;

use super::NAME;
use crate::service::control::ControlError;

/// What is wrong with the connection to the bus.
#[derive(Debug, Error)]
pub enum BusError {
    /// There is no bus.
    #[error("there is no bus at {address}: {error}")]
    NoBus { address: String, error: io::Error },
    /// The bus or the service does not answer.
    #[error("{what} did not answer within {} s", limit.as_secs())]
    Silent { what: &'static str, limit: Duration },
    /// The name has an owner already.
    #[error("{NAME} is on the bus already: another paralfetch service is running")]
    NameTaken,
    /// The service went away.
    #[error("the service has stopped")]
    Gone,
    /// The bus went away.
    #[error("the bus has stopped")]
    BusGone,
    /// The bus called the service, and it did not start.
    #[error("the service does not start: {0}")]
    NotStarted(String),
    /// The kernel refuses a thread or an epoll instance.
    #[error("cannot serve the bus: {0}")]
    System(#[from] io::Error),
    /// Anything else.
    #[error("D-Bus: {0}")]
    Bus(#[from] zbus::Error),
}

const UNKNOWN: &str = "org.paralfetch.Error.Unknown";
const REFUSED: &str = "org.paralfetch.Error.Refused";
const FAILED: &str = "org.paralfetch.Error.Failed";
/// The caller may not do this, even with a password.
pub(super) const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";
/// The caller may do this with a password, but does not allow the question.
pub(super) const WOULD_ASK: &str = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired";
/// An argument is wrong.
pub(super) const ARGUMENT: &str = "org.freedesktop.DBus.Error.InvalidArgs";
/// Too many calls at once.
pub(super) const BUSY: &str = "org.freedesktop.DBus.Error.LimitsExceeded";

/// The error that a call is answered with.
impl DBusError for ControlError {
    fn create_reply(&self, call: &Header<'_>) -> zbus::Result<Message> {
        Message::error(call, self.name())?.build(&sendable(&self.to_string()))
    }

    fn name(&self) -> ErrorName<'_> {
        ErrorName::from_static_str_unchecked(match self {
            ControlError::Unknown(_) => UNKNOWN,
            ControlError::Refused(_) => REFUSED,
            ControlError::Failed(_) => FAILED,
            ControlError::Call(name, _) => name,
        })
    }

    fn description(&self) -> Option<&str> {
        None
    }
}

/// The text with each NUL replaced: the bus ends a connection that sends one.
pub(super) fn sendable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The error of a call that failed on the bus or in the service.
impl From<BusError> for ControlError {
    fn from(error: BusError) -> Self {
        let BusError::Bus(zbus::Error::MethodError(name, text, _)) = error else {
            return ControlError::failed(error);
        };
        let text = text.unwrap_or_else(|| name.to_string());
        match name.as_str() {
            UNKNOWN => ControlError::Unknown(text),
            REFUSED | DENIED | WOULD_ASK => ControlError::Refused(text),
            _ => ControlError::Failed(text),
        }
    }
}
