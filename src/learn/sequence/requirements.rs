//! What a launch requires, in the columns of the paper's Table 1.

use std::collections::HashSet;

use serde::Serialize;

use super::Sequence;
use crate::model::ranges::RangeSet;
use crate::model::{PAGE_SIZE, Place};

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
                inserted[usize::from(device)].insert(span.start..span.end());
            }
        }
        let files: HashSet<u32> = sequence
            .log
            .iter()
            .filter_map(|entry| match entry.span.place {
                Place::Data { file } => Some(file),
                Place::Metadata { .. } => None,
            })
            .collect();
        let mut required = Requirements {
            missing_metadata: sequence.report.missing_metadata,
            files: files.len() as u64,
            ..Requirements::default()
        };
        for entry in &sequence.log {
            let span = &entry.span;
            match span.place {
                Place::Data { .. } => required.data.add(span.len),
                Place::Metadata { device } => {
                    // An entry may consist of traced blocks and inserted neighbours.
                    let traced: u64 = inserted[usize::from(device)]
                        .missing(&(span.start..span.end()))
                        .iter()
                        .map(|part| part.end - part.start)
                        .sum();
                    if traced > 0 {
                        required.metadata.add(traced);
                    }
                }
            }
        }
        let mapped = sequence.mapped.iter().filter(|&&mapped| mapped).count() as u64;
        required.mapped_files = sees_faults.then_some(mapped);
        required
    }

    /// The table with its heading, a line each.
    pub fn lines(&self) -> [String; 2] {
        let size = |of: &RequestCounts| format!("{} ({})", grouped(of.requests), grouped(of.kib));
        let mapped = self
            .mapped_files
            .map_or_else(|| "unknown".to_owned(), grouped);
        let row = |cells: [&str; 5]| {
            format!(
                "{:>20} {:>20} {:>17} {:>7} {:>8}",
                cells[0], cells[1], cells[2], cells[3], cells[4]
            )
        };
        [
            row([
                "metadata reads (KiB)",
                "data reads (KiB)",
                "missing metadata",
                "files",
                "mapped",
            ]),
            row([
                &size(&self.metadata),
                &size(&self.data),
                &grouped(self.missing_metadata),
                &grouped(self.files),
                &mapped,
            ]),
        ]
    }
}

/// A number with commas between its thousands, as the paper prints it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
    use crate::model::DriveClass;
    use crate::model::{Device, File};
    use crate::model::{LogEntry, Span};

    const METADATA: Place = Place::Metadata { device: 0 };

    fn entry(place: Place, start: u64, len: u64) -> LogEntry {
        LogEntry {
            span: Span { place, start, len },
            device: 0,
            lba: start * 8,
            time_us: 0,
        }
    }

    fn sequence() -> Sequence {
        let file = File {
            device: 0,
            ino: 12,
            generation: 1,
            size: 1 << 20,
            mtime_ns: 0,
            path: None,
        };
        let span = |place, start, len| Span { place, start, len };
        Sequence {
            devices: vec![Device {
                dev: 1,
                name: String::new(),
                fs: "ext4".to_owned(),
                fs_uuid: [0; 16],
                class: DriveClass::CommandQueuing,
            }],
            files: vec![file.clone(), file],
            mapped: vec![true, false],
            fault_around: Vec::new(),
            helpers: Vec::new(),
            log: vec![
                entry(METADATA, 10, 3),
                entry(Place::Data { file: 0 }, 0, 4),
                entry(METADATA, 20, 1),
                entry(Place::Data { file: 1 }, 9, 1),
            ],
            // The end of the first entry, all of the third, and cached data.
            unread: vec![
                span(METADATA, 12, 1),
                span(METADATA, 20, 1),
                span(Place::Data { file: 0 }, 0, 1),
            ],
            report: ResolveReport {
                missing_metadata: 2,
                ..ResolveReport::default()
            },
        }
    }

    #[test]
    fn inserted_metadata_are_not_among_the_traced_requests() {
        assert_eq!(
            Requirements::of(&sequence(), true),
            Requirements {
                metadata: RequestCounts {
                    requests: 1,
                    kib: 8
                },
                data: RequestCounts {
                    requests: 2,
                    kib: 20
                },
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
        for (number, text) in [
            (0, "0"),
            (954, "954"),
            (1330, "1,330"),
            (1 << 20, "1,048,576"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
