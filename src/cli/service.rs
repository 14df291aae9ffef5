//! The service, for the commands that call it.

use std::ffi::OsStr;
use std::path::{self, Path};

use super::args::DEFAULT_STATE_DIR;
use super::entry::id_of_entry;
use super::{Failure, say};
use crate::cli::format::text_of;
use crate::service::control::bus::{Address, BusError, Client};
use crate::service::control::{ControlError, ServiceCalls, ServiceFiles};

/// A way to find the service: [`Client::connect`], or [`Client::start`].
type Connect = fn(&Address) -> Result<Option<Client>, BusError>;

/// Answers calls: the service, found by `connect`, or its files if there is none, or if it has other profiles
/// than those of the command.
pub fn service_or_files(
    state_dir: &Path,
    connect: Connect,
) -> Result<Box<dyn ServiceCalls>, Failure> {
    let files = Box::new(ServiceFiles::new(state_dir));
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Ok(files);
    }
    // Only root may read and change the files.
    let is_root = rustix::process::geteuid().is_root();
    match connect(&Address::System) {
        Ok(Some(client)) => Ok(Box::new(client)),
        Ok(None) if !is_root => Err(not_running()),
        Ok(None) => Ok(files),
        Err(error @ BusError::NotStarted(_)) if !is_root => Err(Failure::not_running(error)),
        Err(error @ BusError::NotStarted(_)) => {
            say(&format!("{error}; going on without it"));
            Ok(files)
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
    Failure::not_running("the service is not running (systemctl start paralfetch)")
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

/// The name of an app for the service, which knows neither the current directory nor a user's own menus: the app of a
/// .desktop entry, or a path that is made absolute; anything else stays as it is.
pub fn app_argument(app: &OsStr) -> Result<String, Failure> {
    let of_entry = id_of_entry(app)?;
    absolute_argument(of_entry.as_deref().unwrap_or(app))
}

/// The same, with an entry as it was named.
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
        app_argument(OsStr::new(app))
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
        assert!(app_argument(OsStr::from_bytes(b"\xff")).is_err());
    }
}
