//! The app that a user names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::scan::is_entry_name;
use super::{DesktopApp, Entries, Unsuitable, identify, read_app};
use crate::apps::key::{absolute, base_name};
use crate::apps::launchers::Rules;
use crate::apps::lookup::{executable_in, executed_names, is_executable, link_chain};
use crate::model::{Identity, Key};

/// The app that was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// What menus call it, or what the user did.
    pub name: String,
    /// Desktop file ID, if it has one.
    pub id: Option<String>,
    /// The app. A program that links to the one in the menu is that of the menu.
    pub identity: Identity,
    /// The executable to be watched.
    pub file: PathBuf,
    /// Base names under which the kernel may see it executed.
    pub names: Vec<OsString>,
}

/// Why no app was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Nothing was named.
    #[error("no app was named: give a command, an absolute path, or the name of a .desktop file")]
    Empty,
    /// The service does not know the user's working directory.
    #[error("{} is not an absolute path: give the whole path", .0.display())]
    Relative(PathBuf),
    /// The path is not that of an executable.
    #[error(
        "{} is not a file that can be executed: give the command that starts the app, or its .desktop file",
        .0.display()
    )]
    NotExecutable(PathBuf),
    /// The .desktop file is not that of an app to be managed.
    #[error("{} cannot be used: {why}", .entry.display())]
    Unsuitable {
        /// The .desktop file.
        entry: PathBuf,
        /// Why.
        why: Unsuitable,
    },
    /// The launcher runs many apps.
    #[error(
        "{} starts many apps: give the path of the one that is meant, or its .desktop file",
        .0.display()
    )]
    Launcher(PathBuf),
    /// No command, .desktop file or application has that name.
    #[error(
        "{} is neither a command in {}, nor the name of a .desktop file or of an application in the \
         menus: give the absolute path of the program",
        .query.to_string_lossy(), .path.to_string_lossy()
    )]
    NotFound {
        /// What was named.
        query: OsString,
        /// Where commands were looked for.
        path: OsString,
    },
    /// No .desktop file has that ID.
    #[error(
        "there is no {} in the system's application directories: give the path of the .desktop file",
        .0.display()
    )]
    NoEntry(PathBuf),
    /// Several apps are called that.
    #[error("{} may be any of {}: give one of these", .query.to_string_lossy(), .candidates.join(", "))]
    Ambiguous {
        /// What was named.
        query: OsString,
        /// Their desktop file IDs.
        candidates: Vec<String>,
    },
}

/// Finds the app that a user means by `query`, tried in this order: the absolute path of a program or
/// .desktop file; the ID of a .desktop file; a command in `path`; an ID without its `.desktop`; an app's
/// key, such as `flatpak:org.gimp.GIMP`; a name in the menus, whatever its case.
///
/// # Errors
/// What was tried and what to do.
pub fn find_app(
    query: &OsStr,
    entries: &Entries,
    rules: &Rules,
    path: &OsStr,
) -> Result<FoundEntry, FindError> {
    let menu = Menu {
        entries,
        rules,
        path,
    };
    menu.find(query)
}

/// Where apps are looked for.
struct Menu<'a> {
    entries: &'a Entries,
    rules: &'a Rules,
    /// Directories of commands, separated by colons.
    path: &'a OsStr,
}

