//! The app that a user names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::scan::is_entry_name;
use super::{DesktopApp, MenuEntry, STARTS_OTHERS, identify, read_app};
use crate::apps::launchers::Rules;
use crate::apps::lookup::{
    absolute, base_name, executable_in, executed_names, is_executable, link_chain,
};
use crate::model::Key;

/// Finds the app that a user means by `query`, tried in this order: the absolute path of a program or
/// .desktop file; the ID of a .desktop file; a command in `path`; an ID without its `.desktop`; an app's
/// key, such as `flatpak:org.gimp.GIMP`; a name in the menus, whatever its case.
///
/// # Errors
/// One line that says what was tried and what to do.
pub fn find_app(
    query: &OsStr,
    entries: &[MenuEntry],
    rules: &Rules,
    path: &OsStr,
) -> Result<DesktopApp, String> {
    let menu = Menu {
        entries,
        rules,
        path,
    };
    let given = Path::new(query);
    let shown = given.display();
    if query.is_empty() {
        return Err(
            "no app was named: give a command, an absolute path, or the name of a .desktop file"
                .to_owned(),
        );
    }
    let is_entry = is_entry_name(base_name(query));
    if query.as_bytes().contains(&b'/') {
        return match (given.is_absolute(), is_entry) {
            // Names and keys may contain slashes, too. The service does not know the user's working directory.
            (false, _) => menu
                .by_name(query)?
                .ok_or_else(|| format!("{shown} is not an absolute path: give the whole path")),
            (true, true) => menu.by_entry(given),
            (true, false) => menu.by_program(given),
        };
    }
    if is_entry {
        let listed = entries.iter().find(|entry| *entry.id == *query);
        let listed = listed.ok_or_else(|| {
            format!(
                "there is no {shown} in the system's application directories: give the path of the \
                 .desktop file"
            )
        })?;
        return menu.by_entry(&listed.file);
    }
    match executable_in(path, query).map(|file| menu.by_program(&file)) {
        Some(Ok(found)) => Ok(found),
        // A launcher may share its name with an app in the menus.
        Some(Err(error)) => menu.by_name(query)?.ok_or(error),
        None => menu.by_name(query)?.ok_or_else(|| {
            format!(
                "{shown} is neither a command in {}, nor the name of a .desktop file or of an application in \
                 the menus: give the absolute path of the program",
                path.display()
            )
        }),
    }
}

/// The app of the .desktop file at an absolute path, which need not be one of the system's entries.
///
/// # Errors
/// One line that says why it cannot be used.
pub fn app_of_entry(file: &Path, rules: &Rules, path: &OsStr) -> Result<DesktopApp, String> {
    read_app(file, rules, path).map_err(|why| format!("{} cannot be used: {why}", file.display()))
}

/// Where apps are looked for.
struct Menu<'a> {
    entries: &'a [MenuEntry],
    rules: &'a Rules,
    /// Directories of commands, separated by colons.
    path: &'a OsStr,
}

impl Menu<'_> {
    /// The apps in the menus with their desktop file IDs.
    fn apps(&self) -> impl Iterator<Item = (&str, &DesktopApp)> {
        let entries = self.entries.iter();
        entries.filter_map(|entry| Some((entry.id.as_str(), entry.app.as_ref().ok()?)))
    }

    fn by_entry(&self, file: &Path) -> Result<DesktopApp, String> {
        let listed = self.entries.iter().find(|entry| entry.file == file);
        match listed {
            Some(MenuEntry { app: Ok(app), .. }) => return Ok(app.clone()),
            // Read alone, it would not show that.
            Some(MenuEntry {
                app: Err(why),
                starter: Some(_),
                ..
            }) => return Err(format!("{} cannot be used: {why}", file.display())),
            _ => {}
        }
        // It is not installed, or may have been mended since the entries were read.
        app_of_entry(file, self.rules, self.path)
    }

    fn by_program(&self, file: &Path) -> Result<DesktopApp, String> {
        let file = absolute(file, Path::new("/"));
        let shown = file.display();
        if !is_executable(&file) {
            // A script need not be: the command line of its entry names the interpreter.
            let key = Key::File(file.clone());
            let mut of_key = self.apps().filter(|(_, app)| app.identity.key == key);
            return of_key.next().map(|(_, app)| app.clone()).ok_or_else(|| {
                format!(
                    "{shown} is not a file that can be executed: give the command that starts the app, or its \
                     .desktop file"
                )
            });
        }
        let argv = [OsString::from(&file)];
        let identity = identify(&argv, Path::new("/"), self.rules, self.path).map_err(|_| {
            format!(
                "{shown} starts many apps: give the path of the one that is meant, or its .desktop file"
            )
        })?;
        let is_starter = |entry: &MenuEntry| entry.starter.as_ref() == Some(&identity.program);
        if self.entries.iter().any(is_starter) {
            return Err(format!("{shown}: {STARTS_OTHERS}"));
        }
        let own = DesktopApp {
            name: base_name(file.as_os_str()).to_string_lossy().into_owned(),
            names: executed_names(&identity.program),
            identity,
            arguments: Vec::new(),
        };
        let apps = || self.apps().map(|(_, app)| app);
        let mut fitting: Vec<&DesktopApp> = apps()
            .filter(|app| app.identity.key == own.identity.key)
            .collect();
        if fitting.is_empty() {
            fitting.extend(apps().find(|app| is_linked(app, &own)));
        }
        // Several entries of one program, as the parts of an office suite, are one app with the program's name.
        let [app] = fitting[..] else {
            return Ok(own);
        };
        let mut found = app.clone();
        for name in own.names {
            if !found.names.contains(&name) {
                found.names.push(name);
            }
        }
        Ok(found)
    }

    fn by_name(&self, query: &OsStr) -> Result<Option<DesktopApp>, String> {
        let lower = query.to_str().map(str::to_lowercase);
        type IsMeant<'a> = &'a dyn Fn(&str, &DesktopApp) -> bool;
        let ways: [IsMeant; 3] = [
            &|id, _| id.strip_suffix(".desktop").is_some_and(|id| *id == *query),
            &|_, app| app.identity.key.as_os_str() == query,
            &|_, app| lower.as_ref() == Some(&app.name.to_lowercase()),
        ];
        for is_meant in ways {
            let fitting: Vec<_> = self.apps().filter(|(id, app)| is_meant(id, app)).collect();
            // Several entries of one app are not ambiguous.
            let keys: BTreeSet<&Key> = fitting.iter().map(|(_, app)| &app.identity.key).collect();
            if keys.len() > 1 {
                let candidates: Vec<&str> = fitting.iter().map(|(id, _)| *id).collect();
                let (query, candidates) = (query.display(), candidates.join(", "));
                return Err(format!(
                    "{query} may be any of {candidates}: give one of these"
                ));
            }
            if let Some((_, app)) = fitting.first() {
                return Ok(Some((*app).clone()));
            }
        }
        Ok(None)
    }
}

/// Whether one of two programs is a link to the other.
fn is_linked(a: &DesktopApp, b: &DesktopApp) -> bool {
    let leads_to = |from: &DesktopApp, to: &DesktopApp| {
        let mut chain = link_chain(&from.identity.program).into_iter();
        chain.any(|link| absolute(&link, Path::new("/")) == to.identity.program)
    };
    // Scripts of one launcher are not links to each other because their programs are.
    a.identity.is_program() && b.identity.is_program() && (leads_to(a, b) || leads_to(b, a))
}
