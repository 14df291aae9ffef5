//! What a launch requires, in the columns of the paper's Table 1.

use std::collections::HashSet;

use serde::Serialize;

use super::Sequence;
use crate::model::ranges::RangeSet;
use crate::model::{LogEntry, PAGE_SIZE, Place};

/// Read requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// Log entries.
    pub requests: u64,
    /// Size of the entries, in KiB.
    pub kib: u64,
}

impl RequestCounts {
    fn add(&mut self, pages: u64) {
        self.requests += 1;
        self.kib += pages * PAGE_SIZE / 1024;
    }
}

/// "Metadata and data block requests required to launch applications" (the paper's Table 1) for one launch, except
/// the last column, which is about later launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requirements {
    /// Traced requests for metadata. Missing metadata that were found are not among them.
    pub metadata: RequestCounts,
    /// Traced requests for file data, those for pages that were cached before the launch included.
    pub data: RequestCounts,
    /// Missing metadata that were found, in 4 KiB blocks.
    pub missing_metadata: u64,
    /// Regular files with data in the sequence.
    pub files: u64,
    /// Files that page faults show as mapped. `None` where the kernel does not report page faults.
    pub mapped_files: Option<u64>,
}

impl Requirements {
    /// Counts a launch sequence. `sees_faults`: whether its trace includes page faults.
    pub fn of(sequence: &Sequence, sees_faults: bool) -> Self {
        let mut inserted = vec![RangeSet::default(); sequence.devices.len()];
        for span in &sequence.unread {
            if let Place::Metadata { device } = span.place {
                inserted[usize::from(device)].insert(span.pages());
            }
        }
        let mut files: HashSet<u32> = HashSet::new();
        let mut required = Requirements {
            missing_metadata: sequence.report.missing_metadata,
            ..Requirements::default()
        };
        for LogEntry { span, .. } in &sequence.log {
            match span.place {
                Place::Data { file } => {
                    files.insert(file);
                    required.data.add(span.len);
                }
                Place::Metadata { device } => {
                    // An entry may consist of traced blocks and inserted neighbours.
                    let traced = inserted[usize::from(device)].missing(&span.pages());
                    let traced = traced.iter().map(|part| part.end - part.start).sum();
                    if traced > 0 {
                        required.metadata.add(traced);
                    }
                }
            }
        }
        required.files = files.len() as u64;
        required.mapped_files = sees_faults.then_some(sequence.mapped_files);
        required
    }

    /// The table with its heading, a line each.
    pub fn lines(&self) -> [String; 2] {
        let row = |of: [&str; 5]| {
            let [metadata, data, missing, files, mapped] = of;
            format!("{metadata:>20} {data:>20} {missing:>17} {files:>7} {mapped:>8}")
        };
        let size = |of: RequestCounts| format!("{} ({})", of.requests, of.kib);
        let (metadata, data) = (size(self.metadata), size(self.data));
        let (missing, files) = (self.missing_metadata.to_string(), self.files.to_string());
        let mapped = self
            .mapped_files
            .map_or("unknown".to_owned(), |n| n.to_string());
        let (metadata_heading, data_heading) = ("metadata reads (KiB)", "data reads (KiB)");
        [
            row([
                metadata_heading,
                data_heading,
                "missing metadata",
                "files",
                "mapped",
            ]),
            row([&metadata, &data, &missing, &files, &mapped]),
        ]
    }
}
