//! The one way in which commands are told an app: by a command, by a path, by any link to it, by a .desktop entry, by the
//! name in the menu, or by the name that the service has for it.
//!
//! The service knows neither the current directory nor the user's PATH and menus, and must not follow his links. So the
//! command tries what the name may stand for, one after the other, until the service knows the app.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path};

use rustix::fs::FileType;

use super::Failure;
use super::entry::{id_of_entry, search_path};
use super::service::{ServiceAccess, absolute_argument, failed, hint_to_start};
use crate::apps::{CommandLinks, LAUNCHERS_DIR, Rules};
use crate::cli::format::text_of;
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;
use crate::process::Command;
use crate::service::control::{Answer, AppState, ControlError};

/// What `ask` says of the app of this user, or of all, that was named. It is called with one id or name after the other
/// until it knows the app.
pub fn ask<T>(
    service: &ServiceAccess,
    user: Option<u32>,
    named: &OsStr,
    ask: impl FnMut(&str) -> Answer<T>,
) -> Result<T, Failure> {
    let unknown = match look_up(service, user, named, ask)? {
        Ok(found) => return Ok(found),
        Err(unknown) => failed(unknown),
    };
    if !service.is_down {
        return Err(unknown);
    }
    Err(Failure::not_running(format!(
        "{}; the service is not running, and sees no launch: {}",
        unknown.message,
        hint_to_start()
    )))
}

/// As [`ask`]; `None` if it knows no such app.
pub fn ask_if_known<T>(
    service: &ServiceAccess,
    user: Option<u32>,
    named: &OsStr,
    ask: impl FnMut(&str) -> Answer<T>,
) -> Result<Option<T>, Failure> {
    Ok(look_up(service, user, named, ask)?.ok())
}

/// What `ask` says, or that it knows no such app. The outer error is any other one.
fn look_up<T>(
    service: &ServiceAccess,
    user: Option<u32>,
    named: &OsStr,
    mut ask: impl FnMut(&str) -> Answer<T>,
) -> Result<Answer<T>, Failure> {
    refuse_directory(named)?;
    let mut unknown = None;
    for name in plain_names(named)? {
        match ask(&name) {
            Err(why @ ControlError::Unknown(_)) => unknown = unknown.or(Some(why)),
            answer => return answer.map(Ok).map_err(failed),
        }
    }
    if let Some(id) = linked(service, user, named)? {
        match ask(&id) {
            Err(ControlError::Unknown(_)) => {}
            answer => return answer.map(Ok).map_err(failed),
        }
    }
    if let Some(path) = own_command(named) {
        match ask(&path) {
            Err(ControlError::Unknown(_)) => {}
            answer => return answer.map(Ok).map_err(failed),
        }
    }
    Ok(Err(unknown.unwrap_or_else(|| {
        ControlError::Unknown("no app was named".to_owned())
    })))
}

/// The app of the entry that is named, or the name with its path made absolute; and the entry's own path, by which a
/// service knows what a menu of the system shows, wherever the program is.
fn plain_names(named: &OsStr) -> Result<Vec<String>, Failure> {
    let of_entry = id_of_entry(named)?;
    let mut names = vec![absolute_argument(of_entry.as_deref().unwrap_or(named))?];
    let own = absolute_argument(named)?;
    if !names.contains(&own) {
        names.push(own);
    }
    Ok(names)
}

/// The path of a command in this user's PATH, which may have directories that the service does not look in, such as his
/// own.
fn own_command(named: &OsStr) -> Option<String> {
    let command = (!is_path(named)).then(|| Command::find(&[named.to_owned()], None).ok());
    command.flatten()?.path().to_str().map(str::to_owned)
}

/// A directory is no app, whatever it holds.
fn refuse_directory(named: &OsStr) -> Result<(), Failure> {
    let find = || local(Path::new(named), &MountTable::read().ok()?);
    let found = is_path(named).then(find).flatten();
    match found.is_some_and(|file| file.node.kind == FileType::Directory) {
        false => Ok(()),
        true => Err(Failure::from(format!(
            "{} is a directory: name the program in it, or the app's command",
            text_of(named.as_bytes())
        ))),
    }
}

fn is_path(named: &OsStr) -> bool {
    named.as_bytes().contains(&b'/')
}

/// What lies at this path, if the kernel alone can tell: another process or a server might never answer.
fn local(path: &Path, mounts: &MountTable) -> Option<LocalFile> {
    LocalFile::find(&path::absolute(path).ok()?, mounts).ok()
}

