//! `run --report`: the misses of the launch, once the app has ended.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::terminal::cut_behind;
use super::{output_file, said_columns, say, say_all};
use crate::cli::format::{mib, text_of};
use crate::fs::mounts::MountTable;
use crate::judge::{JudgedLaunch, LiveSystem, Miss, MissedPlace, Misses, Recording, misses};
use crate::model::{PAGE_SIZE, PrefetchReport, Profile};

/// Misses that are listed as text; all of them are in a file.
const MOST_LINES: usize = 100;

/// A launch's misses, and how far they can be trusted.
pub struct ReportVerdict {
    misses: Misses,
    duration: Duration,
    lost: u64,
}

/// The file that a report is written to.
pub struct ReportFile {
    path: PathBuf,
    file: File,
}

impl ReportFile {
    /// Makes the file, as [`output_file::create`] does.
    pub fn create(path: &Path) -> Result<Self, String> {
        let file = output_file::create(path).map_err(|error| Self::cannot_write(path, &error))?;
        let path = path.to_owned();
        Ok(ReportFile { path, file })
    }

    /// Writes the whole of it. The app has ended, and its status counts: a failure is only said.
    pub fn write(mut self, text: &str) {
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            say(&Self::cannot_write(&self.path, &error));
        }
    }

    fn cannot_write(path: &Path, error: &io::Error) -> String {
        format!("cannot write {}: {error}", path.display())
    }
}

/// Lists the misses of a recorded launch, which began at `started`.
pub fn judge(
    recording: &Recording,
    started: SystemTime,
    profile: &Profile,
    outcome: &PrefetchReport,
) -> Result<ReportVerdict, String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let launch = JudgedLaunch {
        start_ns: recording.start_ns,
        accesses: &recording.accesses,
        profile,
        prefetch: outcome,
    };
    let duration = recording.end_ns.saturating_sub(recording.start_ns);
    Ok(ReportVerdict {
        misses: misses(&launch, &mut LiveSystem::new(mounts, started)),
        duration: Duration::from_nanos(duration),
        lost: recording.lost,
    })
}

/// Prints the report on standard error.
pub fn print(verdict: &ReportVerdict) {
    let columns = said_columns();
    say_all(&lines(verdict, columns), columns);
}

/// Writes the report as JSON lines.
pub fn write(verdict: &ReportVerdict, file: ReportFile) {
    let lines = json_lines(verdict).into_iter();
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    file.write(&text);
}

/// The report for a person to read, a line each; in tables, names are cut to fit into so many columns.
fn lines(verdict: &ReportVerdict, columns: Option<usize>) -> Vec<String> {
    let misses = &verdict.misses;
    let reasons: Vec<String> = misses
        .by_reason
        .iter()
        .map(|(reason, count)| format!("{} {reason} ({})", count.requests, mib(count.bytes())))
        .collect();
    let mut lines = vec![format!(
        "missed {} of {} requests ({:.1} %), {}, in {:.1} s{}{}",
        misses.total.requests,
        misses.launch_requests,
        misses.ratio() * 100.0,
        mib(misses.total.bytes()),
        verdict.duration.as_secs_f64(),
        if reasons.is_empty() { "" } else { ": " },
        reasons.join(", "),
    )];
    lines.extend(table(&misses.misses, "misses", columns));
    if !misses.others.is_empty() {
        let pages: u64 = misses.others.iter().map(|miss| miss.pages).sum();
        lines.push(format!(
            "others read meanwhile, for the app or not: {} requests, {}",
            misses.others.len(),
            mib(pages * PAGE_SIZE)
        ));
        lines.extend(table(&misses.others, "requests of others", columns));
    }
    if verdict.lost > 0 {
        lines.push(format!(
            "{} events were lost: there may be more misses",
            verdict.lost
        ));
    }
    lines
}

fn table(misses: &[Miss], what: &str, columns: Option<usize>) -> Vec<String> {
    if misses.is_empty() {
        return Vec::new();
    }
    const BEFORE_PLACE: usize = 10 + 1 + 14 + 1 + 10 + 1 + 6 + 2;
    let mut lines = vec![format!(
        "{:>10} {:<14} {:>10} {:>6}  what",
        "time ms", "reason", "page", "pages"
    )];
    lines.extend(misses.iter().take(MOST_LINES).map(|miss| {
        format!(
            "{:>10.1} {:<14} {:>10} {:>6}  {}",
            miss.time_us as f64 / 1e3,
            miss.reason,
            miss.start,
            miss.pages,
            cut_behind(&place(&miss.place), BEFORE_PLACE, columns)
        )
    }));
    if let Some(more @ 1..) = misses.len().checked_sub(MOST_LINES) {
        lines.push(format!("and {more} more {what}: --report=FILE lists all"));
    }
    lines
}

