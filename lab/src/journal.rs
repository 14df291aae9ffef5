//! `results.jsonl`: a line for each record, added as soon as it is known.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::record::Record;

/// Name of the file in the results directory.
pub const FILE: &str = "results.jsonl";

/// The file, open for adding records.
pub struct Journal {
    file: File,
    path: PathBuf,
}

/// What a results directory holds, in its order.
///
/// # Errors
/// No such file, or a line that is no record; the message has its number.
pub fn read(directory: &Path) -> Result<Records> {
    let path = directory.join(FILE);
    let bytes = fs::read(&path).with_context(|| {
        let (path, directory) = (path.display(), directory.display());
        format!("cannot read {path}; `lab run --out {directory}` makes it")
    })?;
    parse(&bytes).with_context(|| path.display().to_string())
}

/// The records of a file.
#[derive(Debug, Default, PartialEq)]
pub struct Records {
    /// Records of whole lines.
    pub whole: Vec<Record>,
    /// Number of the last line, if an interruption has cut it off.
    pub cut: Option<usize>,
    /// Bytes of the whole lines.
    bytes: u64,
}

fn parse(bytes: &[u8]) -> Result<Records> {
    let mut found = Records::default();
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        if !line.ends_with(b"\n") {
            found.cut = Some(number);
            break;
        }
        found.bytes += line.len() as u64;
        if !line.trim_ascii().is_empty() {
            let record = serde_json::from_slice(line).map_err(|error| {
                anyhow!("line {number} is no record ({error}); remove it, or start a new set")
            })?;
            found.whole.push(record);
        }
    }
    Ok(found)
}

impl Journal {
    /// Opens or makes the file in `directory` and returns what is in it. An incomplete last line,
    /// left by an interruption, is cut off.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn open(directory: &Path) -> Result<(Journal, Vec<Record>)> {
        let path = directory.join(FILE);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let found = read(directory)?;
        file.set_len(found.bytes)?;
        Ok((Journal { file, path }, found.whole))
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Launch;

    #[test]
    fn an_interrupted_line_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let record = Record::Launch(Launch {
            app: "gimp".to_owned(),
            ..Launch::default()
        });
        let (mut journal, empty) = Journal::open(directory.path()).unwrap();
        assert!(empty.is_empty());
        journal.add(&record).unwrap();
        journal.add(&record).unwrap();
        let path = directory.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let (mut journal, records) = Journal::open(directory.path()).unwrap();
        assert_eq!(records, std::slice::from_ref(&record));
        journal.add(&record).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn a_line_is_cut_off_wherever_that_was() {
        let launch = Launch {
            app: "größer".to_owned(),
            ..Launch::default()
        };
        let line = serde_json::to_string(&Record::Launch(launch)).unwrap() + "\n";
        for cut in 1..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes.extend(&line.as_bytes()[..cut]);
            let found = parse(&bytes).unwrap();
            assert_eq!((found.whole.len(), found.cut), (1, Some(2)));
        }
        assert_eq!(parse(b"").unwrap(), Records::default());
        let directory = tempfile::tempdir().unwrap();
        let error = read(directory.path()).unwrap_err();
        assert!(format!("{error:#}").contains("results.jsonl"), "{error:#}");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{\"record\":\"cake\"}\n").unwrap();
        let Err(error) = Journal::open(directory.path()) else {
            panic!("it was taken");
        };
        assert!(
            format!("{error:#}").contains("line 1 is no record"),
            "{error:#}"
        );
        assert!(
            fs::read(directory.path().join(FILE)).unwrap().len() > 3,
            "nothing is lost"
        );
    }
}
