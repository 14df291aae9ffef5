//! Noticing early that a launch is warm.

use std::os::fd::AsFd;

use super::devices::OpenDevice;
use super::files::Files;
use super::sys::cached_pages;
use crate::profile::Profile;
use crate::schedule::{PAGE_SIZE, Place, PrefetchEntry, Span};

/// Entries that are looked at, of each kind.
const SAMPLES: usize = 16;

/// Whether everything sampled from the schedule is cached already. The first entry that is not ends
/// the search, so that a cold launch pays for one look.
///
/// Metadata comes first: asking the buffer cache never waits for the drive, whereas opening a file
/// does when its inode is not cached, which then is known.
pub fn all_cached(
    profile: &Profile,
    devices: &[Option<OpenDevice>],
    files: &mut Files<'_>,
) -> bool {
    let (metadata, data): (Vec<&PrefetchEntry>, Vec<&PrefetchEntry>) = profile
        .entries
        .iter()
        .partition(|entry| entry.span.place.is_metadata());
    spread(&metadata)
        .chain(spread(&data))
        .all(|entry| is_cached(&entry.span, devices, files))
}

/// Up to [`SAMPLES`] entries, evenly spread, the last one among them: it is the least likely to be
/// shared with a running program.
fn spread<'a>(entries: &'a [&PrefetchEntry]) -> impl Iterator<Item = &'a PrefetchEntry> {
    let count = entries.len().min(SAMPLES);
    (1..=count).map(move |i| entries[i * entries.len() / count - 1])
}

/// True also for what cannot be prefetched anyway: it is no reason to go on.
fn is_cached(span: &Span, devices: &[Option<OpenDevice>], files: &mut Files<'_>) -> bool {
    let (offset, len) = (span.start * PAGE_SIZE, span.bytes());
    let cached = match span.place {
        Place::Metadata { device } => {
            let Some(node) = devices[usize::from(device)]
                .as_ref()
                .and_then(|d| d.node.as_ref())
            else {
                return true;
            };
            cached_pages(node.as_fd(), offset, len)
        }
        Place::Data { file } => {
            let Some(device) = &devices[files.device(file)] else {
                return true;
            };
            let Ok((fd, pages)) = files.get(file, device) else {
                return true;
            };
            if span.end() > pages {
                return true;
            }
            cached_pages(fd, offset, len)
        }
    };
    let kernel_pages = len.div_ceil(rustix::param::page_size() as u64);
    // Without cachestat(2) (before Linux 6.5) there is no cheap way to know: prefetch.
    cached.is_ok_and(|cached| cached >= kernel_pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_and_end_with_the_last() {
        let entries: Vec<PrefetchEntry> = (0..100)
            .map(|start| PrefetchEntry {
                span: Span {
                    place: Place::Metadata { device: 0 },
                    start,
                    len: 1,
                },
                time_us: 0,
            })
            .collect();
        let all: Vec<&PrefetchEntry> = entries.iter().collect();
        let starts: Vec<u64> = spread(&all).map(|entry| entry.span.start).collect();
        assert_eq!(starts.len(), SAMPLES);
        assert_eq!(starts.last(), Some(&99));
        assert!(starts.is_sorted());
        assert_eq!(spread(&all[..3]).count(), 3);
        assert_eq!(spread(&[]).count(), 0);
    }
}
