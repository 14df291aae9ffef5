//! The directories with .desktop files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Entries, LeftOutEntry, Unsuitable, read_app};
use crate::apps::launchers::Rules;
use crate::apps::read::ReadError;

/// Largest .desktop file, in bytes. Those with a hundred translations have some 50 KB.
pub const MAX_ENTRY_BYTES: usize = 256 << 10;

/// Most .desktop files that are looked at, in all directories together.
pub const MAX_ENTRIES: usize = 4096;

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

/// The applications with .desktop files in `dirs` and one level of directories below them. Of several
/// files of one ID, that in the first directory counts, even if it only hides the others. `path` is the
/// PATH, directories separated by colons, that Exec's commands are looked up in. Missing directories
/// count as empty. Nothing but regular files of at most [`MAX_ENTRY_BYTES`] is opened.
pub fn entries(dirs: &[PathBuf], rules: &Rules, path: &OsStr) -> Entries {
    let mut found = Entries::default();
    let mut known = HashSet::new();
    let mut budget = MAX_ENTRIES;
    for dir in dirs {
        let mut files = Vec::new();
        if let Err(why) = list(dir, "", true, &mut budget, &mut files) {
            found.left_out.push(LeftOutEntry {
                id: String::new(),
                entry: dir.clone(),
                why,
            });
        }
        files.sort();
        for (id, entry) in files {
            if !known.insert(id.clone()) {
                continue;
            }
            match read_app(&entry, id.clone(), rules, path) {
                Ok(app) => found.apps.push(app),
                Err(why) => found.left_out.push(LeftOutEntry { id, entry, why }),
            }
        }
    }
    found
}

/// Adds the .desktop files in `dir` with their IDs, which begin with `prefix`.
fn list(
    dir: &Path,
    prefix: &str,
    below: bool,
    budget: &mut usize,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), Unsuitable> {
    let listing = match fs::read_dir(dir) {
        Err(error) if is_missing(&error) => return Ok(()),
        listing => listing.map_err(ReadError::Io)?,
    };
    for entry in listing {
        let entry = entry.map_err(ReadError::Io)?;
        let name = entry.file_name();
        let is_entry = is_entry_name(&name);
        let is_dir = below && !is_entry && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_entry && !is_dir {
            continue;
        }
        *budget = budget.checked_sub(1).ok_or(Unsuitable::TooMany)?;
        let id = format!("{prefix}{}", name.to_string_lossy());
        if is_entry {
            files.push((id, entry.path()));
        } else {
            list(&entry.path(), &format!("{id}-"), false, budget, files)?;
        }
    }
    Ok(())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Whether a file of this name may be an entry: `*.desktop`.
pub(super) fn is_entry_name(name: &OsStr) -> bool {
    let stem = name.as_bytes().strip_suffix(b".desktop");
    stem.is_some_and(|stem| !stem.is_empty())
}
