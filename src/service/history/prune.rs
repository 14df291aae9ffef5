//! Adding launches and removing others.
//!
//! Rows are numbered in the order in which they came, so that the number bounds them whatever the
//! clock does. By time, only the few oldest go at each launch, those that are too old by the new
//! launch's clock: enough to keep up, and a clock that is years ahead for one launch does not empty the
//! history. Launches that were recorded by a clock ahead of the present one go by their number.

use rusqlite::{Connection, Transaction};

use super::HistoryLimits;
use super::row::{self, Launch, signed};
use super::schema::pragma;

/// Most rows that one launch removes because of their age.
pub(super) const OLD_AT_ONCE: u64 = 4;

/// Free pages of the file from which they are given back to the file system. A few are left for the
/// rows to come.
const FREE_PAGES: i64 = 8;

/// More pages than any row can make the file grow by: the longest name stands in the table and in an
/// index, each on two pages of its own, and pages are split.
const PAGES_OF_A_ROW: i64 = 16;

const DAY_S: u64 = 24 * 60 * 60;

/// Adds a launch, and removes what is too much.
pub(super) fn add(
    db: &mut Connection,
    launch: &Launch,
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

/// Gives free pages back, and commits.
fn finish(transaction: Transaction<'_>) -> rusqlite::Result<()> {
    if pragma(&transaction, "freelist_count")? > FREE_PAGES {
        let mut vacuum = transaction.prepare("PRAGMA incremental_vacuum")?;
        let mut pages = vacuum.query([])?;
        // Each step frees a page.
        while pages.next()?.is_some() {}
    }
    transaction.commit()
}