/// The managed app that starts the same program as the command or path that is named.
fn linked(
    service: &ServiceAccess,
    user: Option<u32>,
    named: &OsStr,
) -> Result<Option<String>, Failure> {
    let mounts = MountTable::read()
        .map_err(|error| Failure::from(format!("the mount table cannot be read: {error}")))?;
    if is_path(named) && local(Path::new(named), &mounts).is_none() {
        return Ok(None);
    }
    let Ok(command) = Command::find(&[named.to_owned()], None) else {
        return Ok(None);
    };
    let (rules, _) = Rules::load(Path::new(LAUNCHERS_DIR));
    let end = |link: &Path| Some(local(link, &mounts)?.path);
    let links = CommandLinks::read(&search_path(), end);
    let apps = service.calls.apps(user, None).map_err(failed)?;
    same_program(&apps, command.path(), &mounts, &links, &rules).map_err(|several| {
        let several: Vec<&str> = several.iter().map(String::as_str).collect();
        let line = format!(
            "{} may be any of {}; give the whole path",
            named.display(),
            several.join(", ")
        );
        Failure::from(text_of(line.as_bytes()))
    })
}

/// The id of the one app whose program is that at `path`; those of all if there are several.
fn same_program(
    apps: &[AppState],
    path: &Path,
    mounts: &MountTable,
    links: &CommandLinks,
    rules: &Rules,
) -> Result<Option<String>, BTreeSet<String>> {
    let Some(file) = local(path, mounts).map(|found| found.path) else {
        return Ok(None);
    };
    if links.is_many_apps(&file, rules) {
        return Ok(None);
    }
    let ids = apps.iter().map(|app| &app.app);
    let starts_it = |id: &&String| {
        id.starts_with('/')
            && local(Path::new(id), mounts).is_some_and(|started| started.path == file)
    };
    let mut found: BTreeSet<String> = ids.filter(starts_it).cloned().collect();
    match found.len() {
        0 | 1 => Ok(found.pop_first()),
        _ => Err(found),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn apps(ids: &[&Path]) -> Vec<AppState> {
        let state = |id: &&Path| AppState {
            app: id.to_str().unwrap().to_owned(),
            ..AppState::default()
        };
        ids.iter().map(state).collect()
    }

    #[test]
    fn an_app_is_named_by_each_link_that_leads_to_its_program_and_several_are_not_guessed_among() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for file in ["gimp-2.10", "busybox", "other"] {
            fs::write(at(file), "").unwrap();
        }
        for (target, link) in [
            ("gimp-2.10", "gimp"),
            ("gimp", "editor"),
            ("busybox", "vi"),
            ("busybox", "sh"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let mounts = MountTable::read().unwrap();
        let end = |link: &Path| Some(local(link, &mounts)?.path);
        let links = CommandLinks::read(dir.path().as_os_str(), end);
        let found = |ids: &[&Path], named: &str| {
            same_program(&apps(ids), &at(named), &mounts, &links, &Rules::builtin())
        };
        let (gimp, own) = (at("gimp"), at("gimp-2.10"));
        let id = |path: &Path| Ok(Some(path.to_str().unwrap().to_owned()));
        for named in ["gimp", "editor", "gimp-2.10"] {
            assert_eq!(found(&[&own], named), id(&own), "{named}");
            assert_eq!(found(&[&gimp], named), id(&gimp), "{named}");
        }
        assert_eq!(found(&[&own], "other"), Ok(None));
        assert_eq!(found(&[&own], "none"), Ok(None));
        // The other names of such a program are other apps.
        assert_eq!(found(&[&at("vi")], "sh"), Ok(None));
        let several = found(&[&gimp, &own], "editor").unwrap_err();
        assert_eq!(several.len(), 2);
    }

    #[test]
    fn a_command_is_found_in_the_path_of_its_user_and_nothing_else_is() {
        let shell = own_command(OsStr::new("sh")).unwrap();
        assert!(shell.starts_with('/') && shell.ends_with("/sh"), "{shell}");
        for other in ["/bin/sh", "./sh", "no-such-command", "sh.desktop", ""] {
            assert_eq!(own_command(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn directories_are_refused_with_what_to_do() {
        let why = refuse_directory(OsStr::new("/tmp")).unwrap_err().message;
        assert!(why.contains("/tmp is a directory: name"), "{why}");
        assert!(refuse_directory(OsStr::new("tmp")).is_ok());
        assert!(refuse_directory(OsStr::new("/dev/null")).is_ok());
    }
}
