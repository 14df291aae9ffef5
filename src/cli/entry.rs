//! The app of a .desktop entry that a command names instead of the app.
//!
//! The command reads the entry, as its user. The service reads those of the system alone, since a user's own may be
//! anything: it is given the app, and checks that as any other.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use super::{Failure, xdg};
use crate::apps::desktop::{MenuEntry, app_of_entry, entries, is_entry_name, system_directories};
use crate::apps::{LAUNCHERS_DIR, Rules};
use crate::cli::format::text_of;
use crate::service::SEARCH_PATH;

/// The directories in which commands are looked up, separated by colons. Where a menu of the user's finds programs, a command
/// does.
pub fn search_path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| SEARCH_PATH.into())
}

/// The id of the app whose entry a command names: by the path of its file, by its ID in the menus of this user or of
/// the system, or by its name in the current directory. `None` if that is no entry.
pub fn id_of_entry(named: &OsStr) -> Result<Option<OsString>, Failure> {
    let search = search_path();
    let own = xdg::data().map(|data| data.join("applications"));
    let menus = own.into_iter().chain(system_directories());
    id_in(named, &menus.collect::<Vec<_>>(), &search)
}

/// As [`id_of_entry`], with the directories of the menus, and those that commands are looked up in.
fn id_in(named: &OsStr, menus: &[PathBuf], search: &OsStr) -> Result<Option<OsString>, Failure> {
    let is_path = named.as_bytes().contains(&b'/');
    let file = Path::new(named);
    if !file.file_name().is_some_and(is_entry_name) {
        return Ok(None);
    }
    let (rules, _) = Rules::load(Path::new(LAUNCHERS_DIR));
    let listed = match is_path {
        true => None,
        false => {
            let mut listed = entries(menus, &rules, search).into_iter();
            listed.find(|entry| *entry.id == *named)
        }
    };
    let file = match listed {
        // Its file alone does not show that.
        Some(MenuEntry {
            app: Err(why),
            starter: Some(_),
            ..
        }) => return Err(Failure::from(text_of(why.as_bytes()))),
        Some(entry) => entry.file,
        None if is_path || file.exists() => path::absolute(file)
            .map_err(|error| Failure::from(format!("no current directory: {error}")))?,
        // It may be an app of that name.
        None => return Ok(None),
    };
    // Names of files and what stands in them may hold anything.
    let app = app_of_entry(&file, &rules, search);
    let app = app.map_err(|why| Failure::from(text_of(why.as_bytes())))?;
    Ok(Some(app.identity.key.as_os_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn entries_are_named_by_path_or_id_and_lead_to_their_apps() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["own", "system", "bin"] {
            fs::create_dir(at(name)).unwrap();
        }
        let program = |name: &str| at("bin").join(name).into_os_string();
        for name in ["gimp", "mine"] {
            fs::write(program(name), "").unwrap();
            fs::set_permissions(program(name), Permissions::from_mode(0o755)).unwrap();
        }
        let entry = |file: &str, lines: &str| {
            let text = format!("[Desktop Entry]\nType=Application\nName=X\n{lines}\n");
            fs::write(at(file), text).unwrap();
        };
        entry("system/gimp.desktop", "Exec=gimp %U");
        entry("system/both.desktop", "Exec=gimp");
        entry("own/both.desktop", "Exec=mine");
        entry("own/top.desktop", "Exec=mine\nTerminal=true");
        let menus = [at("own"), at("system")];
        let id = |named: &OsStr| {
            let id = id_in(named, &menus, at("bin").as_os_str());
            id.map_err(|failure| failure.message)
        };
        let of_path = |name: &str| id(at(name).as_os_str());
        assert_eq!(of_path("system/gimp.desktop"), Ok(Some(program("gimp"))));
        assert_eq!(of_path("own/both.desktop"), Ok(Some(program("mine"))));
        let of_id = |name: &str| id(OsStr::new(name));
        assert_eq!(of_id("gimp.desktop"), Ok(Some(program("gimp"))));
        // The user's own comes before the system's.
        assert_eq!(of_id("both.desktop"), Ok(Some(program("mine"))));
        for other in [
            "gimp",
            "none.desktop",
            "flatpak:a.desktop",
            "/usr/bin/gimp",
            ".desktop",
            "",
        ] {
            assert_eq!(of_id(other), Ok(None), "{other}");
        }
        let why = of_path("own/top.desktop").unwrap_err();
        assert!(why.contains("own/top.desktop cannot be used") && why.contains("Terminal=true"));
        let why = of_path("own/no\nne.desktop").unwrap_err();
        assert!(why.contains("there is no such file"), "{why}");
        assert_eq!(why.lines().count(), 1);
    }
}
