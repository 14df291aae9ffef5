//! Reads what a session left behind.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

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
    let path = dir.join("results.jsonl");
    let bytes = fs::read(&path).with_context(|| {
        format!(
            "cannot read {}; `lab run --out {}` makes it",
            path.display(),
            dir.display()
        )
    })?;
    // An interruption may cut a character in two; the line is judged as a whole below.
    parse(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())
}

/// Parses the lines of a `results.jsonl`.
///
/// # Errors
/// A line other than an unterminated last one is no record.
pub fn parse(text: &str) -> Result<Results> {
    let mut results = Results::default();
    let whole = text.ends_with('\n');
    let last = text.lines().count();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(Record::Session(session)) => results.sessions.push(session),
            Ok(Record::Learned(learned)) => results.learned.push(learned),
            Ok(Record::Launch(launch)) => results.launches.push(launch),
            Ok(Record::Missed(missed)) => results.missed.push(missed),
            Ok(Record::Lessons(lessons)) => results.lessons.push(lessons),
            Ok(Record::Written(written)) => results.written.push(written),
            Err(_) if number == last && !whole => results.notes.push(format!(
                "Line {number} of results.jsonl was cut off when the lab was interrupted, and is left out."
            )),
            Err(error) => bail!("line {number} is no record ({error}); remove it, or start a new set"),
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(app: &str) -> String {
        let launch = Launch {
            app: app.to_owned(),
            ..Launch::default()
        };
        serde_json::to_string(&Record::Launch(launch)).unwrap()
    }

    #[test]
    fn a_cut_last_line_is_left_out_and_said() {
        let whole = line("gimp");
        for cut in 1..whole.len() - 1 {
            let text = format!("{}\n{}", line("okular"), &whole[..cut]);
            let results = parse(&text).unwrap();
            assert_eq!(results.launches.len(), 1);
            assert!(results.notes[0].contains("Line 2"), "{:?}", results.notes);
        }
    }

    #[test]
    fn an_unterminated_but_whole_last_line_counts() {
        let results = parse(&line("gimp")).unwrap();
        assert_eq!(results.launches.len(), 1);
        assert!(results.notes.is_empty());
    }

    #[test]
    fn a_broken_line_elsewhere_is_an_error_with_its_number() {
        let text = format!("{}\n{{\"record\":\n{}\n", line("a"), line("b"));
        assert!(parse(&text).unwrap_err().to_string().contains("line 2"));
        assert!(parse("nonsense\n").is_err());
    }

    #[test]
    fn nothing_is_an_empty_set() {
        assert_eq!(parse("").unwrap(), Results::default());
    }

    #[test]
    fn a_missing_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(format!("{:#}", load(dir.path()).unwrap_err()).contains("results.jsonl"));
    }
}
