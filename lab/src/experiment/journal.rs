//! `results.jsonl`: a line for each record, added as soon as it is known.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::record::Record;

/// Name of the file in the results directory.
pub const FILE: &str = "results.jsonl";

/// The file, open for adding records.
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens or makes the file in `directory` and returns what is in it. An incomplete last line,
    /// left by an interruption, is cut off.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn open(directory: &Path) -> Result<(Journal, Vec<Record>)> {
        let path = directory.join(FILE);
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let mut records = Vec::new();
        let mut complete = 0;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            if line.last() != Some(&b'\n') {
                break;
            }
            let record = serde_json::from_slice(&line).with_context(|| {
                let number = records.len() + 1;
                format!("{} line {number} is no record of the lab", path.display())
            })?;
            records.push(record);
            complete += line.len() as u64;
            line.clear();
        }
        file.set_len(complete)?;
        file.seek(SeekFrom::End(0))?;
        Ok((Journal { file, path }, records))
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
    use std::fs;

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
    fn what_is_no_record_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{\"record\":\"cake\"}\n").unwrap();
        let Err(error) = Journal::open(directory.path()) else {
            panic!("it was taken");
        };
        assert!(error.to_string().contains("line 1"), "{error}");
        assert!(
            fs::read(directory.path().join(FILE)).unwrap().len() > 3,
            "nothing is lost"
        );
    }
}
