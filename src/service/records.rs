//! The history, reopened when its file was removed or damaged.

use std::path::{Path, PathBuf};

use crate::model::UserApp;
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

    /// Records launches, all or none. Returns a warning if the history was damaged.
    ///
    /// # Errors
    /// Why they are not recorded.
    pub fn add(&mut self, launches: &[LaunchRecord]) -> Result<Option<String>, String> {
        if launches.is_empty() {
            return Ok(None);
        }
        // The file or its directory may have been removed: writes to the open file would be lost.
        self.history = self.history.take().filter(History::is_in_place);
        let mut warning = None;
        for is_last in [false, true] {
            if self.history.is_none() {
                match self.reopen() {
                    Ok(found) => warning = found,
                    Err(why) => return Err(why),
                }
            }
            let Some(history) = &mut self.history else {
                continue;
            };
            match history.add(launches) {
                Ok(()) => break,
                // Reopening moves the damaged file aside.
                Err(HistoryError::Damaged { .. }) if !is_last => self.history = None,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(warning)
    }

    /// Forgets a user's launches of an app.
    ///
    /// # Errors
    /// As [`History::forget`].
    pub fn forget(&mut self, app: &UserApp) -> Result<(), HistoryError> {
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

    /// Adds a launch, and returns the warning and how many launches the history has then.
    fn add(records: &mut Records) -> (Option<String>, usize) {
        let launch = LaunchRecord {
            time_s: 1_700_000_000,
            app: "/app".to_owned(),
            ..LaunchRecord::default()
        };
        let warning = records.add(&[launch]).unwrap_or_else(Some);
        let launches = |history: &History| history.launches(None, None, 10).unwrap().len();
        (warning, records.history().map_or(0, launches))
    }

    #[test]
    fn a_history_that_was_removed_or_could_not_be_opened_is_opened_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        let path = dir.join(FILE_NAME);
        fs::create_dir_all(&path).unwrap();
        let (mut records, warning) = Records::open(&dir, &HistoryConfig::default());
        assert!(warning.unwrap().contains("launches are not recorded"));
        assert!(add(&mut records).0.is_some());
        fs::remove_dir(&path).unwrap();
        assert_eq!(add(&mut records), (None, 1));
        assert_eq!(add(&mut records), (None, 2));
        fs::remove_file(&path).unwrap();
        assert_eq!(add(&mut records), (None, 1));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(add(&mut records), (None, 1));
        assert!(path.exists());
    }

    #[test]
    fn a_history_that_is_damaged_while_open_is_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let (mut records, _) = Records::open(dir.path(), &HistoryConfig::default());
        assert_eq!(add(&mut records), (None, 1));
        let path = dir.path().join(FILE_NAME);
        let length = fs::metadata(&path).unwrap().len() as usize;
        fs::write(&path, vec![0x5a; length]).unwrap();
        let (warning, launches) = add(&mut records);
        assert!(warning.is_some_and(|warning| warning.contains("damaged")));
        assert_eq!(launches, 1);
        assert_eq!(add(&mut records), (None, 2));
    }
}
