//! What became of launches: an embedded database, `history.sqlite` in the state directory.
//!
//! It tells users what prefetching does for them, and the service which apps a user is likely to launch. Nothing else is
//! decided by it, so that its loss costs little. A file that is damaged or foreign is moved aside, and a new one is begun.
//!
//! It is bounded in launches of each user and in days ([`HistoryConfig`]), and in its size. Adding a launch removes
//! those that exceed the bounds. The file is root's alone: users see their own launches over the bus.

mod database;
mod launch;
mod summary;

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, Row, Transaction, params, params_from_iter, types};
use serde_json::{Map, Value};

use crate::model::UserApp;
use crate::service::config::HistoryConfig;

pub use launch::{FileReads, Kind, LaunchRecord, MAX_READ_PATH, ReadKind};
pub use summary::{HistorySummary, Typical};

/// Name of the database in the state directory.
pub const FILE_NAME: &str = "history.sqlite";

/// Longest name of an app, in bytes: PATH_MAX of the kernel.
pub const MAX_APP_BYTES: usize = 4096;

/// Longest note that is kept, in bytes; longer ones are cut off.
pub const MAX_NOTE: usize = 500;

/// Most files of a launch's own reads that are kept.
pub const MOST_READ_FILES: usize = 5;

/// A summary's medians are those of this many cold launches of a kind, the last ones, because drives, apps
/// and schedules change.
pub const RECENT: usize = 20;

/// Most rows that adding one launch removes because of their age: enough to keep up, but a clock that is
/// years ahead for one launch does not empty the history.
const OLD_AT_ONCE: u64 = 4;

/// About what a row takes beside its texts, with its part of the indices.
const ROW_BYTES: u64 = 100;

const DAY_S: u64 = 24 * 60 * 60;

/// Why the history cannot be used, in one line that names the file.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file is damaged. Opening it again moves it aside.
    #[error("the history {} is damaged: {why}", .path.display())]
    Damaged { path: PathBuf, why: String },
    /// Anything else: no space is left, the file system is read-only, or another process keeps the file
    /// locked.
    #[error("{0}")]
    Unusable(String),
}

impl HistoryError {
    fn new(action: &str, path: &Path, cause: impl Display) -> Self {
        HistoryError::Unusable(format!(
            "cannot {action} the history {}: {cause}",
            path.display()
        ))
    }

    fn sqlite(action: &str, path: &Path, cause: rusqlite::Error) -> Self {
        use rusqlite::Error;
        // A value that does not convert is one that the schema does not allow.
        let is_misfit = matches!(
            cause,
            Error::FromSqlConversionFailure(..)
                | Error::Utf8Error(..)
                | Error::InvalidColumnType(..)
                | Error::IntegralValueOutOfRange(..)
        );
        match cause.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {}
            None if is_misfit => {}
            _ => return HistoryError::new(action, path, cause),
        }
        HistoryError::Damaged {
            path: path.into(),
            why: cause.to_string(),
        }
    }
}

/// The open database. Not more than 256 KiB of it are cached.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    limits: HistoryConfig,
    db: Connection,
    /// Device and inode number of the file.
    file: (u64, u64),
}

impl History {
    /// Opens the database at `path`, which is made if it is missing, accessible to its owner alone. Its
    /// directory must exist. Reads the whole file, to see whether it is sound; if it is not, an empty one
    /// takes its place, and the second value is a warning that says so.
    pub fn open(
        path: &Path,
        limits: HistoryConfig,
    ) -> Result<(History, Option<String>), HistoryError> {
        let mut file = database::make_private(path)?;
        let mut warning = None;
        let db = match database::connect(path) {
            Err(HistoryError::Damaged { why, .. }) => {
                let moved_to = database::move_aside(path)?;
                file = database::make_private(path)?;
                warning = Some(format!(
                    "the history was damaged ({why}): it is now {}, and a new one begins",
                    moved_to.display()
                ));
                database::connect(path)?
            }
            db => db?,
        };
        let history = History {
            path: path.into(),
            limits,
            db,
            file: (file.dev(), file.ino()),
        };
        Ok((history, warning))
    }

