//! Prefetching a stored profile, and counting what a launch still reads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use paralfetch::drive::MemoryLimits;
use paralfetch::fs::blockdev;
use paralfetch::fs::mounts::MountTable;
use paralfetch::model::{Place, PrefetchReport, Profile};
use paralfetch::prefetch::{Prefetch, PrefetchOptions};
use paralfetch::profile::Store;
use rustix::fs::{major, minor};

use crate::root::Root;
use crate::until;

/// Any memory may be filled, under any pressure.
const ANY_MEMORY: MemoryLimits = MemoryLimits {
    available_percent: 100,
    pressure_percent: 100.0,
};

/// The stored profile of an app for root.
pub fn profile(root: &Root, app: &str) -> Profile {
    let store = Store::open(root.state.path()).unwrap();
    store.find(0, app.as_ref()).unwrap().unwrap()
}

/// Prefetches for a launch of the app, to the end, however short of memory other programs have made the host.
pub fn prefetch(root: &Root, app: &str) -> PrefetchReport {
    prefetched(profile(root, app))
}

/// Whether the report leaves out nothing of the image and its file. Of other drives, a profile may have what a helper has
/// read, and any process of the system that begins in a launch may be one: its files may be gone.
pub fn left_nothing_out(report: &PrefetchReport, root: &Root, app: &str) -> bool {
    let profile = profile(root, app);
    let inside = fs::metadata(root.path()).unwrap().dev();
    let image = fs::metadata(root.image.file()).unwrap();
    let may_be_gone = |place| {
        let (device, ino) = match place {
            Place::Metadata { device } => (device, None),
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                (file.device, Some(file.ino))
            }
        };
        // A drive that was not found may be the image's own.
        let dev = report.devices[usize::from(device)];
        dev.is_some_and(|dev| dev != inside && (dev, ino) != (image.dev(), Some(image.ino())))
    };
    let mut left_out = report.skipped_spans.iter();
    left_out.all(|(span, _)| may_be_gone(span.place))
}

/// Prefetches this profile, to the end.
pub fn prefetched(profile: Profile) -> PrefetchReport {
    let options = PrefetchOptions {
        memory: ANY_MEMORY,
        ..PrefetchOptions::default()
    };
    Prefetch::start(move || Some(profile), options)
        .unwrap()
        .finish_within(std::time::Duration::from_secs(60))
        .unwrap()
}

/// Read requests that the image's device serves while the app runs without us.
pub fn reads_of_launch(root: &Path, cmd: &[&str]) -> u64 {
    reads_on(root, root, cmd)
}

/// Read requests that the device of the file system at `disk` serves while the app runs in the directory `root`.
pub fn reads_on(disk: &Path, root: &Path, cmd: &[&str]) -> u64 {
    // What was read ahead may still be on its way, and counts when it arrives.
    until("the device is idle", || in_flight(disk) == 0);
    let before = device_reads(disk);
    let status = Command::new("chroot")
        .arg(root)
        .args(cmd)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    device_reads(disk) - before
}

/// Read requests that the device of this file system has completed so far.
pub fn device_reads(root: &Path) -> u64 {
    statistic(root, 0)
}

/// Requests that the device is working on.
fn in_flight(root: &Path) -> u64 {
    statistic(root, 8)
}

/// A field of the device's statistics (Documentation/block/stat.rst in the kernel).
fn statistic(root: &Path, field: usize) -> u64 {
    let dev = fs::metadata(root).unwrap().dev();
    let dev = blockdev::below(dev, &MountTable::read().unwrap());
    let stat = format!("/sys/dev/block/{}:{}/stat", major(dev), minor(dev));
    let text = fs::read_to_string(stat).unwrap();
    text.split_whitespace().nth(field).unwrap().parse().unwrap()
}
