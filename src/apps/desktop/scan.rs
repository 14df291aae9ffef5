//! The directories with .desktop files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{MenuEntry, leave_starters_out, read_app};
use crate::apps::launchers::Rules;
use crate::fs::safe_open;

/// Largest .desktop file, in bytes. Those with a hundred translations have some 50 KB.
pub(super) const MAX_ENTRY_BYTES: u64 = 256 << 10;

/// Most .desktop files that are looked at, in all directories together.
pub(super) const MAX_ENTRIES: usize = 4096;

/// The system's application directories, the most important first. Users' own directories are not among
/// them, since any program of the user can write there.
pub fn system_directories() -> Vec<PathBuf> {
    [
        "/usr/local/share/applications",
        "/usr/share/applications",
        "/var/lib/flatpak/exports/share/applications",
        "/var/lib/snapd/desktop/applications",
    ]
    .map(PathBuf::from)
    .into()
}

/// The .desktop files in `dirs` and one level of directories below them, in the order of the directories and
/// of their IDs. Of several files of one ID, that in the first directory counts, even if it only hides the
/// others. `path` is the PATH, directories separated by colons, that Exec's commands are looked up in.
/// Missing directories count as empty. Nothing but regular files of at most 256 KiB is opened.
pub fn entries(dirs: &[PathBuf], rules: &Rules, path: &OsStr) -> Vec<MenuEntry> {
    let mut entries = Vec::new();
    let mut known = HashSet::new();
    let mut budget = MAX_ENTRIES;
    for dir in dirs {
        let mut files = Vec::new();
        if let Err(why) = list(dir, "", true, &mut budget, &mut files) {
            entries.push(MenuEntry {
                id: String::new(),
                file: dir.clone(),
                app: Err(why),
                starter: None,
            });
        }
        files.sort();
        files.retain(|(id, _)| known.insert(id.clone()));
        entries.extend(files.into_iter().map(|(id, file)| MenuEntry {
            id,
            app: read_app(&file, rules, path),
            file,
            starter: None,
        }));
    }
    leave_starters_out(&mut entries);
    entries
}

/// Adds the .desktop files in `dir` with their IDs, which begin with `prefix`.
fn list(
    dir: &Path,
    prefix: &str,
    below: bool,
    budget: &mut usize,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), String> {
    let listing = match fs::read_dir(dir) {
        Err(error) if is_missing(&error) => return Ok(()),
        listing => listing.map_err(unreadable)?,
    };
    for entry in listing {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let is_entry = is_entry_name(&name);
        let is_dir = below && !is_entry && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_entry && !is_dir {
            continue;
        }
        *budget = budget
            .checked_sub(1)
            .ok_or_else(|| format!("there are more than {MAX_ENTRIES} .desktop files"))?;
        let id = format!("{prefix}{}", name.to_string_lossy());
        if is_entry {
            files.push((id, entry.path()));
        } else {
            list(&entry.path(), &format!("{id}-"), false, budget, files)?;
        }
    }
    Ok(())
}

/// Whether a file of this name may be an entry: `*.desktop`.
pub fn is_entry_name(name: &OsStr) -> bool {
    let stem = name.as_bytes().strip_suffix(b".desktop");
    stem.is_some_and(|stem| !stem.is_empty())
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn unreadable(error: impl Into<io::Error>) -> String {
    let error = error.into();
    match is_missing(&error) {
        true => "there is no such file".to_owned(),
        false => format!("it cannot be read: {error}"),
    }
}

/// Reads a .desktop file, which any user may have written: never waits, opens nothing but a regular file, and
/// reads no more than the limit. Symbolic links are followed: exported .desktop files are links.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a FIFO or a device has effects. O_PATH has none, and fstat tells what it is.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty()).map_err(unreadable)?;
    let file = safe_open::regular(&found, OFlags::empty()).map_err(unreadable)?;
    let (file, _) = file.ok_or("it is not a regular file")?;
    let mut bytes = Vec::new();
    // One byte more than the limit shows that the file is larger, whatever size it claims.
    let mut limited = File::from(file).take(MAX_ENTRY_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 <= MAX_ENTRY_BYTES {
        true => Ok(bytes),
        false => Err(format!("it is larger than {MAX_ENTRY_BYTES} bytes")),
    }
}
