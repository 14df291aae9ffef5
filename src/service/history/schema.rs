//! The database's layout and settings.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::{HistoryError, HistoryLimits, error, is_damage, row};

/// Version of the layout. A database of another version is moved aside as if it were damaged: the
/// history is not worth a conversion.
const VERSION: i64 = 1;

/// The table and its indices: names and SQL.
const LAYOUT: [(&str, &str); 3] = [
    (
        "launches",
        "CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    time_s INTEGER NOT NULL CHECK (time_s >= 0),
    app TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('learned', 'prefetched', 'withheld', 'watched')),
    warmth TEXT CHECK (warmth IN ('cold', 'partly', 'warm')),
    duration_us INTEGER NOT NULL CHECK (duration_us >= 0),
    waiting_us INTEGER NOT NULL CHECK (waiting_us >= 0),
    read_bytes INTEGER NOT NULL CHECK (read_bytes >= 0),
    own_readaheads INTEGER NOT NULL CHECK (own_readaheads >= 0),
    switches INTEGER CHECK (switches >= 0),
    entries INTEGER CHECK (entries >= 0),
    until_first_us INTEGER CHECK (until_first_us >= 0),
    note TEXT
) STRICT",
    ),
    (
        "launches_by_app",
        "CREATE INDEX launches_by_app ON launches (app)",
    ),
    (
        "launches_by_time",
        "CREATE INDEX launches_by_time ON launches (time_s)",
    ),
];

/// Settings of the connection.
///
/// - No write-ahead log: one writer adds one row per launch, and reads are rare. A log would be a second
///   file that grows and a third that is mapped into memory. With TRUNCATE, a launch does not change the
///   directory.
/// - synchronous=NORMAL: the database always survives a crash of the process, and nearly always a power
///   failure. FULL and EXTRA would sync once more for each launch.
/// - The cache is small to keep the service small; all queries use an index.
/// - Deleted rows are overwritten with zeros: launches tell what a user does.
const SETTINGS: &str = "
    PRAGMA cache_size = -256;
    PRAGMA mmap_size = 0;
    PRAGMA synchronous = NORMAL;
    PRAGMA secure_delete = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
";

/// How long to wait for a process that is using the file.
const BUSY: Duration = Duration::from_millis(500);

/// Constant part of the file's largest size, in bytes.
const BASE_BYTES: u64 = 4 << 20;
/// The part for each launch, in bytes: two to three times what a launch with a name of usual length takes.
const BYTES_PER_LAUNCH: u64 = 1 << 10;

/// Why a file is not opened.
pub(super) enum Unusable {
    /// The file is damaged or foreign; the text says why.
    Damaged(String),
    /// For another reason.
    Sqlite(rusqlite::Error),
}

impl Unusable {
    /// The error for the file at `path`.
    pub(super) fn named(self, path: &Path) -> HistoryError {
        match self {
            Unusable::Damaged(why) => HistoryError::Damaged {
                path: path.into(),
                why,
            },
            Unusable::Sqlite(cause) => error("open", path, cause),
        }
    }
}

impl From<rusqlite::Error> for Unusable {
    fn from(cause: rusqlite::Error) -> Self {
        // The statements fit the layout: if SQLite rejects one, the file has another layout.
        let misfit = cause.sqlite_error_code() == Some(ErrorCode::Unknown);
        if misfit || is_damage(&cause) {
            Unusable::Damaged(cause.to_string())
        } else {
            Unusable::Sqlite(cause)
        }
    }
}

/// Opens the database in an existing file, and lays it out if that is empty.
pub(super) fn connect(path: &Path, limits: HistoryLimits) -> Result<Connection, Unusable> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    db.execute_batch(SETTINGS)?;
    if pragma(&db, "page_count")? == 0 {
        lay_out(&mut db)?;
    }
    check(&db)?;
    // Answers with the mode.
    db.query_row("PRAGMA journal_mode = TRUNCATE", [], |_| Ok(()))?;
    bound(&db, limits)?;
    Ok(db)
}

/// An integer setting of the database.
pub(super) fn pragma(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, name, |row| row.get(0))
}

/// Creates the table and its indices in one transaction: a process that is killed meanwhile leaves an
/// empty file.
fn lay_out(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    // It takes effect only in an empty database. As the first write, it waits for other writers.
    transaction.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 {
        // Another process was faster.
        return transaction.rollback();
    }
    for (_, sql) in LAYOUT {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Checks that the database has the layout and is not damaged.
fn check(db: &Connection) -> Result<(), Unusable> {
    let version = pragma(db, "user_version")?;
    let mut query =
        db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY type = 'index', name")?;
    let found = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<(String, Option<String>)>>>()?;
    let ours = LAYOUT.map(|(name, sql)| (name.to_owned(), Some(sql.to_owned())));
    if version != VERSION || found != ours {
        let why = format!("it is not a history of layout {VERSION}");
        return Err(Unusable::Damaged(why));
    }
    let verdict: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Unusable::Damaged(verdict.replace('\n', " ")));
    }
    // The file was opened for writing: its header claims a later version of SQLite's format.
    if db.is_readonly(MAIN_DB)? {
        return Err(Unusable::Damaged("SQLite cannot write it".to_owned()));
    }
    // SQLite does not check that texts are UTF-8.
    Ok(row::check(db)?)
}

/// Bounds the size of the file. A file that is larger already keeps its size.
fn bound(db: &Connection, limits: HistoryLimits) -> rusqlite::Result<()> {
    let bytes = limits
        .max_launches
        .saturating_mul(BYTES_PER_LAUNCH)
        .saturating_add(BASE_BYTES);
    let page = u64::try_from(pragma(db, "page_size")?).unwrap_or(0).max(1);
    let pages = u32::try_from(bytes / page).unwrap_or(u32::MAX);
    db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}