fn place(place: &MissedPlace) -> String {
    match place {
        MissedPlace::Data {
            path: Some(path), ..
        } => text_of(path),
        MissedPlace::Data { inode, path: None } => format!("inode {inode}"),
        MissedPlace::Metadata { block } => format!("metadata: {block}"),
    }
}

/// A line for each miss, then one with the totals.
fn json_lines(verdict: &ReportVerdict) -> Vec<Value> {
    let misses = &verdict.misses;
    let mut lines: Vec<Value> = misses
        .misses
        .iter()
        .chain(&misses.others)
        .map(|miss| {
            let mut line = json!(miss);
            // `miss`: with the members of a `Miss`.
            line["type"] = json!("miss");
            line
        })
        .collect();
    lines.push(json!({
        // `totals`: the last line, with the members below.
        "type": "totals",
        // Misses without those of others.
        "requests": misses.total.requests,
        // Their pages of 4 KiB.
        "pages": misses.total.pages,
        // The same by reason, as far as there are any: `RequestCount`.
        "by_reason": misses.by_reason,
        // Requests of others.
        "others": misses.others.len(),
        // Pages of files that were created meanwhile: nothing was read.
        "made_pages": misses.made_pages,
        // Reads of the launch sequence that the profile was made from.
        "launch_requests": misses.launch_requests,
        // `requests` / `launch_requests`; 0 if that is 0.
        "miss_ratio": misses.ratio(),
        // The launch, as far as it was recorded, in microseconds.
        "duration_us": u64::try_from(verdict.duration.as_micros()).unwrap_or(u64::MAX),
        // Events that were lost: there may be more misses.
        "lost_events": verdict.lost,
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::ext4::BlockKind;
    use crate::judge::{MissReason, RequestCount};

    fn verdict(count: usize) -> ReportVerdict {
        let miss = |place| Miss {
            time_us: 1500,
            reason: MissReason::Late,
            dev: 5,
            place,
            start: 7,
            pages: 2,
        };
        let data = MissedPlace::Data {
            inode: 12,
            path: Some(b"/a\n".to_vec()),
        };
        let metadata = MissedPlace::Metadata {
            block: BlockKind::InodeTable,
        };
        let total = RequestCount {
            requests: count as u64,
            pages: 2 * count as u64,
        };
        ReportVerdict {
            misses: Misses {
                misses: vec![miss(data); count],
                others: vec![miss(metadata)],
                total,
                by_reason: [(MissReason::Late, total)].into(),
                launch_requests: 1000,
                made_pages: 0,
            },
            duration: Duration::from_millis(300),
            lost: 3,
        }
    }

    #[test]
    fn the_text_names_what_was_missed_and_why() {
        let text = lines(&verdict(5), None);
        assert_eq!(
            text[0],
            "missed 5 of 1000 requests (0.5 %), 0.0 MiB, in 0.3 s: 5 late (0.0 MiB)"
        );
        let text = text.join("\n");
        for part in ["1.5 late", "/a\u{fffd}\n", "metadata: inode table\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let end = "3 events were lost: there may be more misses";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn tables_fit_into_80_columns_whatever_the_paths_are() {
        let mut verdict = verdict(2);
        for miss in &mut verdict.misses.misses {
            miss.reason = MissReason::NotInProfile;
            (miss.time_us, miss.start, miss.pages) = (30_000_000, u64::from(u32::MAX), 131_072);
            miss.place = MissedPlace::Data {
                inode: 12,
                path: Some(format!("/usr/lib/{}/end.so", "long".repeat(30)).into_bytes()),
            };
        }
        let columns = 80 - super::super::messages::BY.len();
        let lines = lines(&verdict, Some(columns));
        let rows: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains("in-profile "))
            .collect();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert!(
                row.chars().count() == columns && row.ends_with("long/end.so"),
                "{row}"
            );
        }
        let all = super::super::messages::fitted(&lines, Some(columns));
        let long = all.iter().find(|line| line.chars().count() > columns);
        assert_eq!(long, None);
    }

    #[test]
    fn long_lists_are_cut_as_text_and_not_as_json() {
        let verdict = verdict(MOST_LINES + 2);
        assert!(
            lines(&verdict, None)
                .iter()
                .any(|line| line.starts_with("and 2 more misses"))
        );
        let json = json_lines(&verdict);
        assert_eq!(json.len(), MOST_LINES + 4);
        let first = json!({
            "type": "miss", "time_us": 1500, "reason": "late", "dev": 5, "kind": "data",
            "inode": 12, "path": "/a\n", "start": 7, "pages": 2,
        });
        assert_eq!(json[0], first);
        assert_eq!(json[MOST_LINES + 2]["block"], "inode-table");
        assert_eq!(json[MOST_LINES + 3]["by_reason"]["late"]["requests"], 102);
    }
}
