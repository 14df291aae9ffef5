//! The orders of the prefetchers for disks: by inode and offset, by disk position.

use paralfetch::model::Profile;
use paralfetch::model::{LogEntry, Place, PrefetchEntry};

/// File pages alone, by device, inode number and offset, contiguous pages joined (GSoC Prefetch).
pub fn by_inode(profile: &Profile, log: &[LogEntry]) -> Vec<PrefetchEntry> {
    let mut data: Vec<((u16, u64), &LogEntry)> = log
        .iter()
        .filter_map(|entry| match entry.span.place {
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                Some(((file.device, file.ino), entry))
            }
            Place::Metadata { .. } => None,
        })
        .collect();
    data.sort_by_key(|&(inode, entry)| (inode, entry.span.start));
    joined(data.into_iter().map(|(_, entry)| entry), |_, _| true)
}

/// Data and metadata by device and disk position, contiguous blocks joined (sorted prefetch).
pub fn by_position(log: &[LogEntry]) -> Vec<PrefetchEntry> {
    let mut all: Vec<&LogEntry> = log.iter().collect();
    all.sort_by_key(|entry| (entry.device, entry.lba));
    joined(all.into_iter(), |before, after| {
        before.lba_end() == after.lba
    })
}

/// In the given order, with neighbours joined that are contiguous in their place and for which
/// `also` holds.
fn joined<'a>(
    entries: impl Iterator<Item = &'a LogEntry>,
    also: impl Fn(&LogEntry, &LogEntry) -> bool,
) -> Vec<PrefetchEntry> {
    let mut joined: Vec<LogEntry> = Vec::new();
    for entry in entries {
        match joined.last_mut() {
            Some(last)
                if last.span.place == entry.span.place
                    && last.span.end() == entry.span.start
                    && also(last, entry) =>
            {
                last.span.len += entry.span.len;
                last.time_us = last.time_us.min(entry.time_us);
            }
            _ => joined.push(*entry),
        }
    }
    one_by_one(&joined)
}

/// A prefetch entry for each log entry, in the same order.
pub fn one_by_one(log: &[LogEntry]) -> Vec<PrefetchEntry> {
    log.iter()
        .map(|entry| PrefetchEntry {
            span: entry.span,
            time_us: entry.time_us,
        })
        .collect()
}
