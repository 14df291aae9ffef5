//! What became of launches: an embedded database, `history.sqlite` in the state directory.
//!
//! It tells users what prefetching does for them. The service decides nothing by it, so that its loss
//! costs only the record. A file that is damaged or foreign is moved aside, and a new one is begun ([`OpenedHistory::Damaged`]).
//!
//! It is bounded three ways ([`HistoryLimits`]): in launches, in days, and in the size of the file. Adding
//! a launch removes those that exceed the bounds.

mod damage;
mod launch;
mod prune;
mod row;
mod schema;
mod summary;

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

pub use launch::{Kind, LaunchRecord, warmth_word};
pub use row::{MAX_APP_BYTES, MAX_NOTE_BYTES};
pub use summary::{HistorySummary, RECENT, Typical};

/// Name of the database in the state directory.
pub const FILE_NAME: &str = "history.sqlite";

/// How much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Most launches.
    pub max_launches: u64,
    /// For how many days, by the clock that each launch was recorded with.
    pub max_days: u64,
}

/// What [`History::open`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedHistory {
    /// No database; there is an empty one now.
    Nothing,
    /// The database.
    Database,
    /// A file that cannot be used. There is an empty database now.
    Damaged {
        /// Where the file is now.
        moved_to: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be opened, made or moved aside.
    #[error("cannot {action} the history {}: {cause}", .path.display())]
    Io {
        /// What was tried: "open" or "move aside".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The path does not lead to a regular file.
    #[error("the history {} is not a regular file: remove it", .path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The file was damaged since it was opened. Opening it again moves it aside.
    #[error("the history {} is damaged: {why}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// The file system has no space left.
    #[error("the file system of the history {} is full", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// SQLite refused for another reason: the file system is read-only, or another process keeps the
    /// file locked.
    #[error("cannot {action} the history {}: {cause}", .path.display())]
    Sqlite {
        /// What was tried: "open", "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        cause: rusqlite::Error,
    },
    /// The app's name is too long.
    #[error("the name of an app has at most {MAX_APP_BYTES} bytes, not {len}")]
    Name {
        /// Its length in bytes.
        len: usize,
    },
}

/// The open database. Not more than 256 KiB of it are cached.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    limits: HistoryLimits,
    db: Connection,
    /// Device and inode number of the file.
    file: (u64, u64),
}

impl History {
    /// Opens the database at `path`, which is made if it is missing, accessible to its owner alone. Its
    /// directory must exist. Reads the whole file, to see whether it is sound.
    ///
    /// # Errors
    /// [`HistoryError`], all of which name the file; none for a damaged one.
    pub fn open(
        path: &Path,
        limits: HistoryLimits,
    ) -> Result<(History, OpenedHistory), HistoryError> {
        let is_new = damage::make_private(path)?;
        let (db, found) = match schema::connect(path, limits) {
            Ok(db) if is_new => (db, OpenedHistory::Nothing),
            Ok(db) => (db, OpenedHistory::Database),
            Err(schema::Unusable::Damaged(why)) => {
                let moved_to = damage::move_aside(path)?;
                damage::make_private(path)?;
                let db = schema::connect(path, limits).map_err(|error| error.named(path))?;
                (db, OpenedHistory::Damaged { moved_to, why })
            }
            Err(error) => return Err(error.named(path)),
        };
        let file = damage::identity(path)?;
        let history = History {
            path: path.into(),
            limits,
            db,
            file,
        };
        Ok((history, found))
    }

    /// Whether the database is still the file at its path: launches that are added to a file that was
    /// removed or renamed are lost.
    pub fn is_in_place(&self) -> bool {
        damage::identity(&self.path).is_ok_and(|file| file == self.file)
    }

    /// Adds a launch, and removes those that exceed the bounds. Waits at most half a second for another
    /// process that is using the file.
    ///
    /// # Errors
    /// [`HistoryError`]; then nothing is added or removed.
    pub fn add(&mut self, launch: &LaunchRecord) -> Result<(), HistoryError> {
        if launch.app.len() > MAX_APP_BYTES {
            return Err(HistoryError::Name {
                len: launch.app.len(),
            });
        }
        let mut added = prune::add(&mut self.db, launch, self.limits);
        if added.as_ref().is_err_and(is_full) && prune::is_at_bound(&self.db) {
            // The file has grown to its bound with fewer launches than allowed: their names are long.
            added = prune::remove_a_tenth(&mut self.db)
                .and_then(|()| prune::add(&mut self.db, launch, self.limits));
        }
        added.map_err(|cause| error("write", &self.path, cause))
    }

    /// The last launches, newest first, at most `limit` of them; those of one app, or of all.
    ///
    /// # Errors
    /// [`HistoryError::Damaged`] or [`HistoryError::Sqlite`].
    pub fn launches(
        &self,
        app: Option<&str>,
        limit: usize,
    ) -> Result<Vec<LaunchRecord>, HistoryError> {
        row::select(&self.db, app, limit).map_err(|cause| error("read", &self.path, cause))
    }

    /// The summary of the launches of one app; `None` if there are none.
    ///
    /// # Errors
    /// As [`History::launches`].
    pub fn summary(&self, app: &str) -> Result<Option<HistorySummary>, HistoryError> {
        let mut found = self.sum_up(Some(app))?;
        Ok(found.pop())
    }

    /// The summary of each app's launches, in the order of the apps' names.
    ///
    /// # Errors
    /// As [`History::launches`].
    pub fn summaries(&self) -> Result<Vec<HistorySummary>, HistoryError> {
        self.sum_up(None)
    }

    /// Forgets all launches of an app, and returns how many there were.
    ///
    /// # Errors
    /// [`HistoryError`]; then nothing is forgotten.
    pub fn forget(&mut self, app: &str) -> Result<usize, HistoryError> {
        prune::forget(&mut self.db, app).map_err(|cause| error("write", &self.path, cause))
    }

    fn sum_up(&self, app: Option<&str>) -> Result<Vec<HistorySummary>, HistoryError> {
        summary::sum_up(&self.db, app).map_err(|cause| error("read", &self.path, cause))
    }
}

/// Whether SQLite says that the file is damaged or is not a database.
fn is_damage(cause: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    match cause {
        // The schema does not allow such a value.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => true,
        other => matches!(
            other.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    }
}

fn is_full(cause: &rusqlite::Error) -> bool {
    cause.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

fn error(action: &'static str, path: &Path, cause: rusqlite::Error) -> HistoryError {
    let path = path.into();
    if is_damage(&cause) {
        HistoryError::Damaged {
            path,
            why: cause.to_string(),
        }
    } else if is_full(&cause) {
        HistoryError::Full { path }
    } else {
        HistoryError::Sqlite {
            action,
            path,
            cause,
        }
    }
}

#[cfg(test)]
mod tests;
