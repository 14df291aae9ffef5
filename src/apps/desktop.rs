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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use entry::DesktopEntry;
pub use exec::command_line;
pub use find::{app_of_entry, find_app};
pub use scan::{entries, is_entry_name, system_directories};

use super::launchers::Rules;
use super::lookup::{base_name, executable_in, executed_names, is_executable};
use crate::model::Identity;

/// Bytes of a program's arguments that a launch is recognised by, each with its final zero: PF_ARGV_MAX of the kernel side.
const RECORDED_BYTES: usize = 4096;

/// An app that menus show or a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesktopApp {
    /// The name that menus show, untranslated; the base name of a program that they do not show.
    pub name: String,
    /// The app. Its program is the executable to be watched.
    pub identity: Identity,
    /// Base names under which the kernel may see that executable executed: its own first, then those
    /// of the files that it is a symbolic link to.
    pub names: Vec<OsString>,
    /// The arguments of its entry's command line; none of a program that a user names by its path.
    pub arguments: Vec<OsString>,
}

/// A .desktop file.
#[derive(Debug)]
pub struct MenuEntry {
    /// Desktop file ID, such as `gimp.desktop` or, for a file in the directory `kde`,
    /// `kde-kate.desktop`; empty for a directory that cannot be read.
    pub id: String,
    /// The .desktop file or directory.
    pub file: PathBuf,
    /// The app, or one line that says why it is not an app to be managed.
    pub app: Result<DesktopApp, String>,
    /// The program that it has start another app, if it is left out for that.
    pub starter: Option<PathBuf>,
}

/// Why a program that starts another app by each of its entries is no app.
pub const STARTS_OTHERS: &str = "it starts another app by each of its entries in the menus: enable the program that it starts in the \
     end, or have the administrator add a rule for it (/etc/paralfetch/launchers.d)";

/// The app of one .desktop file. `path` is as for [`entries`].
fn read_app(file: &Path, rules: &Rules, path: &OsStr) -> Result<DesktopApp, String> {
    let parsed = DesktopEntry::parse(&scan::read(file)?)?;
    let reasons = [
        (parsed.hidden, "it is hidden (Hidden=true)"),
        (parsed.kind != "Application", "Type is not Application"),
        // Mostly helpers that open a kind of file, or parts of another app.
        (parsed.no_display, "menus do not show it (NoDisplay=true)"),
        // Such apps are small, and the terminal is launched with them.
        (parsed.terminal, "it runs in a terminal (Terminal=true)"),
    ];
    if let Some((_, reason)) = reasons.iter().find(|(holds, _)| *holds) {
        return Err((*reason).to_owned());
    }
    let is_missing = |program: &String| executable_in(path, OsStr::new(program)).is_none();
    if let Some(missing) = parsed.try_exec.filter(is_missing) {
        return Err(format!("{missing} is not installed (TryExec)"));
    }
    // Such an app is only activated over D-Bus.
    let exec = parsed.exec.ok_or("it has no command line (Exec)")?;
    let exec = command_line(&exec).map_err(|why| format!("Exec: {why}"))?;
    // Without the key Path, an app starts in its parent's working directory.
    let cwd = parsed.path.as_deref().unwrap_or("/");
    let identity = identify(&exec, Path::new(cwd), rules, path)?;
    Ok(DesktopApp {
        name: parsed.name,
        names: executed_names(&identity.program),
        identity,
        arguments: exec.into_iter().skip(1).collect(),
    })
}

/// The words of a command line of which a launch's record has the whole.
fn recorded(exec: &[OsString]) -> &[OsString] {
    let mut bytes = 0;
    let is_within = |word: &&OsString| {
        bytes += word.len() + 1;
        bytes <= RECORDED_BYTES
    };
    &exec[..exec.iter().take_while(is_within).count()]
}

/// The app that a command line, which has a first word, starts.
fn identify(
    exec: &[OsString],
    cwd: &Path,
    rules: &Rules,
    path: &OsStr,
) -> Result<Identity, String> {
    let missing = |program: &Path| {
        let program = program.display();
        format!("{program} is not installed or cannot be executed")
    };
    let look_up = |name: &OsStr| executable_in(path, name);
    let file = look_up(&exec[0]).ok_or_else(|| missing(Path::new(&exec[0])))?;
    let identity = rules.identify_with(&file, exec, cwd, &look_up);
    if !is_executable(&identity.program) {
        return Err(missing(&identity.program));
    }
    if !identity.distinct {
        return Err(format!(
            "its command line starts {}, and does not tell which app that runs: name the program that it starts in the \
             end",
            identity.program.display()
        ));
    }
    let recorded = recorded(exec);
    if recorded.len() < exec.len()
        && rules.identify_with(&file, recorded, cwd, &look_up).key != identity.key
    {
        return Err(format!(
            "its command line tells the app behind more than {RECORDED_BYTES} bytes, and launches are recognised by those \
             before: shorten it (a long class path can stand in CLASSPATH)"
        ));
    }
    // A starter that no rule knows, as its argument shows; [`leave_starters_out`] goes by its other entries.
    let starts_another =
        |arg: &&OsString| !arg.as_bytes().starts_with(b"-") && look_up(arg).is_some();
    if identity.is_program()
        && identity.program == file
        && let Some(started) = exec[1..].iter().find(starts_another)
    {
        return Err(format!(
            "its command line has {} start {}: name the program that it starts in the end",
            file.display(),
            Path::new(started).display()
        ));
    }
    Ok(identity)
}

/// The first argument that an entry gives its program and that is no option; `None` if it gives none.
fn first_word(app: &DesktopApp) -> Option<&OsStr> {
    let program = base_name(app.identity.program.as_os_str());
    // Behind wrappers such as env, the program stands among the arguments.
    let own = app
        .arguments
        .iter()
        .position(|one| base_name(one) == program);
    let own = &app.arguments[own.map_or(0, |at| at + 1)..];
    let word = own.iter().find(|one| !one.as_bytes().starts_with(b"-"));
    word.map(OsString::as_os_str)
}

/// Leaves the entries out whose program is no app, as far as they show it: each of them gives it another argument, and no
/// rule says what it makes of that. An entry without one shows that the program is an app itself, and the others parts of it.
fn leave_starters_out(entries: &mut [MenuEntry]) {
    let mut words: BTreeMap<PathBuf, BTreeSet<Option<OsString>>> = BTreeMap::new();
    let programs = entries.iter().filter_map(|entry| entry.app.as_ref().ok());
    for app in programs.filter(|app| app.identity.is_program()) {
        let of_program = words.entry(app.identity.program.clone()).or_default();
        of_program.insert(first_word(app).map(OsStr::to_owned));
    }
    words.retain(|_, words| words.len() > 1 && !words.contains(&None));
    for entry in entries {
        let program = entry
            .app
            .as_ref()
            .ok()
            .filter(|app| app.identity.is_program());
        let program = program.map(|app| app.identity.program.clone());
        if let Some(program) = program.filter(|program| words.contains_key(program)) {
            entry.app = Err(format!("{}: {STARTS_OTHERS}", program.display()));
            entry.starter = Some(program);
        }
    }
}

#[cfg(test)]
mod tests;
