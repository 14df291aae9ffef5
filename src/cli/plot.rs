//! `plot`: the newest launches of an app, as a page for browsers.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::format::text_of;
use super::named;
use super::page::{BEGIN, LaunchPage, MachineText, page, short_name};
use super::profiles::write_out;
use super::service::{failed, service_or_files};
use super::{Failure, say};
use crate::drive::{KnownDrive, MeasuredDrives, Sysfs, known_drives};
use crate::fs::mounts::MountTable;
use crate::service::control::bus::{Client, MAX_LAUNCHES};
use crate::service::control::{AppState, ServiceCalls};

/// Longest name of an app in the name of a file, in bytes: file systems allow 255 for the whole.
const MAX_NAME: usize = 200;

/// Writes the page of an app: to a file, to standard output for `-`, or else to the file that is named after the app.
pub fn main(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let service = service_or_files(state_dir, Client::connect)?;
    let apps = named::ask(&service, user, app, |app| {
        service.calls.apps(user, Some(app))
    })?;
    let (id, made) = page_of(service.calls.as_ref(), state_dir, user, &apps)?;
    match output {
        Some(output) if output == Path::new("-") => write_out(&made),
        output => {
            let file = output.map_or_else(|| file_name(&id), Path::to_owned);
            write(&file, &made)?;
            say(&text_of(format!("wrote {}", file.display()).as_bytes()));
            Ok(())
        }
    }
}

/// The id of the app that is asked for, and its page.
fn page_of(
    service: &dyn ServiceCalls,
    state_dir: &Path,
    user: Option<u32>,
    apps: &[AppState],
) -> Result<(String, String), Failure> {
    // All of them have the same id.
    let app = apps.first().map_or("", |app| &app.app);
    let launches = service.launches(user, Some(app), MAX_LAUNCHES);
    let launches = launches.map_err(failed)?;
    let Some(newest) = launches.first() else {
        return Err(shown(format!(
            "no launch of {app} was recorded yet: start it while the service runs"
        )));
    };
    let made = page(&LaunchPage {
        apps,
        launches: &launches,
        machine: machine(state_dir, &newest.app),
        made_s: u64::try_from(Timestamp::now().as_second()).unwrap_or(0),
    });
    Ok((newest.app.clone(), made))
}

/// A failure in one line, whatever the names in it contain.
fn shown(message: String) -> Failure {
    Failure::from(text_of(message.as_bytes()))
}

/// The file of an app's page, in the current directory.
fn file_name(app: &str) -> PathBuf {
    let kept = |c: char| c.is_alphanumeric() || "._-+".contains(c);
    let name = short_name(app).chars();
    let name: String = name.map(|c| if kept(c) { c } else { '_' }).collect();
    // Neither hidden nor an option of other programs.
    let name = name.trim_start_matches(['.', '-']);
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    match &name[..end] {
        "" => "launches.html".into(),
        name => format!("{name}-launches.html").into(),
    }
}

/// Writes the page as a whole or not at all. What is there is replaced only if it is such a page.
fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let cannot = |error: io::Error| {
        let why = match error.kind() {
            ErrorKind::NotFound => "there is no such directory".to_owned(),
            ErrorKind::PermissionDenied => {
                "you may not write there; -o names another file".to_owned()
            }
            other => other.to_string(),
        };
        shown(format!("cannot write {}: {why}", path.display()))
    };
    let is_there = match path.symlink_metadata() {
        Ok(_) if is_page(path) => true,
        Ok(_) => {
            return Err(shown(format!(
                "{} exists and is not a page of `paralfetch plot`: remove it, or name another file with -o",
                path.display()
            )));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(cannot(error)),
    };
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    // As any new file, less the umask.
    let mut file = tempfile::Builder::new()
        .prefix(".paralfetch-plot-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")))
        .map_err(cannot)?;
    file.write_all(page.as_bytes()).map_err(cannot)?;
    let put = match is_there {
        true => file.persist(path),
        false => file.persist_noclobber(path),
    };
    put.map_err(|failed| cannot(failed.error))?;
    Ok(())
}

/// Whether a file is a page that was written here. Follows no link, and opens nothing that could block.
fn is_page(path: &Path) -> bool {
    begin(path).is_ok_and(|begin| begin == BEGIN.as_bytes())
}

/// The first bytes of a regular file, as many as pages have in common.
fn begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    if path.symlink_metadata()?.is_file() {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags).open(path)?;
        file.take(BEGIN.len() as u64).read_to_end(&mut begin)?;
    }
    Ok(begin)
}

/// The kernel, and the drives that the app's file is on.
fn machine(state_dir: &Path, app: &str) -> MachineText {
    let uname = rustix::system::uname();
    MachineText {
        kernel: uname.release().to_string_lossy().into_owned(),
        drives: drives(state_dir, app).iter().map(drive_text).collect(),
    }
}

