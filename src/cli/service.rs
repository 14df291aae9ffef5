//! The service, for the commands that call it.

use std::ffi::OsStr;
use std::path::{self, Path};

use super::args::DEFAULT_STATE_DIR;
use super::{Failure, say};
use crate::cli::format::text_of;
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::bus::{BusError, Client};
use crate::service::control::{Answer, AppState, ControlError, LaunchRecord, ServiceFiles};

/// Answers calls: the running service, or its files without one.
pub enum ServiceOrFiles {
    /// The running service.
    Service(Client),
    /// The files: the service does not run, or has other profiles than those of the command.
    Files(ServiceFiles),
}

impl ServiceOrFiles {
    /// The service, started if the system knows how.
    pub fn start(state_dir: &Path) -> Result<Self, Failure> {
        Self::find(state_dir, Client::start)
    }

    /// The service if it is running.
    pub fn running(state_dir: &Path) -> Result<Self, Failure> {
        Self::find(state_dir, Client::connect)
    }

    fn find(
        state_dir: &Path,
        connect: fn() -> Result<Option<Client>, BusError>,
    ) -> Result<Self, Failure> {
        let files = ServiceOrFiles::Files(ServiceFiles::new(state_dir));
        if state_dir != Path::new(DEFAULT_STATE_DIR) {
            return Ok(files);
        }
        match connect() {
            Ok(Some(client)) => Ok(ServiceOrFiles::Service(client)),
            Ok(None) => Ok(files),
            Err(error @ BusError::NotStarted(_)) => {
                say(&format!("{error}; going on without it"));
                Ok(files)
            }
            Err(error) => Err(Failure::own(error)),
        }
    }

    /// As [`Client::apps`].
    pub fn apps(&self) -> Answer<Vec<AppState>> {
        match self {
            ServiceOrFiles::Service(client) => client.apps(),
            ServiceOrFiles::Files(files) => files.apps(),
        }
    }

    /// As [`Client::app`].
    pub fn app(&self, app: &str) -> Answer<AppState> {
        match self {
            ServiceOrFiles::Service(client) => client.app(app),
            ServiceOrFiles::Files(files) => files.app(app),
        }
    }

    /// As [`Client::launches`].
    pub fn launches(&self, app: Option<&str>, limit: u32) -> Answer<Vec<LaunchRecord>> {
        match self {
            ServiceOrFiles::Service(client) => client.launches(app, limit),
            ServiceOrFiles::Files(files) => files.launches(app, limit),
        }
    }

    /// As [`Client::ask`].
    pub fn ask(&self, app: &str, request: PhaseRequest) -> Answer<String> {
        match self {
            ServiceOrFiles::Service(client) => client.ask(app, request),
            ServiceOrFiles::Files(files) => files.ask(app, request),
        }
    }

    /// As [`Client::mode`].
    pub fn mode(&self) -> Answer<Mode> {
        match self {
            ServiceOrFiles::Service(client) => client.mode(),
            ServiceOrFiles::Files(files) => files.mode(),
        }
    }

    /// As [`Client::set_mode`].
    pub fn set_mode(&self, mode: Mode) -> Answer<()> {
        match self {
            ServiceOrFiles::Service(client) => client.set_mode(mode),
            ServiceOrFiles::Files(files) => files.set_mode(mode),
        }
    }
}

/// The running service; it is not started, because the command asks for its state.
pub fn running() -> Result<Client, Failure> {
    match Client::connect() {
        Ok(Some(client)) => Ok(client),
        Ok(None) => Err(Failure::own(
            "the service is not running (systemctl start paralfetch)",
        )),
        Err(error) => Err(Failure::own(error)),
    }
}

/// Has a running service read the profiles again, after one was made or removed.
pub fn tell_of_profiles(state_dir: &Path) {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return;
    }
    let told = Client::connect().map(|client| client.map(|client| client.reload()));
    if let Ok(Some(Err(error))) = told {
        say(&format!("the service still has the old profile: {error}"));
    }
}

/// The name of an app for the service, which does not know the current directory: a path is made
/// absolute, anything else stays as it is.
pub fn app_argument(app: &OsStr) -> Result<String, Failure> {
    let text = app.to_str().ok_or_else(|| {
        Failure::own(format!(
            "{} is not UTF-8, and cannot be told the service",
            Path::new(app).display()
        ))
    })?;
    // `launcher:name` is not a path, even if the name contains a slash.
    let (before, _) = text.split_once('/').unwrap_or((text, ""));
    if before == text || before.contains(':') {
        return Ok(text.to_owned());
    }
    let absolute = path::absolute(text)
        .map_err(|error| Failure::own(format!("no current directory: {error}")))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| Failure::own("the current directory is not UTF-8; give an absolute path"))
}

/// A failed call, in one line.
pub fn failed(error: ControlError) -> Failure {
    Failure::own(text_of(error.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn told(app: &str) -> String {
        app_argument(OsStr::new(app))
            .map_err(|f| f.message)
            .unwrap()
    }

    #[test]
    fn only_paths_are_made_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(told("gimp"), "gimp");
        assert_eq!(told("org.gimp.GIMP.desktop"), "org.gimp.GIMP.desktop");
        assert_eq!(told("python3:/opt/a.py"), "python3:/opt/a.py");
        assert_eq!(told("/usr/bin/gimp"), "/usr/bin/gimp");
        assert_eq!(Path::new(&told("./gimp")), here.join("gimp"));
        assert!(app_argument(OsStr::from_bytes(b"\xff")).is_err());
    }
}