impl Menu<'_> {
    fn find(&self, query: &OsStr) -> Result<FoundEntry, FindError> {
        let given = Path::new(query);
        if query.is_empty() {
            return Err(FindError::Empty);
        }
        let is_entry = is_entry_name(base_name(query));
        if query.as_bytes().contains(&b'/') {
            return match (given.is_absolute(), is_entry) {
                // Names and keys may contain slashes, too.
                (false, _) => self
                    .by_name(query)?
                    .ok_or(FindError::Relative(given.into())),
                (true, true) => self.by_entry_path(given),
                (true, false) => self.by_program(given),
            };
        }
        if is_entry {
            return self.by_id(query);
        }
        let program = executable_in(self.path, query).map(|file| self.by_program(&file));
        match program {
            Some(Ok(found)) => Ok(found),
            None => self.by_name(query)?.ok_or_else(|| FindError::NotFound {
                query: query.into(),
                path: self.path.into(),
            }),
            // A launcher may share its name with an app in the menus.
            Some(Err(error)) => self.by_name(query)?.ok_or(error),
        }
    }

    /// The .desktop file may be one that is not installed.
    fn by_entry_path(&self, entry: &Path) -> Result<FoundEntry, FindError> {
        match self.entries.apps.iter().find(|app| app.entry == entry) {
            Some(app) => Ok(FoundEntry::of(app)),
            None => {
                let id = base_name(entry.as_os_str()).to_string_lossy().into_owned();
                self.read(entry, id)
            }
        }
    }

    fn by_id(&self, query: &OsStr) -> Result<FoundEntry, FindError> {
        if let Some(app) = self.entries.apps.iter().find(|app| *app.id == *query) {
            return Ok(FoundEntry::of(app));
        }
        match self.entries.left_out.iter().find(|left| *left.id == *query) {
            // It may have been mended since the entries were read.
            Some(left) => self.read(&left.entry, left.id.clone()),
            None => Err(FindError::NoEntry(query.into())),
        }
    }

    fn read(&self, entry: &Path, id: String) -> Result<FoundEntry, FindError> {
        match read_app(entry, id, self.rules, self.path) {
            Ok(app) => Ok(FoundEntry::of(&app)),
            Err(why) => Err(FindError::Unsuitable {
                entry: entry.into(),
                why,
            }),
        }
    }

    fn by_program(&self, file: &Path) -> Result<FoundEntry, FindError> {
        let file = absolute(file, Path::new("/"));
        if !is_executable(&file) {
            return Err(FindError::NotExecutable(file));
        }
        let argv = [OsString::from(&file)];
        let (identity, program) = match identify(&argv, None, self.rules, self.path) {
            Ok(found) => found,
            Err(_) => return Err(FindError::Launcher(file)),
        };
        let mut found = FoundEntry {
            name: base_name(file.as_os_str()).to_string_lossy().into_owned(),
            id: None,
            names: executed_names(&program),
            identity,
            file: program,
        };
        let same = |app: &DesktopApp| app.identity.key == found.identity.key;
        let mut fitting: Vec<&DesktopApp> =
            self.entries.apps.iter().filter(|app| same(app)).collect();
        if fitting.is_empty() {
            let linked = self.entries.apps.iter().find(|app| is_linked(app, &found));
            fitting.extend(linked);
        }
        // Several entries of one program, as the parts of an office suite, are one app with the program's name.
        if let [app] = fitting[..] {
            let own = std::mem::replace(&mut found, FoundEntry::of(app));
            for name in own.names {
                if !found.names.contains(&name) {
                    found.names.push(name);
                }
            }
        }
        Ok(found)
    }

    fn by_name(&self, query: &OsStr) -> Result<Option<FoundEntry>, FindError> {
        let has_id = |app: &DesktopApp| {
            let stem = app.id.strip_suffix(".desktop");
            stem.is_some_and(|stem| *stem == *query)
        };
        let has_key = |app: &DesktopApp| app.identity.key.as_os_str() == query;
        let lower = query.to_str().map(str::to_lowercase);
        let has_name = |app: &DesktopApp| lower.as_ref() == Some(&app.name.to_lowercase());
        let ways: [&dyn Fn(&DesktopApp) -> bool; 3] = [&has_id, &has_key, &has_name];
        for way in ways {
            let fitting: Vec<&DesktopApp> =
                self.entries.apps.iter().filter(|app| way(app)).collect();
            // Several entries of one app are not ambiguous.
            let keys: BTreeSet<&Key> = fitting.iter().map(|app| &app.identity.key).collect();
            if keys.len() > 1 {
                return Err(FindError::Ambiguous {
                    query: query.into(),
                    candidates: fitting.iter().map(|app| app.id.clone()).collect(),
                });
            }
            if let Some(app) = fitting.first() {
                return Ok(Some(FoundEntry::of(app)));
            }
        }
        Ok(None)
    }
}

/// Whether one of two programs is a link to the other.
fn is_linked(app: &DesktopApp, found: &FoundEntry) -> bool {
    // Scripts of one launcher are not links to each other because their programs are.
    let leads_to = |from: &Path, to: &Path| {
        let chain = link_chain(from);
        chain
            .iter()
            .any(|link| absolute(link, Path::new("/")) == to)
    };
    app.identity.is_program()
        && found.identity.is_program()
        && (leads_to(&found.file, &app.file) || leads_to(&app.file, &found.file))
}

impl FoundEntry {
    fn of(app: &DesktopApp) -> FoundEntry {
        FoundEntry {
            name: app.name.clone(),
            id: Some(app.id.clone()),
            identity: app.identity.clone(),
            file: app.file.clone(),
            names: app.names.clone(),
        }
    }
}
