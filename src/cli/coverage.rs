//! What a profile covers of each file, drawn as vmtouch draws what is cached of it.

use std::cmp::Reverse;

use super::format::{kib, text_of};
use super::terminal::cut_behind;
use crate::model::{PAGE_SIZE, Place, Profile};

/// Characters of a bar; a file of fewer pages has one for each.
const CELLS: u64 = 24;

/// Columns of a row before the path.
const BEFORE_PATH: usize = CELLS as usize + 2 + 2 + 10 + 2 + 5 + 2;

/// What is covered of one file or device, in pages.
struct Coverage {
    place: Place,
    spans: Vec<(u64, u64)>,
    covered: u64,
}

/// A row for each file, those of which most is covered first, and for the metadata of each device. Paths are cut where
/// they do not fit into `columns`.
pub fn lines(profile: &Profile, columns: Option<usize>) -> Vec<String> {
    let mut all = coverages(profile);
    all.sort_by_key(|one| (one.place.is_metadata(), Reverse(one.covered)));
    let heading = format!("{:<26}  {:>10}  {:>5}  file", "covered", "", "");
    let rows = all.iter().map(|one| row(profile, one, columns));
    std::iter::once(heading).chain(rows).collect()
}

fn row(profile: &Profile, one: &Coverage, columns: Option<usize>) -> String {
    let covered = kib(one.covered * PAGE_SIZE);
    let (bar, share, name) = match one.place {
        Place::Metadata { device } => {
            let device = &profile.devices[usize::from(device)];
            (
                String::new(),
                String::new(),
                format!("metadata of {} ({})", device.name, device.fs),
            )
        }
        Place::Data { file } => {
            let file = &profile.files[file as usize];
            let pages = file.size.div_ceil(PAGE_SIZE).max(1);
            let share = 100 * one.covered.min(pages) / pages;
            let path = file.path.as_deref().map(text_of);
            let path = path.unwrap_or_else(|| format!("inode {}", file.ino));
            (bar(&one.spans, pages), format!("{share} %"), path)
        }
    };
    let name = cut_behind(&name, BEFORE_PATH, columns);
    format!("{bar:<26}  {covered:>10}  {share:>5}  {name}")
}

/// A file of so many pages as a bar: full where all pages of a character are covered, half full where some are.
fn bar(spans: &[(u64, u64)], pages: u64) -> String {
    let cells = pages.min(CELLS);
    let cell = |index: u64| {
        let (from, to) = (pages * index / cells, pages * (index + 1) / cells);
        let within = spans.iter().map(|(start, end)| {
            let (start, end) = (from.max(*start), to.min(*end));
            end.saturating_sub(start)
        });
        match within.sum::<u64>() {
            0 => ' ',
            covered if covered >= to - from => '█',
            _ => '▒',
        }
    };
    let drawn: String = (0..cells).map(cell).collect();
    format!("[{drawn}]")
}

/// The entries of each file or device, as ranges of pages in order and apart from each other.
fn coverages(profile: &Profile) -> Vec<Coverage> {
    let mut spans: Vec<_> = profile.entries.iter().map(|entry| entry.span).collect();
    let key = |place: Place| match place {
        Place::Metadata { device } => (true, u32::from(device)),
        Place::Data { file } => (false, file),
    };
    spans.sort_by_key(|span| (key(span.place), span.start));
    let mut all: Vec<Coverage> = Vec::new();
    for span in spans {
        let end = span.start + span.len;
        if all.last().is_none_or(|last| last.place != span.place) {
            all.push(Coverage {
                place: span.place,
                spans: Vec::new(),
                covered: 0,
            });
        }
        let Some(one) = all.last_mut() else { continue };
        match one.spans.last_mut() {
            Some((_, last)) if span.start <= *last => *last = end.max(*last),
            _ => one.spans.push((span.start, end)),
        }
    }
    for one in &mut all {
        one.covered = one.spans.iter().map(|(start, end)| end - start).sum();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::generate::sample;

    #[test]
    fn bars_show_where_a_file_is_covered() {
        assert_eq!(bar(&[(0, 1)], 1), "[█]");
        assert_eq!(bar(&[(0, 2), (3, 4)], 5), "[██ █ ]");
        // Two pages a character; what lies past the end has no place.
        let half = bar(&[(0, 2), (3, 4), (47, 90)], 48);
        assert_eq!(half, format!("[█▒{}▒]", " ".repeat(21)));
        assert_eq!(
            bar(&[(0, u64::from(u32::MAX))], 1 << 20)
                .matches('█')
                .count(),
            24
        );
    }

    #[test]
    fn rows_are_of_files_and_then_of_metadata() {
        let profile = sample("/opt/of a path/that is/much too/long for/the line/app");
        let rows = lines(&profile, Some(80));
        assert_eq!(rows.len(), 3);
        // 18 pages, of which 0, 1 and 3 to 6 are covered.
        assert!(rows[1].starts_with("[██ ████           ]"), "{rows:?}");
        assert!(
            rows[1].contains(" 33 %  …") && rows[1].ends_with("/app"),
            "{rows:?}"
        );
        assert!(rows[2].ends_with("metadata of sda2 (ext4)"), "{rows:?}");
        assert!(
            rows[1].contains(" 24 KiB ") && rows[2].contains(" 4 KiB "),
            "{rows:?}"
        );
        assert!(rows.iter().all(|row| row.chars().count() <= 80), "{rows:?}");
        assert!(
            lines(&profile, None)[1]
                .ends_with("  /opt/of a path/that is/much too/long for/the line/app")
        );
    }

    #[test]
    fn what_two_entries_have_counts_once() {
        let mut profile = sample("/a");
        let again = profile.entries[1];
        profile.entries.push(again);
        let of_file = coverages(&profile)
            .into_iter()
            .find(|one| !one.place.is_metadata())
            .unwrap();
        assert_eq!((of_file.covered, of_file.spans.len()), (6, 2));
    }
}