/// The drives below an app's file; none if it has no file, or if the system does not tell.
fn drives(state_dir: &Path, app: &str) -> Vec<KnownDrive> {
    let found = file_of(app).and_then(|file| fs::metadata(file).ok());
    let (Some(found), Ok(mounts)) = (found, MountTable::read()) else {
        return Vec::new();
    };
    // Only root may read what was measured.
    let kept = MeasuredDrives::load(state_dir).unwrap_or_default();
    known_drives([found.dev()], &Sysfs::default(), &mounts, &kept)
}

/// The path in an app's id, which is a path or `launcher:name`.
fn file_of(app: &str) -> Option<&str> {
    let path = match app.starts_with('/') {
        true => app,
        false => app.split_once(':')?.1,
    };
    path.starts_with('/').then_some(path)
}

/// A drive in words; what was not measured is left out.
fn drive_text(drive: &KnownDrive) -> String {
    match drive.measured {
        Some(_) => format!("{}: {}", drive.name, drive.describe()),
        None => drive.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PhaseRequest;
    use crate::service::config::Mode;
    use crate::service::control::{Answer, ControlError, LaunchRecord};

    /// Knows these launches.
    struct OneApp(Vec<LaunchRecord>);

    impl ServiceCalls for OneApp {
        fn apps(&self, _: Option<u32>, app: Option<&str>) -> Answer<Vec<AppState>> {
            Err(ControlError::Unknown(app.unwrap_or_default().to_owned()))
        }

        fn launches(&self, _: Option<u32>, _: Option<&str>, _: u32) -> Answer<Vec<LaunchRecord>> {
            Ok(self.0.clone())
        }

        fn ask(&self, _: Option<u32>, _: &str, _: PhaseRequest) -> Answer<String> {
            Err(ControlError::Refused(String::new()))
        }

        fn mode(&self) -> Answer<Mode> {
            Err(ControlError::Refused(String::new()))
        }

        fn set_mode(&self, _: Mode) -> Answer<()> {
            Err(ControlError::Refused(String::new()))
        }
    }

    #[test]
    fn apps_without_launches_are_errors_of_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let app = AppState {
            app: "a\npp".to_owned(),
            ..AppState::default()
        };
        let of = |service: &OneApp| {
            let made = page_of(service, dir.path(), None, std::slice::from_ref(&app));
            made.map_err(|failure| failure.message)
        };
        let said = of(&OneApp(Vec::new())).unwrap_err();
        let expected = "no launch of a\u{fffd}pp was recorded";
        assert!(said.starts_with(expected), "{said}");
        let launch = LaunchRecord {
            app: "/nonexistent/app".to_owned(),
            ..LaunchRecord::default()
        };
        let (id, page) = of(&OneApp(vec![launch])).unwrap();
        assert_eq!(id, "/nonexistent/app");
        assert!(page.contains("<dt>drive</dt><dd>not known</dd>"), "{page}");
    }

    #[test]
    fn files_are_named_after_the_app() {
        let named = |app: &str| file_name(app).into_os_string().into_string().unwrap();
        assert_eq!(named("/usr/bin/gimp"), "gimp-launches.html");
        assert_eq!(named("python3:/opt/my app.py"), "my_app.py-launches.html");
        assert_eq!(
            named("flatpak:org.gimp.GIMP"),
            "org.gimp.GIMP-launches.html"
        );
        assert_eq!(named("/opt/.-hidden\n"), "hidden_-launches.html");
        assert_eq!(named("/opt/..."), "launches.html");
        let long = named(&format!("/{}", "ä".repeat(300)));
        assert!(
            long.len() <= 255 && long.ends_with("ä-launches.html"),
            "{long}"
        );
    }

    #[test]
    fn only_pages_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.html");
        let new = |text: &str| format!("{BEGIN}{text}");
        let message = |path: &Path| write(path, &new("b")).err().unwrap().message;
        write(&file, &new("a")).map_err(|f| f.message).unwrap();
        write(&file, &new("b")).map_err(|f| f.message).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), new("b"));
        let foreign = dir.path().join("foreign.html");
        let link = dir.path().join("link.html");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for text in ["", "<!DOCTYPE html>", "\u{e4}"] {
            fs::write(&foreign, text).unwrap();
            assert!(message(&foreign).contains("exists and is not a page"));
            assert_eq!(fs::read_to_string(&foreign).unwrap(), text);
        }
        for path in [&link, dir.path(), Path::new("/dev/null")] {
            assert!(message(path).contains("exists and is not a page"));
        }
        let nowhere = dir.path().join("no\nsuch/a.html");
        let said = message(&nowhere);
        assert!(
            said.starts_with("cannot write ") && said.ends_with("there is no such directory"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
        // Nothing is left behind.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn the_file_of_an_app_is_the_path_in_its_id() {
        assert_eq!(file_of("/usr/bin/gimp"), Some("/usr/bin/gimp"));
        assert_eq!(file_of("python3:/opt/a.py"), Some("/opt/a.py"));
        assert_eq!(file_of("flatpak:org.gimp.GIMP"), None);
        assert_eq!(file_of("gimp"), None);
    }
}
