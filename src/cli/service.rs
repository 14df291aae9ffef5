//! The way to the service, for the commands that talk to it.

use std::ffi::OsStr;
use std::path::{self, Path};

use super::args::DEFAULT_STATE_DIR;
use super::{Failure, say};
use crate::cli::format::text_of;
use crate::service::Local;
use crate::service::bus::{Backend, BackendError, BusError, Client};

/// The running service; started if the system knows how, and if it does not run, what can be done
/// without it. Other profiles than the service's are none of its business.
pub fn service_or_local(state_dir: &Path) -> Result<Box<dyn Backend>, Failure> {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Ok(Box::new(Local::new(state_dir)));
    }
    match Client::start() {
        Ok(Some(client)) => Ok(Box::new(client)),
        Ok(None) => Ok(Box::new(Local::new(state_dir))),
        Err(error @ BusError::NotStarted(_)) => {
            say(&format!("{error}; going on without it"));
            Ok(Box::new(Local::new(state_dir)))
        }
        Err(error) => Err(Failure::own(error)),
    }
}

/// The running service, which is not started for it: what is asked is how it is doing.
pub fn running() -> Result<Client, Failure> {
    match Client::connect() {
        Ok(Some(client)) => Ok(client),
        Ok(None) => Err(Failure::own(
            "the service is not running (systemctl start paralfetch)",
        )),
        Err(error) => Err(Failure::own(error)),
    }
}

/// The running service, which is not started for it; without it, what it has left of these profiles.
pub fn running_or_local(state_dir: &Path) -> Result<Box<dyn Backend>, Failure> {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Ok(Box::new(Local::new(state_dir)));
    }
    match Client::connect() {
        Ok(Some(client)) => Ok(Box::new(client)),
        Ok(None) => Ok(Box::new(Local::new(state_dir))),
        Err(error) => Err(Failure::own(error)),
    }
}

/// Has a running service read the profiles again, of which one was made or removed. Without a service,
/// there is nobody to tell.
pub fn tell_of_profiles(state_dir: &Path) {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return;
    }
    let told = Client::connect().map(|client| client.map(|client| client.reload()));
    if let Ok(Some(Err(error))) = told {
        say(&format!("the service still has the old profile: {error}"));
    }
}

/// How an app is named to the service, which knows nothing of our directory: what looks like a path is
/// made absolute, the rest is left to it.
pub fn app_argument(app: &OsStr) -> Result<String, Failure> {
    let text = app.to_str().ok_or_else(|| {
        Failure::own(format!(
            "{} is not UTF-8, and cannot be told the service",
            Path::new(app).display()
        ))
    })?;
    // `launcher:name` is no path, whatever the name has in it.
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

/// A failed call, in one line, whatever the service says.
pub fn failed(error: BackendError) -> Failure {
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
