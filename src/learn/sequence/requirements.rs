//! What a launch requires, in the columns of the paper's Table 1.

use std::collections::HashSet;

use serde::Serialize;

use super::Sequence;
use crate::model::ranges::RangeSet;
use crate::model::{LogEntry, PAGE_SIZE, Place};

/// Read requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// Log entries: runs of pages that follow each other in the sequence, in their file and on the
    /// disk.
    pub requests: u64,
    /// Their size, in KiB.
    pub kib: u64,
}

impl RequestCounts {
    fn add(&mut self, pages: u64) {
        self.requests += 1;
        self.kib += pages * PAGE_SIZE / 1024;
    }
}

/// "Metadata and data block requests required to launch applications": the columns of Table 1 of *Fast
/// Application Launch on Personal Computing/Communication Devices* (FAST '23) for one launch, except its last
/// column, which is about later launches.
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
    /// Those of them that the launch had mapped, which page faults show. A file that was read as a whole
    /// before it was mapped is not counted. `None` where the kernel does not report page faults.
    pub mapped_files: Option<u64>,
}

impl Requirements {
    /// Counts a launch sequence. `sees_faults`: whether its trace includes page faults
    /// ([`crate::kernel::Trace::hooks`]).
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
        let mapped = sequence.mapped.iter().filter(|&&mapped| mapped).count() as u64;
        required.files = files.len() as u64;
        required.mapped_files = sees_faults.then_some(mapped);
        required
    }

    /// The table with its heading, a line each.
    pub fn lines(&self) -> [String; 2] {
        let size = |of: &RequestCounts| format!("{} ({})", grouped(of.requests), grouped(of.kib));
        let mapped = self.mapped_files.map(grouped);
        [
            [
                "metadata reads (KiB)",
                "data reads (KiB)",
                "missing metadata",
                "files",
                "mapped",
            ],
            [
                &size(&self.metadata),
                &size(&self.data),
                &grouped(self.missing_metadata),
                &grouped(self.files),
                mapped.as_deref().unwrap_or("unknown"),
            ],
        ]
        .map(|[metadata, data, missing, files, mapped]| {
            format!("{metadata:>20} {data:>20} {missing:>17} {files:>7} {mapped:>8}")
        })
    }
}

/// A number with commas between its thousands, as the paper prints it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let (first, thousands) = digits.split_at((digits.len() - 1) % 3 + 1);
    let mut text = first.to_owned();
    for (index, digit) in thousands.chars().enumerate() {
        if index.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::sequence::ResolveReport;
    use crate::model::Span;
    use crate::profile::generate::sample;

    const METADATA: Place = Place::Metadata { device: 0 };

    fn sequence() -> Sequence {
        let sample = sample("/bin/app");
        let entry = |place, start, len| LogEntry {
            span: Span { place, start, len },
            device: 0,
            lba: start * 8,
            time_us: 0,
        };
        Sequence {
            devices: sample.devices,
            files: vec![sample.files[0].clone(); 2],
            mapped: vec![true, false],
            log: vec![
                entry(METADATA, 10, 3),
                entry(Place::Data { file: 0 }, 0, 4),
                entry(METADATA, 20, 1),
                entry(Place::Data { file: 1 }, 9, 1),
            ],
            // The end of the first entry, all of the third, and cached data.
            unread: vec![
                Span::new(METADATA, 12..13),
                Span::new(METADATA, 20..21),
                Span::new(Place::Data { file: 0 }, 0..1),
            ],
            report: ResolveReport {
                missing_metadata: 2,
                ..ResolveReport::default()
            },
            ..Sequence::default()
        }
    }

    #[test]
    fn inserted_metadata_are_not_among_the_traced_requests() {
        let requests = |requests, kib| RequestCounts { requests, kib };
        assert_eq!(
            Requirements::of(&sequence(), true),
            Requirements {
                metadata: requests(1, 8),
                data: requests(2, 20),
                missing_metadata: 2,
                files: 2,
                mapped_files: Some(1),
            }
        );
    }

    #[test]
    fn mapped_files_are_unknown_where_faults_are_not_seen() {
        let required = Requirements::of(&sequence(), false);
        assert_eq!(required.mapped_files, None);
        assert!(required.lines()[1].ends_with(" unknown"));
    }

    #[test]
    fn numbers_are_printed_as_in_the_paper() {
        let printed = [0, 954, 1330, 1 << 20].map(grouped);
        assert_eq!(printed, ["0", "954", "1,330", "1,048,576"]);
    }
}
