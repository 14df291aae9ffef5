//! The applications in the system's menus: .desktop files.
//!
//! They are read as the Desktop Entry Specification 1.5 says. The parser is our own, since eight keys of one
//! group are needed, from files that may be hostile. The crate freedesktop-desktop-entry (0.8) reads files
//! without a bound, keeps every group and translation, knows neither single quotes in Exec nor field codes
//! within a word, both of which real files have, and does not say which line is wrong.

mod entry;
mod exec;
mod find;
mod scan;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use entry::{DesktopEntry, EntryError};
pub use exec::{ExecError, command_line};
pub use find::{FindError, FoundEntry, find_app};
pub use scan::{MAX_ENTRIES, MAX_ENTRY_BYTES, entries, system_directories};

use super::launchers::Rules;
use super::lookup::{executable_in, executed_names, is_executable};
use super::read::ReadError;
use crate::model::Identity;

/// An application with a .desktop file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesktopApp {
    /// Desktop file ID, such as `gimp.desktop` or, for a file in the directory `kde`,
    /// `kde-kate.desktop`.
    pub id: String,
    /// The .desktop file.
    pub entry: PathBuf,
    /// The name that menus show, untranslated.
    pub name: String,
    /// The command line, without files to open; never empty.
    pub exec: Vec<OsString>,
    /// The app that this starts.
    pub identity: Identity,
    /// The executable to be watched: that of the app or its launcher, behind wrappers.
    pub file: PathBuf,
    /// Base names under which the kernel may see that executable executed: its own first, then those
    /// of the files that it is a symbolic link to.
    pub names: Vec<OsString>,
}

/// Why a .desktop file is not that of an application to be managed.
#[derive(Debug, thiserror::Error)]
pub enum Unsuitable {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    /// More .desktop files than are looked at come before it.
    #[error("there are more than {MAX_ENTRIES} .desktop files")]
    TooMany,
    /// It breaks the Desktop Entry Specification.
    #[error(transparent)]
    Malformed(#[from] EntryError),
    /// Its command line breaks the specification.
    #[error("Exec: {0}")]
    Exec(#[from] ExecError),
    /// It is a link or a directory.
    #[error("Type is not Application")]
    NotApplication,
    /// Hidden: it counts as deleted.
    #[error("it is hidden (Hidden=true)")]
    Hidden,
    /// NoDisplay: mostly helpers that open a kind of file, or parts of another app.
    #[error("menus do not show it (NoDisplay=true)")]
    NotShown,
    /// It runs in a terminal: such apps are small, and the terminal is what is launched.
    #[error("it runs in a terminal (Terminal=true)")]
    Terminal,
    /// It has no command line: it is only activated over D-Bus.
    #[error("it has no command line (Exec)")]
    NoExec,
    /// TryExec is not installed.
    #[error("{} is not installed (TryExec)", .0.display())]
    NotInstalled(PathBuf),
    /// The program of its command line is missing.
    #[error("{} is not installed or cannot be executed", .0.display())]
    NoProgram(PathBuf),
    /// The launcher's arguments do not tell what it starts.
    #[error("its command line starts {}, and does not tell which app that runs", .0.display())]
    Indistinct(PathBuf),
}

impl Unsuitable {
    /// Whether something is wrong with the file or the installation; otherwise it is simply not an app.
    pub fn is_fault(&self) -> bool {
        use Unsuitable::{Hidden, NotApplication, NotShown, Terminal};
        !matches!(self, NotApplication | Hidden | NotShown | Terminal)
    }
}

/// A .desktop file that is left out.
#[derive(Debug)]
pub struct LeftOutEntry {
    /// Desktop file ID; empty for a directory that cannot be read.
    pub id: String,
    /// The .desktop file or directory.
    pub entry: PathBuf,
    /// Why.
    pub why: Unsuitable,
}

/// What [`entries`] finds.
#[derive(Debug, Default)]
pub struct Entries {
    /// The applications, in the order of the directories and of their IDs.
    pub apps: Vec<DesktopApp>,
    /// The others, in the same order.
    pub left_out: Vec<LeftOutEntry>,
}

/// The app of one .desktop file with the given ID.
///
/// # Errors
/// Why it is not an app to be managed.
pub fn read_app(
    entry: &Path,
    id: String,
    rules: &Rules,
    path: &OsStr,
) -> Result<DesktopApp, Unsuitable> {
    let bytes = super::read::read(entry, MAX_ENTRY_BYTES)?;
    let parsed = DesktopEntry::parse(&bytes)?;
    if parsed.hidden {
        return Err(Unsuitable::Hidden);
    }
    if parsed.kind != "Application" {
        return Err(Unsuitable::NotApplication);
    }
    if parsed.no_display {
        return Err(Unsuitable::NotShown);
    }
    if parsed.terminal {
        return Err(Unsuitable::Terminal);
    }
    let try_exec = parsed.try_exec.map(PathBuf::from);
    if let Some(missing) = try_exec.filter(|one| executable_in(path, one.as_os_str()).is_none()) {
        return Err(Unsuitable::NotInstalled(missing));
    }
    let exec = command_line(&parsed.exec.ok_or(Unsuitable::NoExec)?)?;
    let (identity, file) = identify(&exec, parsed.path.as_deref(), rules, path)?;
    Ok(DesktopApp {
        id,
        entry: entry.into(),
        name: parsed.name,
        names: executed_names(&file),
        exec,
        identity,
        file,
    })
}

/// The app that a command line starts, and the executable to be watched for it.
fn identify(
    exec: &[OsString],
    cwd: Option<&str>,
    rules: &Rules,
    path: &OsStr,
) -> Result<(Identity, PathBuf), Unsuitable> {
    let look_up = |name: &OsStr| executable_in(path, name);
    let command = exec.first().ok_or(Unsuitable::NoExec)?;
    let file = look_up(command).ok_or_else(|| Unsuitable::NoProgram(command.into()))?;
    // Without the key Path, an app starts in its parent's working directory.
    let cwd = Path::new(cwd.unwrap_or("/"));
    let identity = rules.identify_with(&file, exec, cwd, &look_up);
    let program = identity.program.clone();
    if !is_executable(&program) {
        return Err(Unsuitable::NoProgram(program));
    }
    match identity.distinct {
        true => Ok((identity, program)),
        false => Err(Unsuitable::Indistinct(program)),
    }
}

#[cfg(test)]
mod tests;
