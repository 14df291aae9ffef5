//! A launch, and its row in the table.

use std::fmt;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, named_params};
use serde::{Deserialize, Serialize};

use crate::policy::Warmth;

/// Longest name of an app, in bytes: PATH_MAX of the kernel.
pub const MAX_APP_BYTES: usize = 4096;

/// Longest note that is kept, in bytes; what goes beyond it is cut off.
pub const MAX_NOTE_BYTES: usize = 500;

/// What was done with a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It was learned.
    Learned,
    /// It was prefetched.
    Prefetched,
    /// Prefetching was withheld, to compare.
    Withheld,
    /// It was left alone and only watched.
    Watched,
}

impl Kind {
    const ALL: [Kind; 4] = [
        Kind::Learned,
        Kind::Prefetched,
        Kind::Withheld,
        Kind::Watched,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Learned => "learned",
            Kind::Prefetched => "prefetched",
            Kind::Withheld => "withheld",
            Kind::Watched => "watched",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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

/// What is kept of one launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// When it began, in seconds since the epoch, by the system's clock of that moment.
    pub time_s: u64,
    /// Name under which the app is managed: an absolute path, or `launcher:name`. At most
    /// [`MAX_APP_BYTES`].
    pub app: String,
    /// What was done with it.
    pub kind: Kind,
    /// How much of what it needs had to come from the drive; `None` where that is not known, and for a
    /// launch that was slowed down to learn it, which is not to be compared with others.
    pub warmth: Option<Warmth>,
    /// Its length, in microseconds.
    pub duration_us: u64,
    /// Time that its tasks waited for the drive, in microseconds, summed up.
    pub waiting_us: u64,
    /// Bytes that the drive read for it.
    pub read_bytes: u64,
    /// Synchronous readaheads of the launch tree (paper §4.3).
    pub own_readaheads: u64,
    /// Context switches of the launch tree while it was prefetched (paper §3.3).
    pub switches: Option<u64>,
    /// Prefetch entries of the schedule.
    pub entries: Option<u64>,
    /// Time from execve to the first prefetch request, in microseconds.
    pub until_first_us: Option<u64>,
    /// What was decided after it, or what went wrong, in words. Cut off at [`MAX_NOTE_BYTES`].
    pub note: Option<String>,
}

/// Adds a row. SQLite's integers are signed: what is beyond them becomes the largest.
pub(super) fn insert(db: &Connection, launch: &Launch) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO launches (time_s, app, kind, warmth, duration_us, waiting_us, read_bytes,
            own_readaheads, switches, entries, until_first_us, note)
        VALUES (:time_s, :app, :kind, :warmth, :duration_us, :waiting_us, :read_bytes,
            :own_readaheads, :switches, :entries, :until_first_us, :note)",
        named_params! {
        ":time_s": signed(launch.time_s),
        ":app": launch.app,
        ":kind": launch.kind,
        ":warmth": launch.warmth.map(warmth_name),
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
) -> rusqlite::Result<Vec<Launch>> {
    let mut query = db.prepare(match app {
        Some(_) => "SELECT * FROM launches WHERE app = ?2 ORDER BY id DESC LIMIT ?1",
        // The second parameter must stand in both.
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

fn read(row: &Row<'_>) -> rusqlite::Result<Launch> {
    Ok(Launch {
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
    struct Named(Warmth);
    impl FromSql for Named {
        fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
            let name = value.as_str()?;
            [Warmth::Cold, Warmth::Partly, Warmth::Warm]
                .into_iter()
                .find(|&warmth| warmth_name(warmth) == name)
                .map(Named)
                .ok_or(FromSqlError::InvalidType)
        }
    }
    let found: Option<Named> = row.get("warmth")?;
    Ok(found.map(|named| named.0))
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

fn warmth_name(warmth: Warmth) -> &'static str {
    match warmth {
        Warmth::Cold => "cold",
        Warmth::Partly => "partly",
        Warmth::Warm => "warm",
    }
}

/// At most `len` bytes of a text, whole characters.
fn cut(text: &str, len: usize) -> &str {
    let len = (0..=len.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at));
    &text[..len.unwrap_or(0)]
}
