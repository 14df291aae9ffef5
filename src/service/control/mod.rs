//! The control surface of the service: the calls with which users see and steer it.
//!
//! The running service answers them on the system bus ([`bus`]): the bus's thread sends each call to
//! the event loop and waits for the answer. Without a running service, the command line answers most of them
//! from the service's files ([`ServiceFiles`]).

mod apps;
pub mod bus;
mod changes;
mod files;
mod handlers;
mod shield;
mod types;

use thiserror::Error;
use tokio::sync::oneshot;

pub use crate::service::dictionary::word;
pub use crate::service::history::{FileReads, LaunchRecord, ReadKind};
pub use changes::{PendingChanges, ReportedApps};
pub use files::ServiceFiles;
pub use shield::{ShieldSummary, ShieldingState};
pub use types::{AppChange, AppState, ChangeKind, ProfileData, ServiceSignal, Status};

use crate::policy::PhaseRequest;
use crate::service::config::Mode;

/// The answer to a call.
pub type Answer<T> = Result<T, ControlError>;

/// Takes the answer to a call, from any thread.
pub struct Reply<T>(pub(in crate::service) oneshot::Sender<Answer<T>>);

impl<T> Reply<T> {
    /// Gives the answer.
    pub fn give(self, answer: Answer<T>) {
        // The receiver is gone if the answer took too long.
        let _ = self.0.send(answer);
    }
}

/// Passes a call on to the thread that answers it; false if that thread has ended.
pub type Post = Box<dyn Fn(ControlCall) -> bool + Send + Sync>;

/// Why a call fails, in one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// There is no such app.
    #[error("{0}")]
    Unknown(String),
    /// What the call asks for is not allowed, or makes no sense.
    #[error("{0}")]
    Refused(String),
    /// The call could not be made or carried out.
    #[error("{0}")]
    Failed(String),
    /// The call itself is not accepted: the name of the error on the bus, and its text.
    #[error("{1}")]
    Call(&'static str, String),
}

impl ControlError {
    fn failed(error: impl std::fmt::Display) -> Self {
        ControlError::Failed(error.to_string())
    }
}

/// A call on its way to the event loop, and what takes its answer. No call keeps the loop waiting for a drive: what needs
/// the history is answered by another thread. An app that is not managed is [`ControlError::Unknown`]. The user whose apps
/// and launches a call is about comes first; `None`: everybody's.
pub enum ControlCall {
    /// The service as a whole, with the numbers of the user's apps. Warnings name apps and files: the administrator alone
    /// gets them.
    Status(Option<u32>, Reply<Status>),
    /// As [`ServiceCalls::apps`].
    Apps(Option<u32>, Option<String>, Reply<Vec<AppState>>),
    /// As [`ServiceCalls::launches`].
    Launches(Option<u32>, Option<String>, u32, Reply<Vec<LaunchRecord>>),
    /// The profile of an app, of the first user of them who has one. Only the administrator is told names of files that
    /// the user could not list.
    Profile {
        user: Option<u32>,
        is_administrator: bool,
        app: String,
        reply: Reply<ProfileData>,
    },
    /// As [`ServiceCalls::ask`].
    Ask(AskedPhase, Reply<String>),
    /// Forgets an app of one user or of all, its profiles and its launches.
    Forget(Option<u32>, String, Reply<()>),
    /// The mode in force.
    Mode(Reply<Mode>),
    /// Sets the mode for good.
    SetMode(Mode, Reply<()>),
    /// Reads the configuration again. If it is wrong, the old one stays in force.
    Reload(Reply<()>),
}

/// What is to become of an app.
pub struct AskedPhase {
    /// Whose app it is, or is to be; `None`: all users'.
    pub user: Option<u32>,
    /// Only the administrator may name files that not everybody sees, and his word lifts limits.
    pub is_administrator: bool,
    pub app: String,
    pub request: PhaseRequest,
}

/// The calls that are answered with a running service ([`bus::Client`]) and without one ([`ServiceFiles`]).
/// An app that is not managed is [`ControlError::Unknown`], what the caller may not do [`ControlError::Refused`].
///
/// `user` says whose apps and launches a call is about; `None`: everybody's. Those of others are the
/// administrator's to see and to steer.
pub trait ServiceCalls {
    /// One managed app, by its path, command, .desktop entry or name, or all of them.
    fn apps(&self, user: Option<u32>, app: Option<&str>) -> Answer<Vec<AppState>>;

    /// The newest launches of an app, or of all apps, newest first, at most `limit` of them.
    fn launches(
        &self,
        user: Option<u32>,
        app: Option<&str>,
        limit: u32,
    ) -> Answer<Vec<LaunchRecord>>;

    /// Learns, prefetches or disables an app from its next launch on, and manages it if it was not managed.
    /// Returns its id ([`AppState::app`]).
    fn ask(&self, user: Option<u32>, app: &str, request: PhaseRequest) -> Answer<String>;

    /// The mode in force.
    fn mode(&self) -> Answer<Mode>;

    /// Sets the mode for good.
    fn set_mode(&self, mode: Mode) -> Answer<()>;
}
