//! The history, reopened when its file was removed or damaged.

use std::path::{Path, PathBuf};

use crate::profile::Store;
use crate::service::config::HistoryConfig;
use crate::service::history::{FILE_NAME, History, HistoryError, LaunchRecord};

/// The history, if it can be opened.
pub struct Records {
    dir: PathBuf,
    limits: HistoryConfig,
    history: Option<History>,
}

impl Records {
    /// Opens the history in the state directory, and again at the next launch if that fails. The second
    /// value is a warning.
    pub fn open(dir: &Path, config: &HistoryConfig) -> (Self, Option<String>) {
        let mut records = Records {
            dir: dir.to_owned(),
            limits: *config,
            history: None,
        };
        let warning = match records.reopen() {
            Ok(warning) => warning,
            Err(why) => Some(format!("{why}; launches are not recorded")),
        };
        (records, warning)
    }

    /// The history; `None` if it cannot be opened.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Records a launch. Returns a warning if that failed or the history was damaged.
    pub fn add(&mut self, launch: &LaunchRecord) -> Option<String> {
        let mut warning = None;
        // The file or its directory may have been removed: writes to the open file would be lost.
        self.history = self.history.take().filter(History::is_in_place);
        if self.history.is_none() {
            match self.reopen() {
                Ok(found) => warning = found,
                Err(why) => return Some(why),
            }
        }
        match self.history.as_mut()?.add(launch) {
            Ok(()) => warning,
            Err(HistoryError::Damaged { .. }) => {
                // Reopening moves the damaged file aside.
                self.history = None;
                match self.reopen() {
                    Ok(found) => {
                        let added = self.history.as_mut()?.add(launch);
                        added.err().map(|error| error.to_string()).or(found)
                    }
                    Err(why) => Some(why),
                }
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// Forgets all launches of an app.
    ///
    /// # Errors
    /// As [`History::forget`].
    pub fn forget(&mut self, app: &str) -> Result<(), HistoryError> {
        match &mut self.history {
            Some(history) => history.forget(app),
            None => Ok(()),
        }
    }

    /// Returns a warning if the file was damaged.
    fn reopen(&mut self) -> Result<Option<String>, String> {
        Store::create(&self.dir).map_err(|error| error.to_string())?;
        let path = self.dir.join(FILE_NAME);
        let opened = History::open(&path, self.limits);
        let (history, warning) = opened.map_err(|error| error.to_string())?;
        self.history = Some(history);
        Ok(warning)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::service::history::Kind;

    fn launch() -> LaunchRecord {
        LaunchRecord {
            time_s: 1_700_000_000,
            app: "/app".to_owned(),
            kind: Kind::Prefetched,
            warmth: None,
            duration_us: 1,
            waiting_us: 1,
            read_bytes: 1,
            own_readaheads: 1,
            switches: None,
            entries: None,
            until_first_us: None,
            note: None,
        }
    }

    fn recorded(records: &Records) -> usize {
        let history = records.history().expect("a history");
        history.launches(None, 10).expect("launches").len()
    }

    #[test]
    fn a_history_that_was_removed_is_created_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        fs::create_dir(&dir).unwrap();
        let (mut records, warning) = Records::open(&dir, &HistoryConfig::default());
        assert_eq!(warning, None);
        assert_eq!(records.add(&launch()), None);
        assert_eq!(records.add(&launch()), None);
        assert_eq!(recorded(&records), 2);
        fs::remove_file(dir.join(FILE_NAME)).unwrap();
        assert_eq!(records.add(&launch()), None);
        assert_eq!(recorded(&records), 1);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(records.add(&launch()), None);
        assert!(dir.join(FILE_NAME).exists());
        assert_eq!(recorded(&records), 1);
    }

    #[test]
    fn a_history_that_could_not_be_opened_is_opened_at_the_next_launch() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        fs::create_dir_all(dir.join(FILE_NAME)).unwrap();
        let (mut records, warning) = Records::open(&dir, &HistoryConfig::default());
        assert!(warning.unwrap().contains("launches are not recorded"));
        assert!(records.add(&launch()).is_some());
        fs::remove_dir(dir.join(FILE_NAME)).unwrap();
        assert_eq!(records.add(&launch()), None);
        assert_eq!(recorded(&records), 1);
    }

    #[test]
    fn a_history_that_is_damaged_while_open_is_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let (mut records, _) = Records::open(dir.path(), &HistoryConfig::default());
        assert_eq!(records.add(&launch()), None);
        let path = dir.path().join(FILE_NAME);
        let length = fs::metadata(&path).unwrap().len() as usize;
        fs::write(&path, vec![0x5a; length]).unwrap();
        let warning = records.add(&launch()).unwrap();
        assert!(warning.contains("damaged"), "{warning}");
        assert_eq!(records.add(&launch()), None);
        assert_eq!(recorded(&records), 2);
    }
}
