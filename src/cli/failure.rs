//! Commands that have failed, and their exit statuses.

use std::error::Error;

use crate::process::SpawnError;
use crate::service::CannotWorkHere;

/// Exit status of a command that has failed.
pub const FAILED: u8 = 1;

/// Exit status of a command that needs the service, which is not running, as that of systemctl(1).
const NOT_RUNNING: u8 = 3;

/// Exit status for a failure of this program where it is given a command to start, as that of env(1). 126 and 127 stand
/// for commands that cannot be started.
pub const OWN_FAILURE: u8 = 125;

/// Exit status of a service that cannot work on this system (EX_UNAVAILABLE of sysexits.h). systemd does not
/// start it again (RestartPreventExitStatus).
const CANNOT_WORK_HERE: u8 = 69;

/// A failed command: one line, and an exit status other than the usual one of such a command.
pub struct Failure {
    pub message: String,
    pub code: Option<u8>,
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure {
            message: error.to_string(),
            code: None,
        }
    }
}

impl Failure {
    /// As this program ends where the service cannot work.
    pub fn of_service(error: Box<dyn Error>) -> Self {
        Failure {
            code: error.is::<CannotWorkHere>().then_some(CANNOT_WORK_HERE),
            ..Failure::from(error)
        }
    }

    /// The command needs the service, which is not there: why.
    pub fn not_running(why: impl std::fmt::Display) -> Self {
        Failure {
            code: Some(NOT_RUNNING),
            ..Failure::from(why)
        }
    }

    /// A failed start has the exit status that a shell would give it.
    pub fn not_started(error: SpawnError) -> Self {
        Failure {
            code: Some(error.exit_code() as u8),
            ..Failure::from(error)
        }
    }
}
