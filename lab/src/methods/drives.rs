//! Waiting until a drive has answered: readahead returns before its reads arrive.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use paralfetch::fs::mounts::MountTable;
use paralfetch::fs::present::probable_device;
use paralfetch::model::Profile;
use rustix::fs::{major, minor};

/// Time between two looks, and so the resolution of [`wait_until_idle`].
const INTERVAL: Duration = Duration::from_micros(200);

/// Looks in a row that must find a drive idle: where a kernel counts a request only once the driver has it, one that is
/// about to be handed over shows at the next look.
const LOOKS: u32 = 3;

/// Looks while others write: then reads that an I/O scheduler holds back cannot be told from these
/// writes, but no scheduler holds reads back for so long.
const LOOKS_AMONG_WRITES: u32 = 25;

/// Waits until no read is in flight on the drives of a profile, and returns when that was first seen,
/// to within 0.2 ms. Writes do not count; reads of others do.
///
/// # Errors
/// When a drive is not mounted or does not tell, or after `limit`.
pub fn wait_until_idle(profile: &Profile, limit: Duration) -> Result<Instant> {
    let mounts = MountTable::read().context("cannot read the mount table")?;
    let mut drives = Vec::new();
    for device in &profile.devices {
        let dev = probable_device(device, &mounts)
            .with_context(|| format!("the file system of {} is not mounted", device.name))?;
        let numbers = format!("{}:{}", major(dev), minor(dev));
        drives.push(PathBuf::from(format!("/sys/dev/block/{numbers}")));
    }
    let begun = Instant::now();
    let mut idle: Option<(Instant, u32)> = None;
    loop {
        let now = Instant::now();
        let (mut reads, mut all) = (0, 0);
        for drive in &drives {
            // Reads that the driver has, and all requests (Documentation/ABI/stable/sysfs-block and
            // Documentation/block/stat.rst in the kernel).
            reads += counter(drive, "inflight", 0)?;
            all += counter(drive, "stat", 8)?;
        }
        if reads == 0 {
            let (since, looks) = idle.map_or((now, 1), |(since, looks)| (since, looks + 1));
            if looks >= LOOKS_AMONG_WRITES || all == 0 && looks >= LOOKS {
                return Ok(since);
            }
            idle = Some((since, looks));
        } else {
            idle = None;
        }
        ensure!(
            begun.elapsed() < limit,
            "the drive was still reading after {} s; is something else using it?",
            limit.as_secs()
        );
        sleep(INTERVAL);
    }
}

/// A number in a drive's attribute, counted from 0.
fn counter(drive: &Path, attribute: &str, field: usize) -> Result<u64> {
    let path = drive.join(attribute);
    let said = || format!("cannot tell what is in flight from {}", path.display());
    let text = std::fs::read_to_string(&path).with_context(said)?;
    let number = text.split_whitespace().nth(field);
    number
        .and_then(|number| number.parse().ok())
        .with_context(said)
}
