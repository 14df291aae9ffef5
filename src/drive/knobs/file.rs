//! A knob that is a file.
//!
//! What the file says need not be what was written: the kernel rounds, and some files are views of one value. So
//! each knob is read from, and restored to, the place in which the kernel keeps its value:
//!
//! - `dirty_bytes` and `dirty_ratio`, and the `dirty_background_` ones, are two forms of one limit. Writing one
//!   makes the other 0, and 0 bytes are refused. The form that is in force is the value.
//! - `max_bytes` and `max_ratio` of a bdi are computed from `max_ratio_fine`, in parts of a million of the memory
//!   that may be dirty, which changes all the time. The same holds for `min_`.
//! - Of several words the one in brackets is in force, as in a drive's `scheduler`. Choosing another scheduler
//!   resets `nr_requests` and forgets what `iosched/` held: both are restored with it.
//! - A cgroup's `io.weight` has further lines for single drives. Its first line is the weight of all others.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setting::{KnobError, Undone, cannot};

/// Longest text of a knob, in bytes.
const MAX_TEXT: u64 = 4096;

/// Most tunables of a scheduler; bfq has 11.
const MAX_TUNABLES: usize = 64;

/// Kernel file systems in which a file keeps its inode number exactly as long as the object that it belongs to lives
/// (kernfs): sysfs, and both versions of cgroups. From linux/magic.h.
const KERNFS: [i64; 3] = [0x6265_6572, 0x6367_7270, 0x0027_e0eb];

/// A file and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileValue {
    pub path: PathBuf,
    pub value: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileChange {
    /// The file, and what is written to it.
    to: FileValue,
    /// The form that was in force before.
    old: FileValue,
    /// The form that was in force after it was written. `None` until it was read back.
    ours: Option<FileValue>,
    /// The file's inode number, where that tells the object apart from later ones of the same name.
    inode: Option<u64>,
    /// What changing it resets.
    reset: Vec<FileValue>,
}

impl FileChange {
    /// The change that gives the file this value; `None` if it has it.
    pub fn prepare(path: &Path, value: &str) -> Result<Option<Self>, KnobError> {
        let (old, inode) = in_force(path).map_err(cannot("change", path))?;
        let to = FileValue {
            path: path.to_owned(),
            value: value.trim().to_owned(),
        };
        if old == to {
            return Ok(None);
        }
        let reset = reset_by(path).map_err(cannot("change", path))?;
        Ok(Some(FileChange {
            to,
            old,
            ours: None,
            inode,
            reset,
        }))
    }

    /// A change of which only the knob and its value before are known, as records of the first version have it.
    pub fn of_old_record(path: PathBuf, value: String) -> Self {
        let old = FileValue { path, value };
        FileChange {
            to: old.clone(),
            old,
            ours: None,
            inode: None,
            reset: Vec::new(),
        }
    }

    /// Whether the file has the value that it was given. An error if it has gone.
    pub fn has_our_value(&self) -> Result<bool, KnobError> {
        let path = &self.to.path;
        let (now, inode) = in_force(path).map_err(cannot("change", path))?;
        let is_same = self.inode.is_none() || inode == self.inode;
        Ok(is_same && self.ours.as_ref().is_none_or(|ours| *ours == now))
    }

    /// Writes the value and reads it back. Whether that changed anything.
    pub fn make(&mut self) -> Result<bool, KnobError> {
        let path = &self.to.path;
        write(path, &self.to.value).map_err(cannot("change", path))?;
        let (now, _) = in_force(path).map_err(cannot("change", path))?;
        let is_changed = now != self.old;
        self.ours = Some(now);
        Ok(is_changed)
    }

    /// Restores the knob, if it still has our value.
    pub fn undo(&self) -> Result<Undone, KnobError> {
        let path = &self.to.path;
        let (now, inode) = match in_force(path) {
            Err(error) if is_gone(&error) => return Ok(Undone::Gone),
            found => found.map_err(cannot("change", path))?,
        };
        if self.inode.is_some() && inode != self.inode {
            return Ok(Undone::Gone);
        }
        if now == self.old {
            return Ok(Undone::Restored);
        }
        // What was not read back before a kill counts as ours: the kernel rounds some values.
        if self.ours.as_ref().is_some_and(|ours| *ours != now) {
            return Ok(Undone::ChangedByOthers);
        }
        match self.write_old(&now) {
            Err(KnobError::File { error, .. }) if is_gone(&error) => Ok(Undone::Gone),
            written => written.map(|()| Undone::Restored),
        }
    }

    fn write_old(&self, now: &FileValue) -> Result<(), KnobError> {
        let FileValue { path, value } = &self.old;
        if value == "0" && *path != now.path {
            // The form in force changes only when the number does, and the one that is not in force reads as 0.
            write(path, "1").map_err(cannot("change", path))?;
        }
        write(path, value).map_err(cannot("change", path))?;
        let mut restored = Ok(());
        for FileValue { path, value } in &self.reset {
            let done = read(path).and_then(|(found, _)| match chosen(&found) == value {
                true => Ok(()),
                false => write(path, value),
            });
            restored = restored.and(done.map_err(cannot("change", path)));
        }
        restored
    }

