//! One change of one knob: a file of the kernel's.
//!
//! What the file says need not be what was written. The kernel rounds, so each value is read back. Of several words the
//! one in brackets is in force, as in a drive's `scheduler`. Choosing another scheduler resets `nr_requests` and forgets
//! what `iosched/` held: both are restored with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setting::{KnobError, Undone, cannot};

/// Longest text of a knob, in bytes.
const MAX_TEXT: u64 = 4096;

/// Most tunables of a scheduler; bfq has 11.
const MAX_TUNABLES: usize = 64;

/// sysfs, in which a file keeps its inode number exactly as long as the object that it belongs to lives. From
/// linux/magic.h.
const SYSFS_MAGIC: i64 = 0x6265_6572;

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
    /// What it said before.
    old: FileValue,
    /// What it said after it was written. `None` until it was read back.
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
        if is_largest_request(path) {
            self.write_reset()?;
        }
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
        match self.write_old() {
            Err(KnobError::File { error, .. }) if is_gone(&error) => Ok(Undone::Gone),
            written => written.map(|()| Undone::Restored),
        }
    }

    fn write_old(&self) -> Result<(), KnobError> {
        let FileValue { path, value } = &self.old;
        write(path, value).map_err(cannot("change", path))?;
        self.write_reset()
    }

    /// Gives what the change has reset its values again.
    fn write_reset(&self) -> Result<(), KnobError> {
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

    /// Whether it is a change of this file.
    pub fn is_of(&self, path: &Path) -> bool {
        self.to.path == path
    }

    /// Whether both concern one file.
    pub fn is_same_knob(&self, other: &Self) -> bool {
        self.is_of(&other.to.path)
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

/// What the file says, and the inode number that tells its object apart.
fn in_force(path: &Path) -> io::Result<(FileValue, Option<u64>)> {
    let (text, inode) = read(path)?;
    let value = FileValue {
        path: path.to_owned(),
        value: chosen(&text).to_owned(),
    };
    Ok((value, inode))
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

/// Whether it is a drive's `max_sectors_kb`. On a drive that claims to rotate, kernels from 6.17 on raise `read_ahead_kb` with
/// it, to twice as much (`blk_apply_bdi_limits`).
fn is_largest_request(path: &Path) -> bool {
    path.file_name() == Some("max_sectors_kb".as_ref())
}

/// What writing to this file resets.
fn reset_by(path: &Path) -> io::Result<Vec<FileValue>> {
    if is_largest_request(path) {
        return values_of(vec![path.with_file_name("read_ahead_kb")]);
    }
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
    values_of(files)
}

/// What these files say, as far as they exist.
fn values_of(files: Vec<PathBuf>) -> io::Result<Vec<FileValue>> {
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
    let is_sysfs = rustix::fs::fstatfs(&file)?.f_type == SYSFS_MAGIC;
    let inode = is_sysfs.then_some(file.metadata()?.ino());
    let mut text = String::new();
    file.take(MAX_TEXT).read_to_string(&mut text)?;
    Ok((text, inode))
}

/// Writes the value in one piece. The file must exist.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    options.open(path)?.write_all(value.as_bytes())
}