    /// Whether the database is still the file at its path: launches that are added to a file that was
    /// removed or renamed are lost.
    pub fn is_in_place(&self) -> bool {
        let found = self.path.symlink_metadata();
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }

    /// Adds launches, and removes those that exceed the bounds. Waits at most half a second for another
    /// process that is using the file. If that fails, nothing is added or removed.
    pub fn add(&mut self, launches: &[LaunchRecord]) -> Result<(), HistoryError> {
        if launches
            .iter()
            .any(|launch| launch.app.len() > MAX_APP_BYTES)
        {
            let why = format!("the name of an app has at most {MAX_APP_BYTES} bytes");
            return Err(HistoryError::Unusable(why));
        }
        let added = add(&mut self.db, launches, self.limits);
        added.map_err(|cause| HistoryError::sqlite("write", &self.path, cause))
    }

    /// The last launches, newest first, at most `limit` of them; those of one user or of all, of one app or of
    /// all. Their order is the one in which they were added, whatever the clock said.
    pub fn launches(
        &self,
        uid: Option<u32>,
        app: Option<&str>,
        limit: usize,
    ) -> Result<Vec<LaunchRecord>, HistoryError> {
        self.select(
            "SELECT * FROM launches WHERE (?1 IS NULL OR uid = ?1) AND (?2 IS NULL OR app = ?2)
                ORDER BY id DESC LIMIT ?3",
            params![uid, app, signed(limit as u64)],
            read,
        )
    }

    /// The apps of a user's last launches, at most `limit`, each with when it began, in seconds since the epoch.
    pub fn launch_times(&self, uid: u32, limit: usize) -> Result<Vec<(String, u64)>, HistoryError> {
        self.select(
            "SELECT app, time_s FROM launches WHERE uid = ?1 ORDER BY id DESC LIMIT ?2",
            params![uid, signed(limit as u64)],
            |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())),
        )
    }

    /// Forgets all launches of a user's app.
    pub fn forget(&mut self, app: &UserApp) -> Result<(), HistoryError> {
        let db = &self.db;
        let all = "DELETE FROM launches WHERE app = ?1 AND uid = ?2";
        let forgotten = db.execute(all, params![app.id, app.uid]);
        forgotten.map_err(|cause| HistoryError::sqlite("write", &self.path, cause))?;
        Ok(())
    }

    fn select<T>(
        &self,
        query: &str,
        values: impl rusqlite::Params,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, HistoryError> {
        let select = || -> rusqlite::Result<Vec<T>> {
            self.db.prepare(query)?.query_map(values, read)?.collect()
        };
        select().map_err(|cause| HistoryError::sqlite("read", &self.path, cause))
    }
}

/// Adds a launch, and removes those that exceed the bounds.
///
/// Rows are numbered in the order in which they were added, so that the number of a user's rows is bounded whatever
/// the clock does. Their age is bounded by the new launch's clock. Rows with a time ahead of the present clock
/// are removed by their number. Launches of one user never remove rows of another within the bounds: if the file
/// becomes too large, the user whose rows take most of it loses some.
fn add(
    db: &mut Connection,
    launches: &[LaunchRecord],
    limits: HistoryConfig,
) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for launch in launches {
        add_one(&transaction, launch, limits)?;
    }
    transaction.commit()
}