    /// Whether both concern one value of the kernel's.
    pub fn is_same_knob(&self, other: &Self) -> bool {
        knob(&self.to.path) == knob(&other.to.path)
    }

    /// Takes the original of an earlier change of the same knob.
    pub fn take_over(&mut self, earlier: Self) {
        self.old = earlier.old;
        self.reset = earlier.reset;
    }
}

/// Whether the object that the file belongs to has gone.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
}

/// The file of those that show one value by which the value is known.
fn knob(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    path.with_file_name(match name {
        Some("dirty_bytes" | "dirty_ratio") => "dirty_bytes",
        Some("dirty_background_bytes" | "dirty_background_ratio") => "dirty_background_bytes",
        Some("max_bytes" | "max_ratio" | "max_ratio_fine") => "max_ratio_fine",
        Some("min_bytes" | "min_ratio" | "min_ratio_fine") => "min_ratio_fine",
        _ => return path.to_owned(),
    })
}

/// The form of the knob that is in force, and the inode number that tells its object apart.
fn in_force(path: &Path) -> io::Result<(FileValue, Option<u64>)> {
    let (text, inode) = read(path)?;
    let knob = knob(path);
    let name = knob.file_name().and_then(|name| name.to_str());
    let other_view = match name {
        Some("dirty_bytes" | "dirty_background_bytes" | "max_ratio_fine" | "min_ratio_fine") => {
            existing(read(&knob))?
        }
        _ => None,
    };
    let (path, value) = match (name, other_view) {
        (Some("max_ratio_fine" | "min_ratio_fine"), Some((fine, _))) => (knob, fine),
        (_, Some((bytes, _))) => {
            let ratio = match name {
                Some("dirty_bytes") => knob.with_file_name("dirty_ratio"),
                _ => knob.with_file_name("dirty_background_ratio"),
            };
            match (bytes.trim(), existing(read(&ratio))?) {
                ("0", Some((percent, _))) => (ratio, percent),
                _ => (knob, bytes),
            }
        }
        (Some("io.weight" | "io.bfq.weight"), None) => (knob, default_weight(&text).to_owned()),
        _ => (path.to_owned(), text),
    };
    let value = chosen(&value).to_owned();
    Ok((FileValue { path, value }, inode))
}

fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// The word in brackets, if there is one; else the whole text.
fn chosen(text: &str) -> &str {
    let words = text.split_ascii_whitespace();
    let mut bracketed = words.filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match (bracketed.next(), bracketed.next()) {
        (Some(word), None) => word,
        _ => text.trim(),
    }
}

/// The weight of drives that have none of their own.
fn default_weight(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default().trim();
    line.strip_prefix("default ").unwrap_or(line)
}

/// What writing to this file resets.
fn reset_by(path: &Path) -> io::Result<Vec<FileValue>> {
    if path.file_name() != Some("scheduler".as_ref()) {
        return Ok(Vec::new());
    }
    let mut files = vec![path.with_file_name("nr_requests")];
    for entry in existing(fs::read_dir(path.with_file_name("iosched")))?
        .into_iter()
        .flatten()
        .take(MAX_TUNABLES)
    {
        let entry = entry?;
        if entry.metadata()?.permissions().mode() & 0o200 != 0 {
            files.push(entry.path());
        }
    }
    files.sort();
    let mut values = Vec::new();
    for path in files {
        if let Some((text, _)) = existing(read(&path))? {
            let value = chosen(&text).to_owned();
            values.push(FileValue { path, value });
        }
    }
    Ok(values)
}

/// The file's text, and its inode number where that tells its object apart.
fn read(path: &Path) -> io::Result<(String, Option<u64>)> {
    let file = File::open(path)?;
    let is_kernfs = KERNFS.contains(&rustix::fs::fstatfs(&file)?.f_type);
    let inode = is_kernfs.then_some(file.metadata()?.ino());
    let mut text = String::new();
    file.take(MAX_TEXT).read_to_string(&mut text)?;
    Ok((text, inode))
}

/// Writes the value in one piece. The file must exist.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if path.file_name() == Some("memory.high".as_ref()) {
        // From Linux 6.16 on, the cgroup's own tasks reclaim what is above a limit that is set this way. Before, the
        // task that writes the limit does.
        options.custom_flags(libc::O_NONBLOCK);
    }
    options.open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_cgroups_limit_is_written_without_waiting() {
        let dir = tempdir().unwrap();
        let limit = dir.path().join("memory.high");
        fs::write(&limit, "max\n").unwrap();
        write(&limit, "4096").unwrap();
        assert_eq!(fs::read_to_string(&limit).unwrap(), "4096");
        // A FIFO that nobody reads tells how it was opened: otherwise open(2) would wait for a reader.
        fs::remove_file(&limit).unwrap();
        mknodat(CWD, &limit, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let error = write(&limit, "4096").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
    }
}
