//! The record of changed knobs on disk, from which another process can restore them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::FileChange;
use super::setting::{KnobError, cannot};
use crate::fs::atomic_write;

/// The record's name in its directory.
pub(super) const RECORD: &str = "knobs.json";

/// Longest record, in bytes. Ours has some hundred bytes a knob; a longer one is not ours.
const MAX_RECORD: usize = 1 << 20;

const VERSION: u32 = 2;

/// The changes, in the order in which they were made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnobRecord {
    version: u32,
    changes: Vec<Recorded>,
}

/// A change with its kind. There are no others than files any more.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Recorded {
    File(FileChange),
}

/// A knob in a record of the first version, which was a list of them.
#[derive(Deserialize)]
struct OldKnob {
    path: PathBuf,
    value: String,
}

/// The changes in a record, oldest first.
///
/// # Errors
/// When it is damaged, too long, or of a later version.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Vec<FileChange>> {
    let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned()));
    if bytes.len() > MAX_RECORD {
        return wrong("it is too long for a record of knobs");
    }
    if bytes.trim_ascii_start().starts_with(b"[") {
        let knobs: Vec<OldKnob> = serde_json::from_slice(bytes)?;
        let change = |knob: OldKnob| FileChange::of_old_record(knob.path, knob.value);
        return Ok(knobs.into_iter().map(change).collect());
    }
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return wrong("another version of paralfetch has written it: reboot to reset the knobs");
    }
    let record: KnobRecord = serde_json::from_slice(bytes)?;
    let changes = record.changes.into_iter();
    Ok(changes.map(|Recorded::File(change)| change).collect())
}

/// The record of these changes.
///
/// # Errors
/// When there are too many.
pub(super) fn encode<'a>(changes: impl Iterator<Item = &'a FileChange>) -> io::Result<Vec<u8>> {
    let record = KnobRecord {
        version: VERSION,
        changes: changes.cloned().map(Recorded::File).collect(),
    };
    let bytes = serde_json::to_vec(&record)?;
    match bytes.len() > MAX_RECORD {
        true => Err(io::Error::other("too many knobs are changed at a time")),
        false => Ok(bytes),
    }
}

/// Reads any bytes as a record, writes what was read as one, and reads that again: the same, or an error at the first
/// step. For tests with arbitrary bytes.
///
/// # Errors
/// Why it is no record.
pub fn check_record(bytes: &[u8]) -> io::Result<usize> {
    let changes = parse(bytes)?;
    // What was read in another form may be longer than what was read.
    if let Ok(written) = encode(changes.iter()) {
        assert_eq!(parse(&written)?, changes);
    }
    Ok(changes.len())
}

/// Whether there is a record.
pub(super) fn exists(dir: &Path) -> bool {
    dir.join(RECORD).exists()
}

/// The changes that are recorded; `None` if there is no record.
pub(super) fn read(dir: &Path) -> Result<Option<Vec<FileChange>>, KnobError> {
    let path = dir.join(RECORD);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| {
        file.take(MAX_RECORD as u64 + 1).read_to_end(&mut bytes)?;
        parse(&bytes)
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(cannot("use", &path)),
    }
}

/// Replaces the record by one of these changes; without any, removes it.
pub(super) fn write<'a>(
    dir: &Path,
    changes: impl ExactSizeIterator<Item = &'a FileChange>,
) -> Result<(), KnobError> {
    let path = dir.join(RECORD);
    if changes.len() == 0 {
        return match fs::remove_file(&path) {
            // The keeper has removed it first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(cannot("use", &path)),
        };
    }
    encode(changes)
        .and_then(|bytes| atomic_write::put(atomic_write::new_file(dir)?, &bytes, &path))
        .map_err(cannot("use", &path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change() -> impl Strategy<Value = FileChange> {
        let value = || ("/[a-z_/.]{0,20}", "[ -~]{0,20}");
        let text =
            |(path, value): (String, String)| serde_json::json!({"path": path, "value": value});
        let file = (
            value(),
            value(),
            proptest::option::of(value()),
            proptest::option::of(any::<u64>()),
            proptest::collection::vec(value(), 0..3),
        );
        let file = file.prop_map(move |(to, old, ours, inode, reset)| {
            serde_json::json!({
                "to": text(to),
                "old": text(old),
                "ours": ours.map(text),
                "inode": inode,
                "reset": reset.into_iter().map(text).collect::<Vec<_>>(),
            })
        });
        // The format is the one that earlier builds of this version have written.
        file.prop_map(|json| serde_json::from_value(json).unwrap())
    }

    proptest! {
        #[test]
        fn what_is_recorded_is_read_again(changes in proptest::collection::vec(change(), 0..8)) {
            let bytes = encode(changes.iter()).unwrap();
            prop_assert_eq!(parse(&bytes).unwrap(), changes);
            for end in [1, bytes.len() / 2, bytes.len() - 1] {
                prop_assert!(parse(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = check_record(&bytes);
        }
    }

    #[test]
    fn a_record_has_a_bound() {
        let knob = |at: usize| {
            let path = PathBuf::from(format!("/knob/{at}"));
            FileChange::of_old_record(path, "x".repeat(4096))
        };
        let many: Vec<FileChange> = (0..300).map(knob).collect();
        assert!(encode(many.iter()).is_err());
        assert!(parse(&vec![b' '; MAX_RECORD + 1]).is_err());
    }
}
