//! Detects warm launches, of which nothing needs to be prefetched.

use std::os::fd::AsFd;

use super::devices::OpenDevice;
use super::files::Files;
use super::sys;
use crate::model::{PAGE_SIZE, Place, PrefetchEntry, Profile, Skipped, Span};

/// Sampled entries of each kind on each device.
const SAMPLES: usize = 48;

/// Samples of a warm launch that may be missing from the cache: apps rewrite some of their files in each
/// launch.
const MAX_MISSES: usize = 3;

/// Whether the launch is warm: nearly all samples of the schedule are cached. The first few misses end
/// the search, so that a cold launch pays for these only. Each device has samples of its own: running programs may
/// keep most of the schedule in memory, of the system's device, while the app's own files on another are cold.
///
/// Metadata is sampled first: looking it up in the buffer cache never waits for the drive, whereas opening
/// a file does if its inode is not cached. Entries whose file or device is gone do not count. Nor is it known of a launch
/// whose files another program keeps from being opened. Images do not count either: once the pages inside are cached, nobody
/// needs their blocks, which leave the cache first.
pub fn is_warm(
    profile: &Profile,
    devices: &[Result<OpenDevice, Skipped>],
    files: &Files<'_>,
) -> bool {
    let kinds = judged(profile, devices);
    let of_devices = || kinds.iter().flatten();
    let (mut hits, mut misses) = (0, 0);
    // Fewer misses are allowed in a small schedule.
    let allowed = MAX_MISSES.min(of_devices().map(Vec::len).sum::<usize>() / 16);
    for span in of_devices().flat_map(|spans| spread(spans)) {
        match is_cached(span, devices, files) {
            Some(true) => hits += 1,
            Some(false) => misses += 1,
            None => {}
        }
        if misses > allowed || files.delay().is_some() {
            return false;
        }
    }
    hits > 0
}

/// The metadata and then the data of the schedule by which a launch is judged, each by device: all but blocks of images.
fn judged<'a>(
    profile: &'a Profile,
    devices: &[Result<OpenDevice, Skipped>],
) -> [Vec<Vec<&'a Span>>; 2] {
    let [mut metadata, mut data] = [(); 2].map(|()| vec![Vec::new(); devices.len()]);
    let opened = devices.iter().flatten();
    let images: Vec<_> = opened.filter_map(|device| device.image).collect();
    for PrefetchEntry { span, .. } in &profile.entries {
        match span.place {
            Place::Metadata { device } => metadata[usize::from(device)].push(span),
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                let device = usize::from(file.device);
                let is_image = |open: &OpenDevice| images.contains(&(open.dev, file.ino));
                if !devices[device].as_ref().is_ok_and(is_image) {
                    data[device].push(span);
                }
            }
        }
    }
    [metadata, data]
}

/// Up to [`SAMPLES`] of the spans, evenly spread and with the last one, which is the least likely to be shared
/// with a running program.
fn spread<'a>(spans: &'a [&Span]) -> impl Iterator<Item = &'a Span> {
    let count = spans.len().min(SAMPLES);
    (1..=count).map(move |i| spans[i * spans.len() / count - 1])
}

/// `None` if unknown.
fn is_cached(
    span: &Span,
    devices: &[Result<OpenDevice, Skipped>],
    files: &Files<'_>,
) -> Option<bool> {
    let (offset, len) = (span.start * PAGE_SIZE, span.bytes());
    let cached = match span.place {
        Place::Metadata { device } => {
            let node = devices[usize::from(device)].as_ref().ok()?.node.as_ref()?;
            sys::is_cached(node.as_fd(), offset, len)
        }
        Place::Data { file } => {
            let device = devices[files.device(file)].as_ref().ok()?;
            let file = files.get(file, device);
            let (fd, pages) = file.opened().ok()?;
            if span.end() > pages {
                return None;
            }
            sys::is_cached(fd, offset, len)
        }
    };
    // Without cachestat(2) (before Linux 6.5) there is no cheap way to know.
    cached.ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::fs::mounts::MountTable;
    use crate::model::File;
    use crate::profile::generate::sample;

    #[test]
    fn a_launch_is_judged_by_all_but_its_images() {
        let proc = std::fs::metadata("/proc").unwrap().dev();
        let profile = sample("/usr/bin/app");
        let counts = |image| {
            let device = OpenDevice {
                dev: 7,
                below: 0,
                mount: MountTable::read().unwrap().open_root(proc).unwrap(),
                node: None,
                image,
                is_outdated: false,
                readahead_limit: 0,
            };
            let devices = [Ok(device)];
            let [metadata, data] = judged(&profile, &devices);
            (metadata[0].len(), data[0].len())
        };
        let (metadata, data) = counts(None);
        assert_eq!(metadata + data, profile.entries.len());
        assert!(data > 0);
        let ino = profile.files[0].ino;
        assert_eq!(counts(Some((8, ino))), (metadata, data));
        assert_eq!(counts(Some((7, ino))), (metadata, 0));
    }

    #[test]
    fn each_device_is_judged_by_its_own_part() {
        let mut profile = sample("/usr/bin/app");
        let other = profile.files[0].clone();
        profile.files.push(File { device: 1, ..other });
        let [metadata, data] = judged(
            &profile,
            &[Err(Skipped::DeviceGone), Err(Skipped::DeviceGone)],
        );
        let (of_first, entries) = (metadata[0].len() + data[0].len(), profile.entries.len());
        assert_eq!((of_first, metadata[1].len() + data[1].len()), (entries, 0));
        for entry in &mut profile.entries {
            entry.span.place = Place::Data { file: 1 };
        }
        let [metadata, data] = judged(
            &profile,
            &[Err(Skipped::DeviceGone), Err(Skipped::DeviceGone)],
        );
        assert_eq!([data[0].len(), data[1].len()], [0, entries]);
        assert!(metadata.iter().all(Vec::is_empty));
    }

    #[test]
    fn samples_are_spread_and_end_with_the_last() {
        let place = Place::Metadata { device: 0 };
        let spans: Vec<Span> = (0..100)
            .map(|start| Span {
                place,
                start,
                len: 1,
            })
            .collect();
        let all: Vec<&Span> = spans.iter().collect();
        let starts: Vec<u64> = spread(&all).map(|span| span.start).collect();
        assert_eq!(starts.len(), SAMPLES);
        assert_eq!(starts.last(), Some(&99));
        assert!(starts.is_sorted());
        assert_eq!(spread(&all[..3]).count(), 3);
        assert_eq!(spread(&[]).count(), 0);
    }
}
