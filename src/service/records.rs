//! The history, reopened when its file was removed or damaged.

use std::collections::HashMap;
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
    /// By user and app: the time saved at a cold launch that the log has told last, in microseconds, or that was
    /// known before the first launch since the service started.
    saved_us: HashMap<UserApp, Option<i64>>,
}

/// Whether the time saved at a cold launch, in microseconds, is to be told: it was unknown, or has changed by a
/// quarter and a tenth of a second.
fn is_news(told_us: Option<i64>, now_us: i64) -> bool {
    told_us.is_none_or(|told_us| {
        let change = now_us.abs_diff(told_us);
        change >= 100_000 && change >= told_us.unsigned_abs() / 4
    })
}

impl Records {
    /// Opens the history in the state directory, and again at the next launch if that fails. The second
    /// value is a warning.
    pub fn open(dir: &Path, config: &HistoryConfig) -> (Self, Option<String>) {
        let mut records = Records {
            dir: dir.to_owned(),
            limits: *config,
            history: None,
            saved_us: HashMap::new(),
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
            for launch in launches {
                let key = UserApp::new(launch.uid, launch.app.as_str());
                if !self.saved_us.contains_key(&key) {
                    let before = self.saved_us_of(launch);
                    self.saved_us.insert(key, before);
                }
            }
            let Some(history) = &mut self.history else {
                continue;
            };
            match history.add(launches) {
                Ok(()) => {
                    launches.iter().for_each(|launch| self.tell_saved(launch));
                    break;
                }
                // Reopening moves the damaged file aside.
                Err(HistoryError::Damaged { .. }) if !is_last => self.history = None,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(warning)
    }

    /// Time saved at a cold launch of this app for this user, in microseconds, if it is known.
    fn saved_us_of(&self, launch: &LaunchRecord) -> Option<i64> {
        let summary = self
            .history()?
            .summary(&UserApp::new(launch.uid, launch.app.as_str()))
            .ok()?;
        summary.saved_us()
    }

    /// Logs the time saved at a cold launch when it becomes known or has changed much since it was told.
    fn tell_saved(&mut self, launch: &LaunchRecord) {
        let (app, uid) = (&launch.app, launch.uid);
        let Some(now_us) = self.saved_us_of(launch) else {
            return;
        };
        let told = self.saved_us.entry(UserApp::new(uid, app.as_str()));
        let told = told.or_default();
        if !is_news(*told, now_us) {
            return;
        }
        *told = Some(now_us);
        let saved_s = format!("{:.2}", now_us as f64 / 1e6);
        tracing::info!(app, uid, saved_s, "time saved at each cold launch");
    }

    /// Forgets a user's launches of an app.
    ///
    /// # Errors
    /// As [`History::forget`].
    pub fn forget(&mut self, app: &UserApp) -> Result<(), HistoryError> {
        self.saved_us.remove(app);
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
    fn the_time_saved_is_told_when_it_becomes_known_or_changes_much() {
        use crate::policy::Warmth;
        use crate::service::history::Kind;
        let dir = tempfile::tempdir().unwrap();
        let launch = |kind, waiting_us| LaunchRecord {
            uid: 1000,
            app: "/app".to_owned(),
            kind,
            warmth: Some(Warmth::Cold),
            waiting_us,
            ..LaunchRecord::default()
        };
        let told = |records: &Records| records.saved_us[&UserApp::new(1000, "/app")];
        let mut records = Records::open(dir.path(), &HistoryConfig::default()).0;
        for (kind, waiting_us, expected) in [
            (Kind::Withheld, 900_000, None),
            (Kind::Prefetched, 500_000, Some(400_000)),
            // The lower medians: 450 ms and 400 ms less.
            (Kind::Prefetched, 450_000, Some(400_000)),
            (Kind::Prefetched, 100_000, Some(400_000)),
            (Kind::Prefetched, 100_000, Some(800_000)),
        ] {
            assert_eq!(records.add(&[launch(kind, waiting_us)]), Ok(None));
            assert_eq!(told(&records), expected, "{waiting_us}");
        }
        // The next service knows it from the history, and tells nothing.
        let mut records = Records::open(dir.path(), &HistoryConfig::default()).0;
        records.add(&[launch(Kind::Prefetched, 100_000)]).unwrap();
        assert_eq!(told(&records), Some(800_000));
        assert!(!is_news(Some(10_000_000), 11_000_000) && is_news(Some(-100_000), 0));
        records.forget(&UserApp::new(1000, "/app")).unwrap();
        assert!(records.saved_us.is_empty());
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
