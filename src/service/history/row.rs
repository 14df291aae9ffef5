//! The row of a launch in the table.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, named_params};

use super::launch::{Kind, LaunchRecord, warmth_of, warmth_word};
use crate::policy::Warmth;

/// Longest name of an app, in bytes: PATH_MAX of the kernel.
pub const MAX_APP_BYTES: usize = 4096;

/// Longest note that is kept, in bytes; longer ones are cut off.
pub const MAX_NOTE_BYTES: usize = 500;

impl ToSql for Kind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

impl FromSql for Kind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let name = value.as_str()?;
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or(FromSqlError::InvalidType)
    }
}

/// Adds a row. SQLite's integers are signed: larger values become the largest signed one.
pub(super) fn insert(db: &Connection, launch: &LaunchRecord) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO launches (time_s, app, kind, warmth, duration_us, waiting_us, read_bytes,
            own_readaheads, switches, entries, until_first_us, note)
        VALUES (:time_s, :app, :kind, :warmth, :duration_us, :waiting_us, :read_bytes,
            :own_readaheads, :switches, :entries, :until_first_us, :note)",
        named_params! {
        ":time_s": signed(launch.time_s),
        ":app": launch.app,
        ":kind": launch.kind,
        ":warmth": launch.warmth.map(warmth_word),
        ":duration_us": signed(launch.duration_us),
        ":waiting_us": signed(launch.waiting_us),
        ":read_bytes": signed(launch.read_bytes),
        ":own_readaheads": signed(launch.own_readaheads),
        ":switches": launch.switches.map(signed),
        ":entries": launch.entries.map(signed),
        ":until_first_us": launch.until_first_us.map(signed),
        ":note": launch.note.as_deref().map(|note| cut(note, MAX_NOTE_BYTES)),
        },
    )?;
    Ok(())
}

/// Rows of one app or all, newest first: in the order in which they came, whatever the clock said.
pub(super) fn select(
    db: &Connection,
    app: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<LaunchRecord>> {
    let mut query = db.prepare(match app {
        Some(_) => "SELECT * FROM launches WHERE app = ?2 ORDER BY id DESC LIMIT ?1",
        // Both statements must name both parameters.
        None => "SELECT * FROM launches WHERE ?2 IS NULL ORDER BY id DESC LIMIT ?1",
    })?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    query.query_map((limit, app), read)?.collect()
}

/// Whether all rows can be read.
pub(super) fn check(db: &Connection) -> rusqlite::Result<()> {
    let mut query = db.prepare("SELECT * FROM launches")?;
    query
        .query_map([], read)?
        .try_for_each(|launch| launch.map(drop))
}

fn read(row: &Row<'_>) -> rusqlite::Result<LaunchRecord> {
    Ok(LaunchRecord {
        time_s: unsigned(row, "time_s")?,
        app: row.get("app")?,
        kind: row.get("kind")?,
        warmth: warmth(row)?,
        duration_us: unsigned(row, "duration_us")?,
        waiting_us: unsigned(row, "waiting_us")?,
        read_bytes: unsigned(row, "read_bytes")?,
        own_readaheads: unsigned(row, "own_readaheads")?,
        switches: optional(row, "switches")?,
        entries: optional(row, "entries")?,
        until_first_us: optional(row, "until_first_us")?,
        note: row.get("note")?,
    })
}

/// The warmth in a row.
pub(super) fn warmth(row: &Row<'_>) -> rusqlite::Result<Option<Warmth>> {
    struct StoredWarmth(Warmth);
    impl FromSql for StoredWarmth {
        fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
            let warmth = warmth_of(value.as_str()?).map(StoredWarmth);
            warmth.ok_or(FromSqlError::InvalidType)
        }
    }
    let found: Option<StoredWarmth> = row.get("warmth")?;
    Ok(found.map(|word| word.0))
}

/// A count in a row.
pub(super) fn unsigned(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    optional(row, column).map(Option::unwrap_or_default)
}

fn optional(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    // The schema allows no negative ones.
    Ok(value.map(|value| u64::try_from(value).unwrap_or(0)))
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// At most `len` bytes of a text, whole characters.
fn cut(text: &str, len: usize) -> &str {
    let len = (0..=len.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at));
    &text[..len.unwrap_or(0)]
}
