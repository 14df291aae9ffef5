//! Reads what a session left behind.

use std::path::Path;

use anyhow::Result;

use crate::journal;
use crate::record::{Launch, Learned, Lessons, Missed, Record, Session, Written};

/// Everything that a result directory's `results.jsonl` holds, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Starts and resumptions of the lab.
    pub sessions: Vec<Session>,
    /// Learning runs.
    pub learned: Vec<Learned>,
    /// Launches, disturbed ones included.
    pub launches: Vec<Launch>,
    /// Judged launches.
    pub missed: Vec<Missed>,
    /// Apps that were learned several times.
    pub lessons: Vec<Lessons>,
    /// Benchmarks of `lab writes`.
    pub written: Vec<Written>,
    /// What readers of the report should know about the file itself.
    pub notes: Vec<String>,
}

/// Reads `results.jsonl` in `dir`. A partly written last line, as an interruption leaves it, is left out
/// and noted.
///
/// # Errors
/// No such file, or a line that is no record; the message has its number.
pub fn load(dir: &Path) -> Result<Results> {
    let found = journal::read(dir)?;
    let mut results = grouped(found.whole);
    results.notes.extend(found.cut.map(|line| {
        format!("Line {line} of results.jsonl was cut off when the lab was interrupted, and is left out.")
    }));
    Ok(results)
}

/// Records by their kind, those of a kind in their order.
pub fn grouped(records: Vec<Record>) -> Results {
    let mut results = Results::default();
    for record in records {
        match record {
            Record::Session(session) => results.sessions.push(session),
            Record::Learned(learned) => results.learned.push(learned),
            Record::Launch(launch) => results.launches.push(launch),
            Record::Missed(missed) => results.missed.push(missed),
            Record::Lessons(lessons) => results.lessons.push(lessons),
            Record::Written(written) => results.written.push(written),
        }
    }
    results
}
