//! The database file: its layout, its settings, and what is done with a damaged one.

use std::ffi::OsString;
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::{FileReads, HistoryError};

/// Version of the layout. A database of another version, earlier or later, is moved aside as if it were damaged.
const VERSION: i64 = 7;

/// The table and its indices, in the order of their names.
const LAYOUT: [&str; 4] = [
    "CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    time_s INTEGER NOT NULL CHECK (time_s >= 0),
    uid INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967295),
    app TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('learned', 'prefetched', 'anticipated', 'withheld', 'watched')),
    warmth TEXT CHECK (warmth IN ('cold', 'partly', 'warm')),
    duration_us INTEGER CHECK (duration_us >= 0),
    waiting_us INTEGER CHECK (waiting_us >= 0),
    read_bytes INTEGER NOT NULL CHECK (read_bytes >= 0),
    own_readaheads INTEGER NOT NULL CHECK (own_readaheads >= 0),
    switches INTEGER CHECK (switches >= 0),
    entries INTEGER CHECK (entries >= 0),
    until_first_us INTEGER CHECK (until_first_us >= 0),
    saved_us INTEGER CHECK (saved_us >= 0),
    background_writes INTEGER NOT NULL CHECK (background_writes IN (0, 1)),
    own_reads TEXT,
    note TEXT
) STRICT",
    "CREATE INDEX launches_by_app ON launches (app, uid)",
    "CREATE INDEX launches_by_time ON launches (time_s)",
    "CREATE INDEX launches_by_user ON launches (uid)",
];

/// Settings of the connection.
///
/// - synchronous=NORMAL: the database always survives a crash of the process, and nearly always a power
///   failure. FULL and EXTRA would sync once more for each launch.
/// - The cache is small to keep the service small; all queries of one app use an index.
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

/// Suffixes of the files that SQLite keeps beside a database: the rollback journal, and the write-ahead
/// log of a database that another program made.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Creates the file if it is missing, and makes it accessible to its owner alone; SQLite creates its
/// journal with the same permissions.
pub(super) fn make_private(path: &Path) -> Result<Metadata, HistoryError> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        let why = format!(
            "the history {} is not a regular file: remove it",
            path.display()
        );
        return Err(HistoryError::Unusable(why));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // NONBLOCK: opening a FIFO would wait for a process that opens its other end.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let opened = options.mode(0o600).open(path).and_then(|file| {
        let found = file.metadata()?;
        if found.permissions().mode() & 0o777 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(found)
    });
    opened.map_err(|cause| HistoryError::new("open", path, cause))
}

/// Opens the database in an existing file, and lays it out if that is empty. A foreign file is
/// [`HistoryError::Damaged`].
pub(super) fn connect(path: &Path) -> Result<Connection, HistoryError> {
    try_connect(path).map_err(|cause| match cause.sqlite_error_code() {
        // The statements fit the layout: if SQLite rejects one, the file has another layout.
        Some(ErrorCode::Unknown) => HistoryError::Damaged {
            path: path.into(),
            why: cause.to_string(),
        },
        _ => HistoryError::sqlite("open", path, cause),
    })
}

fn try_connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    db.execute_batch(SETTINGS)?;
    if pragma(&db, "page_count")? == 0 {
        lay_out(&mut db)?;
    }
    check(&db)?;
    // No write-ahead log: one writer adds one row per launch, and reads are rare. A log would be a second
    // file that grows and a third that is mapped into memory. With TRUNCATE, a launch does not change the
    // directory. The statement answers with the mode.
    db.query_row("PRAGMA journal_mode = TRUNCATE", [], |_| Ok(()))?;
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
    // Each transaction returns the pages that it frees to the file system. This takes effect only in an empty
    // database. As the first write, it waits for other writers.
    transaction.execute_batch("PRAGMA auto_vacuum = FULL")?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 {
        // Another process was faster.
        return transaction.rollback();
    }
    for sql in LAYOUT {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Whether a database can be used. A foreign one is corrupt.
fn check(db: &Connection) -> rusqlite::Result<()> {
    let corrupt = |why: String| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        Err(rusqlite::Error::SqliteFailure(code, Some(why)))
    };
    let mut query = db.prepare("SELECT sql FROM sqlite_schema ORDER BY type = 'index', name")?;
    let layout: Vec<Option<String>> = query
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let is_ours = layout.iter().map(Option::as_deref).eq(LAYOUT.map(Some));
    if !is_ours || pragma(db, "user_version")? != VERSION {
        return corrupt(format!("it is not a history of layout {VERSION}"));
    }
    let verdict: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return corrupt(verdict.replace('\n', " "));
    }
    // SQLite takes lists for any text.
    let mut query = db.prepare("SELECT own_reads FROM launches WHERE own_reads IS NOT NULL")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let text = match row.get_ref(0)? {
            ValueRef::Text(text) => text,
            _ => &[],
        };
        if let Err(error) = serde_json::from_slice::<Vec<FileReads>>(text) {
            return corrupt(format!("own reads that are no list: {error}"));
        }
    }
    // The file was opened for writing: its header claims a later version of SQLite's format.
    if db.is_readonly(MAIN_DB)? {
        return corrupt("SQLite cannot write it".to_owned());
    }
    Ok(())
}

/// Moves the file aside, over an older damaged one, and returns its new path. The files beside it go with it: SQLite
/// would take them for those of a new database, and without them the old one cannot be repaired.
pub(super) fn move_aside(path: &Path) -> Result<PathBuf, HistoryError> {
    let append = |path: &Path, suffix: &str| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    };
    let aside = append(path, ".damaged");
    for suffix in BESIDE.into_iter().chain([""]) {
        let (from, to) = (append(path, suffix), append(&aside, suffix));
        let moved = match fs::rename(&from, &to) {
            // That of an older damaged database would be taken for this one's.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => fs::remove_file(&to),
            moved => moved,
        };
        match moved {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(HistoryError::new("move aside", &from, cause));
            }
            _ => {}
        }
    }
    Ok(aside)
}
