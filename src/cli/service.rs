//! The service, for the commands that call it.

use std::ffi::OsStr;
use std::path::{self, Path};

use super::args::DEFAULT_STATE_DIR;
use super::{Failure, say};
use crate::cli::format::text_of;
use crate::service::control::bus::{Address, BusError, Client};
use crate::service::control::{ControlError, ServiceCalls, ServiceFiles};

/// A way to find the service: [`Client::connect`], or [`Client::start`].
type Connect = fn(&Address) -> Result<Option<Client>, BusError>;

/// What answers the calls of a command.
pub struct ServiceAccess {
    /// The service, or its files.
    pub calls: Box<dyn ServiceCalls>,
    /// Whether it is the files because the service does not run: no launch is seen.
    pub is_down: bool,
}

/// Answers calls: the service, found by `connect`, or its files if there is none, or if it has other profiles
/// than those of the command.
pub fn service_or_files(state_dir: &Path, connect: Connect) -> Result<ServiceAccess, Failure> {
    let files = |is_down| ServiceAccess {
        calls: Box::new(ServiceFiles::new(state_dir)),
        is_down,
    };
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Ok(files(false));
    }
    // Only root may read and change the files.
    let is_root = rustix::process::geteuid().is_root();
    match connect(&Address::System) {
        Ok(Some(client)) => Ok(ServiceAccess {
            calls: Box::new(client),
            is_down: false,
        }),
        Ok(None) if !is_root => Err(not_running()),
        Ok(None) => Ok(files(true)),
        Err(error @ BusError::NotStarted(_)) if !is_root => Err(Failure::not_running(error)),
        Err(error @ BusError::NotStarted(_)) => {
            say(&format!("{error}; going on without it"));
            Ok(files(true))
        }
        Err(error) => Err(Failure::from(error)),
    }
}

/// The running service; it is not started, because the command asks for its state.
pub fn running() -> Result<Client, Failure> {
    let client = Client::connect(&Address::System)?;
    client.ok_or_else(not_running)
}

fn not_running() -> Failure {
    Failure::not_running(format!("the service is not running ({})", hint_to_start()))
}

/// The command that starts the service, here.
pub fn hint_to_start() -> &'static str {
    // As sd_booted(3).
    match Path::new("/run/systemd/system").is_dir() {
        true => "sudo systemctl start paralfetch",
        false => "sudo paralfetch service",
    }
}

/// Has a running service read the profiles again, after one was made or removed.
pub fn tell_of_profiles(state_dir: &Path) {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return;
    }
    let told = Client::connect(&Address::System).map(|client| client.map(|client| client.reload()));
    if let Ok(Some(Err(error))) = told {
        say(&format!("the service still has the old profile: {error}"));
    }
}

/// The name of an app for the service, which does not know the current directory: a path is made absolute, anything else
/// stays as it is.
pub fn absolute_argument(app: &OsStr) -> Result<String, Failure> {
    let text = app.to_str().ok_or_else(|| {
        Failure::from(format!(
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
        .map_err(|error| Failure::from(format!("no current directory: {error}")))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| Failure::from("the current directory is not UTF-8; give an absolute path"))
}

/// A failed call, in one line.
pub fn failed(error: ControlError) -> Failure {
    Failure::from(text_of(error.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn told(app: &str) -> String {
        absolute_argument(OsStr::new(app))
            .map_err(|f| f.message)
            .unwrap()
    }

    #[test]
    fn only_paths_are_made_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(told("gimp"), "gimp");
        assert_eq!(told("no.such.App.desktop"), "no.such.App.desktop");
        assert_eq!(told("python3:/opt/a.py"), "python3:/opt/a.py");
        assert_eq!(told("/usr/bin/gimp"), "/usr/bin/gimp");
        assert_eq!(Path::new(&told("./gimp")), here.join("gimp"));
        assert!(absolute_argument(OsStr::from_bytes(b"\xff")).is_err());
    }
}