fn add_one(
    transaction: &Transaction<'_>,
    launch: &LaunchRecord,
    limits: HistoryConfig,
) -> rusqlite::Result<()> {
    let members = members(launch)?;
    let insert = format!(
        "INSERT INTO launches ({}) VALUES (?{})",
        members
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        ", ?".repeat(members.len() - 1)
    );
    transaction.execute(&insert, params_from_iter(members.values().map(value_of)))?;
    transaction.execute(
        "DELETE FROM launches WHERE uid = ?1 AND id <=
            (SELECT id FROM launches WHERE uid = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        params![launch.uid, signed(limits.max_launches)],
    )?;
    let oldest_s = launch
        .time_s
        .saturating_sub(limits.max_days.saturating_mul(DAY_S));
    transaction.execute(
        "DELETE FROM launches WHERE id IN
            (SELECT id FROM launches WHERE time_s < ?1 ORDER BY time_s LIMIT ?2)",
        [signed(oldest_s), signed(OLD_AT_ONCE)],
    )?;
    // Long names and many users take more: then the oldest tenth of the largest share goes.
    let pragma = |name| database::pragma(transaction, name);
    let used = (pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?;
    if used > most_bytes(limits) {
        transaction.execute(
            &format!(
                "WITH largest AS (SELECT uid, count(*) / 10 + 1 AS tenth FROM launches GROUP BY uid
                    ORDER BY sum({ROW_BYTES} + length(app) + coalesce(length(note), 0)
                        + coalesce(length(own_reads), 0)) DESC LIMIT 1)
                DELETE FROM launches WHERE id IN (SELECT id FROM launches
                    WHERE uid = (SELECT uid FROM largest) ORDER BY id
                    LIMIT (SELECT tenth FROM largest))"
            ),
            [],
        )?;
    }
    Ok(())
}

/// Bytes that the database may use, but for what one launch adds.
fn most_bytes(limits: HistoryConfig) -> i64 {
    (4 << 20) + signed(limits.max_launches).saturating_mul(1 << 10)
}

/// The launch's members in JSON, which are named like the columns.
fn members(launch: &LaunchRecord) -> rusqlite::Result<Map<String, Value>> {
    let mut launch = launch.clone();
    if let Some(note) = &mut launch.note {
        let mut len = note.len().min(MAX_NOTE);
        while !note.is_char_boundary(len) {
            len -= 1;
        }
        note.truncate(len);
    }
    if let Some(reads) = &mut launch.own_reads {
        reads.truncate(MOST_READ_FILES);
        reads.iter_mut().for_each(FileReads::cut);
    }
    match serde_json::to_value(launch) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
    }
}

/// The value of a member in a row: an empty text is NULL, a list is its JSON.
fn value_of(member: &Value) -> types::Value {
    match member {
        Value::Bool(is_so) => types::Value::Integer(i64::from(*is_so)),
        Value::Number(number) => types::Value::Integer(signed(number.as_u64().unwrap_or(0))),
        Value::String(text) if !text.is_empty() => types::Value::Text(text.clone()),
        Value::Array(_) => types::Value::Text(member.to_string()),
        _ => types::Value::Null,
    }
}

/// Columns of which 0 and 1 stand for no and yes: SQLite has no other type for these.
const YES_OR_NO: [&str; 1] = ["background_writes"];

/// Columns that hold a list in JSON: it is read and removed with its launch alone.
const LISTS: [&str; 1] = ["own_reads"];

/// The launch in a row.
fn read(row: &Row<'_>) -> rusqlite::Result<LaunchRecord> {
    let mut members = Map::new();
    for (index, column) in row.as_ref().column_names().into_iter().enumerate() {
        let member = match row.get_ref(index)? {
            types::ValueRef::Integer(number) if YES_OR_NO.contains(&column) => (number != 0).into(),
            types::ValueRef::Integer(number) => number.into(),
            types::ValueRef::Text(text) if LISTS.contains(&column) => serde_json::from_slice(text)
                .map_err(|error| {
                    let kind = types::Type::Text;
                    rusqlite::Error::FromSqlConversionFailure(index, kind, error.into())
                })?,
            // SQLite does not check that texts are UTF-8.
            types::ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
            _ => continue,
        };
        members.insert(column.to_owned(), member);
    }
    serde_json::from_value(members.into()).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, types::Type::Text, error.into())
    })
}

/// SQLite's integers are signed: larger values become the largest signed one.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
