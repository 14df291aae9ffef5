//! Adding launches and removing others.
//!
//! Rows are numbered in the order in which they were added, so that their number is bounded whatever
//! the clock does. Their age is bounded by the new launch's clock, and each launch removes only a few
//! rows that are too old: enough to keep up, but a clock that is years ahead for one launch does not
//! empty the history. Rows with a time ahead of the present clock are removed by their number.

use rusqlite::{Connection, Transaction};

use super::HistoryLimits;
use super::launch::LaunchRecord;
use super::row::{self, signed};
use super::schema::pragma;

/// Most rows that adding one launch removes because of their age.
pub(super) const OLD_AT_ONCE: u64 = 4;

/// The file may keep this many free pages for new rows; if there are more, all are returned to the file
/// system.
const FREE_PAGES: i64 = 8;

/// Upper bound of the pages by which one row can enlarge the file: the longest name is stored in the table
/// and in an index, on two pages each, and inserting may split pages.
const PAGES_OF_A_ROW: i64 = 16;

const DAY_S: u64 = 24 * 60 * 60;

/// Adds a launch, and removes those that exceed the bounds.
pub(super) fn add(
    db: &mut Connection,
    launch: &LaunchRecord,
    limits: HistoryLimits,
) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    row::insert(&transaction, launch)?;
    let newest = transaction.last_insert_rowid();
    let excess = newest.saturating_sub(signed(limits.max_launches));
    transaction.execute("DELETE FROM launches WHERE id <= ?1", [excess])?;
    let oldest_s = launch
        .time_s
        .saturating_sub(limits.max_days.saturating_mul(DAY_S));
    transaction.execute(
        "DELETE FROM launches WHERE id IN
            (SELECT id FROM launches WHERE time_s < ?1 ORDER BY time_s LIMIT ?2)",
        [signed(oldest_s), signed(OLD_AT_ONCE)],
    )?;
    finish(transaction)
}

/// Removes all launches of an app, and returns how many there were.
pub(super) fn forget(db: &mut Connection, app: &str) -> rusqlite::Result<usize> {
    let transaction = db.transaction()?;
    let count = transaction.execute("DELETE FROM launches WHERE app = ?1", [app])?;
    finish(transaction)?;
    Ok(count)
}

/// Removes the oldest tenth of the launches, and one more.
pub(super) fn remove_a_tenth(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    transaction.execute(
        "DELETE FROM launches WHERE id IN (SELECT id FROM launches ORDER BY id
            LIMIT (SELECT count(*) / 10 + 1 FROM launches))",
        [],
    )?;
    transaction.commit()
}

/// Whether the file is as large as it may become, or nearly.
pub(super) fn is_at_bound(db: &Connection) -> bool {
    let most = pragma(db, "max_page_count").unwrap_or(i64::MAX);
    pragma(db, "page_count").is_ok_and(|count| count.saturating_add(PAGES_OF_A_ROW) >= most)
}

/// Returns free pages to the file system, and commits.
fn finish(transaction: Transaction<'_>) -> rusqlite::Result<()> {
    if pragma(&transaction, "freelist_count")? > FREE_PAGES {
        let mut vacuum = transaction.prepare("PRAGMA incremental_vacuum")?;
        let mut pages = vacuum.query([])?;
        // Each step frees a page.
        while pages.next()?.is_some() {}
    }
    transaction.commit()
}
