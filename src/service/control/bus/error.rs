//! Errors of the connection, and the names that errors have on the bus.

use std::borrow::Cow;
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
    NoBus {
        /// Where it should be.
        address: String,
        /// Why there is none.
        error: io::Error,
    },
    /// The bus or the service does not answer.
    #[error("{what} did not answer within {} s", limit.as_secs())]
    Silent {
        /// The bus or the service.
        what: &'static str,
        /// How long it had time.
        limit: Duration,
    },
    /// The name has an owner already.
    #[error("{NAME} is on the bus already: another paralfetch service is running")]
    NameTaken,
    /// The service went away.
    #[error("the service has stopped")]
    Gone,
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

/// Why a call is answered with an error.
#[derive(Debug)]
pub(super) enum Fault {
    /// The service's answer.
    Control(ControlError),
    /// The caller may not do this, even with a password.
    Denied(String),
    /// The caller may do this with a password, but does not allow the question.
    WouldAsk(String),
    /// An argument is wrong.
    Argument(String),
    /// Too many calls at once.
    Busy(String),
}

impl From<ControlError> for Fault {
    fn from(error: ControlError) -> Self {
        Fault::Control(error)
    }
}

const UNKNOWN: &str = "org.paralfetch.Error.Unknown";
const REFUSED: &str = "org.paralfetch.Error.Refused";
const FAILED: &str = "org.paralfetch.Error.Failed";
const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";
const WOULD_ASK: &str = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired";
const ARGUMENT: &str = "org.freedesktop.DBus.Error.InvalidArgs";
const BUSY: &str = "org.freedesktop.DBus.Error.LimitsExceeded";

impl Fault {
    fn parts(&self) -> (&'static str, Cow<'_, str>) {
        let (name, text) = match self {
            Fault::Control(ControlError::Unknown(text)) => (UNKNOWN, text),
            Fault::Control(ControlError::Refused(text)) => (REFUSED, text),
            Fault::Control(ControlError::Failed(text)) => (FAILED, text),
            Fault::Denied(text) => (DENIED, text),
            Fault::WouldAsk(text) => (WOULD_ASK, text),
            Fault::Argument(text) => (ARGUMENT, text),
            Fault::Busy(text) => (BUSY, text),
        };
        (name, sendable(text))
    }
}

impl DBusError for Fault {
    fn create_reply(&self, call: &Header<'_>) -> zbus::Result<Message> {
        let (name, text) = self.parts();
        Message::error(call, name)?.build(&text.as_ref())
    }

    fn name(&self) -> ErrorName<'_> {
        ErrorName::from_static_str_unchecked(self.parts().0)
    }

    fn description(&self) -> Option<&str> {
        Some(match self {
            Fault::Control(
                ControlError::Unknown(text)
                | ControlError::Refused(text)
                | ControlError::Failed(text),
            )
            | Fault::Denied(text)
            | Fault::WouldAsk(text)
            | Fault::Argument(text)
            | Fault::Busy(text) => text,
        })
    }
}

/// The text with each NUL replaced: the bus ends a connection that sends one.
pub(super) fn sendable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The error of a call that failed on the bus or in the service.
pub(super) fn error_of(error: BusError) -> ControlError {
    let BusError::Bus(zbus::Error::MethodError(name, text, _)) = error else {
        return ControlError::Failed(error.to_string());
    };
    let text = text.unwrap_or_else(|| name.to_string());
    match name.as_str() {
        UNKNOWN => ControlError::Unknown(text),
        REFUSED | DENIED | WOULD_ASK => ControlError::Refused(text),
        _ => ControlError::Failed(text),
    }
}
