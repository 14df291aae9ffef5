//! What a launch sequence was made from, what was left out of it, and why.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::fs::support::Support;

/// A number of files and of their 4 KiB pages. Pages are counted once, metadata pages with no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileCount {
    /// Regular files.
    pub files: u64,
    /// 4 KiB pages.
    pub pages: u64,
}

impl FileCount {
    /// Adds one file, or none, with this many pages.
    pub(super) fn add(&mut self, is_file: bool, pages: u64) {
        self.files += u64::from(is_file);
        self.pages += pages;
    }
}

/// Files of one type of file system that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Kind of the file system, which is the reason.
    pub support: Support,
    /// How many.
    pub count: FileCount,
}

/// How many paths a launch used, and of which of them the metadata could not be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathCounts {
    /// Paths, each counted once for the directory and the mount that it starts from.
    pub used: u64,
    /// Of these, paths used in another mount namespace that could not be entered, most often because it
    /// had ended before it could be held. They were walked through our own mounts.
    pub foreign: u64,
    /// Of these, paths to a file system that only another mount namespace has mounted.
    pub hidden: u64,
}

impl PathCounts {
    /// What to tell the user about them, a line each.
    pub fn lines(&self) -> Vec<String> {
        let lost = self.foreign.max(self.hidden);
        let line = format!(
            "{lost} of {} paths led through a sandbox's own mounts, which paralfetch could not see: their \
             directories may not be in the profile",
            self.used
        );
        (lost > 0).then_some(line).into_iter().collect()
    }
}

/// What a launch sequence was made from, what was left out of it, and why. Pages are of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResolveReport {
    /// Accesses by tasks outside of the launch tree: not in the sequence.
    pub other: FileCount,
    /// Metadata pages that tasks outside of the launch tree accessed: not in the sequence.
    pub other_metadata_pages: u64,
    /// Left out: file systems that cannot be prefetched, by their type.
    pub left_out: BTreeMap<String, LeftOut>,
    /// Left out: the device is not in the mount table, or its file system cannot be opened.
    pub unknown_device: FileCount,
    /// Left out: deleted or replaced since, not a regular file, or not to be opened.
    pub gone: FileCount,
    /// Left out: written or changed since the launch began.
    pub written: FileCount,
    /// Left out: pages past the end of their file.
    pub past_end_pages: u64,
    /// Left out: pages in holes, unwritten, or otherwise without a place on the disk.
    pub unmapped_pages: u64,
    /// In the sequence: pages that were cached before the launch, found by its faults on cached pages.
    pub window_pages: u64,
    /// Left out: pages that a fault on another page mapped, and that an earlier launch did not need.
    pub refined_pages: u64,
    /// In the sequence: pages that only earlier launches used.
    pub kept_pages: u64,
    /// Left out: pages that no launch has used for long, and those of an old version of the app.
    pub outdated_pages: u64,
    /// In the sequence: pages that helpers accessed in this launch and in an earlier one.
    pub recurring_pages: u64,
    /// Not in the sequence: pages that helpers accessed in this launch alone.
    pub helper_pages: u64,
    /// Not in the sequence: pages of files that seem to be data which this launch was asked to open.
    pub data_pages: u64,
    /// Paths that the launch looked up.
    pub paths: PathCounts,
    /// In the sequence: metadata pages that path look-ups depend on and that were cached.
    pub path_metadata: u64,
    /// In the sequence: metadata pages that were inserted (paper §3.1).
    pub missing_metadata: u64,
    /// In the sequence: metadata pages that were read only after data that depend on them.
    pub late_metadata: u64,
    /// Left out: metadata pages on devices that cannot be opened.
    pub dropped_metadata: u64,
    /// What to tell the user, a line each.
    pub warnings: Vec<String>,
}

impl ResolveReport {
    /// What the launch asked for and the sequence lacks, with the reason, a line each.
    pub fn left_out_lines(&self) -> Vec<String> {
        let by_type = self.left_out.iter().map(|(fs_type, left_out)| {
            let reason = left_out.support.reason().unwrap_or("is left out");
            format!("{}: {fs_type} {reason}", left_out.count)
        });
        let files = counted([
            (self.unknown_device, "on devices that are not mounted here"),
            (self.gone, "deleted, replaced or not regular files"),
            (self.written, "written since the launch began"),
        ]);
        let pages = counted([
            (self.past_end_pages, "past the ends of files"),
            (self.unmapped_pages, "without a place on the disk"),
            (self.dropped_metadata, "metadata of unreadable devices"),
        ]);
        by_type.chain(files).chain(pages).collect()
    }

    /// The whole report as text, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut other = self.other;
        other.pages += self.other_metadata_pages;
        let counts = counted([
            (self.window_pages, "cached before the launch"),
            (self.path_metadata, "metadata of look-ups, cached before"),
            (
                self.refined_pages,
                "left out: not needed in an earlier launch",
            ),
            (self.kept_pages, "kept: used by earlier launches alone"),
            (
                self.outdated_pages,
                "left out: not used for long, or of an old version",
            ),
            (
                self.recurring_pages,
                "read from end to end, or by other processes for this launch, as before",
            ),
            (
                self.helper_pages,
                "left out unless it recurs: read by other processes meanwhile",
            ),
            (
                self.data_pages,
                "left out unless it recurs: a user's files, read from end to end",
            ),
            (self.missing_metadata, "missing metadata, inserted"),
            (self.late_metadata, "metadata read only after their data"),
        ]);
        let other = counted([(other, "not of this app: accessed by other programs")]);
        let left_out = self.left_out_lines().into_iter();
        let left_out = left_out.map(|line| format!("left out: {line}")).collect();
        [
            self.warnings.clone(),
            counts,
            other,
            self.paths.lines(),
            left_out,
        ]
        .concat()
    }
}

/// A line for each count that is not zero.
fn counted<const N: usize>(counts: [(impl Into<FileCount>, &str); N]) -> Vec<String> {
    let counts = counts.into_iter().map(|(count, what)| (count.into(), what));
    let counts = counts.filter(|(count, _)| *count != FileCount::default());
    counts
        .map(|(count, what)| format!("{count}: {what}"))
        .collect()
}

/// Pages of metadata, or of files that are not counted.
impl From<u64> for FileCount {
    fn from(pages: u64) -> Self {
        FileCount { files: 0, pages }
    }
}

impl fmt::Display for FileCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number| if number == 1 { "" } else { "s" };
        if self.files > 0 {
            write!(f, "{} file{}, ", self.files, plural(self.files))?;
        }
        write!(f, "{} page{}", self.pages, plural(self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_counted_is_listed_and_pages_left_out_with_the_reason() {
        assert_eq!(ResolveReport::default().lines(), Vec::<String>::new());
        let mut report = ResolveReport {
            missing_metadata: 1,
            gone: FileCount { files: 1, pages: 2 },
            unmapped_pages: 3,
            warnings: vec!["loop0: something".to_owned()],
            ..ResolveReport::default()
        };
        let left_out = LeftOut {
            support: Support::Memory,
            count: FileCount { files: 2, pages: 7 },
        };
        report.left_out.insert("tmpfs".to_owned(), left_out);
        assert_eq!(
            report.lines(),
            [
                "loop0: something",
                "1 page: missing metadata, inserted",
                "left out: 2 files, 7 pages: tmpfs lives in memory: nothing is read from a drive",
                "left out: 1 file, 2 pages: deleted, replaced or not regular files",
                "left out: 3 pages: without a place on the disk",
            ]
        );
    }
}
