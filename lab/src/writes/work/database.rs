//! A fixed script of small transactions on SQLite, as apps make them: with a write-ahead log, and with a
//! rollback journal that is deleted after each. Every commit is on the drive when it returns
//! (synchronous = FULL).

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use rusqlite::Connection;

use super::{ALL, Prepared};
use crate::writes::latencies::Stopwatch;

/// Transactions in each mode.
const TRANSACTIONS: u32 = 100;

/// Rows that are there before.
const ROWS: u32 = 2000;

/// The names of a mode's operations.
struct Mode {
    database: Connection,
    insert: &'static str,
    update: &'static str,
    delete: &'static str,
}

/// Both databases, filled.
pub(super) struct Script {
    modes: [Mode; 2],
}

impl Script {
    /// Makes the databases in `directory`.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let wal = Mode {
            database: filled(&directory.join("wal.db"), "WAL")?,
            insert: "wal insert",
            update: "wal update",
            delete: "wal delete",
        };
        let rollback = Mode {
            database: filled(&directory.join("delete.db"), "DELETE")?,
            insert: "delete insert",
            update: "delete update",
            delete: "delete delete",
        };
        Ok(Script {
            modes: [wal, rollback],
        })
    }
}

fn filled(path: &Path, mode: &str) -> Result<Connection> {
    let mut database = Connection::open(path)?;
    database.pragma_update(None, "journal_mode", mode)?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch(
        "CREATE TABLE message(id INTEGER PRIMARY KEY, thread INTEGER, seen INTEGER, text TEXT);
         CREATE INDEX message_thread ON message(thread);",
    )?;
    let transaction = database.transaction()?;
    for id in 0..ROWS {
        insert(&transaction, id)?;
    }
    transaction.commit()?;
    Ok(database)
}

fn insert(database: &Connection, id: u32) -> Result<()> {
    let mut statement =
        database.prepare("INSERT INTO message(id, thread, seen, text) VALUES (?1, ?2, 0, ?3)")?;
    statement.execute((id, id % 50, format!("{id} {}", "word ".repeat(40))))?;
    Ok(())
}

impl Mode {
    /// Transaction `number`: one in ten deletes, three change rows, the others add one.
    fn transaction(&self, number: u32, watch: &mut Stopwatch) -> Result<()> {
        match number % 10 {
            9 => watch.time(self.delete, || {
                self.execute("DELETE FROM message WHERE id = ?1", number)
            }),
            3 | 6 | 8 => watch.time(self.update, || {
                self.execute(
                    "UPDATE message SET seen = seen + 1 WHERE thread = ?1",
                    number % 50,
                )
            }),
            _ => watch.time(self.insert, || insert(&self.database, ROWS + number)),
        }
    }

    fn execute(&self, statement: &str, value: u32) -> Result<()> {
        self.database.prepare(statement)?.execute([value])?;
        Ok(())
    }
}

impl Prepared for Script {
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()> {
        // In turns, so that a limit cuts both modes alike.
        for number in 0..TRANSACTIONS {
            for (index, mode) in self.modes.iter().enumerate() {
                if (number > 0 || index > 0) && watch.is_over() {
                    return Ok(());
                }
                let begun = Instant::now();
                mode.transaction(number, watch)?;
                watch.note(ALL, begun.elapsed());
            }
        }
        Ok(())
    }
}
