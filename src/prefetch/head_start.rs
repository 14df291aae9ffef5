//! The first requests of a prefetch, prepared in advance.
//!
//! Starting the thread, reading the mount table and checking whether the launch is warm take longer than
//! the app takes to its first reads. So the service prepares the start of each schedule that it keeps in
//! memory: a few metadata requests, which wait for no inode, on a device whose node and limits are known.
//! If they are out of date, a few blocks are read in vain; the prefetch thread reads the whole schedule in
//! any case.

use std::os::fd::AsFd;
use std::path::PathBuf;

use super::sys::readahead;
use crate::drive::Sysfs;
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::fs::present::{MountedFs, Presence};
use crate::fs::safe_open;
use crate::model::{PAGE_SIZE, Place, Profile};

/// Most requests: they keep the drive busy while the prefetch thread starts.
const MAX_REQUESTS: usize = 16;

/// Most bytes of all requests together: so few that available memory need not be checked.
const MAX_BYTES: u64 = 1 << 20;

/// Entries at the start of the schedule among which metadata is looked for.
const MAX_ENTRIES: usize = 128;

/// The prepared requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadStart {
    dev: u64,
    node: PathBuf,
    /// What the node's device held.
    mounted: MountedFs,
    /// Offset and length in bytes.
    requests: Vec<(u64, u64)>,
}

impl HeadStart {
    /// Prepares the first metadata entries of the schedule that are on the same device. `None` if there
    /// is no such entry, or its device is not there. `present` is where the profile's devices are.
    pub fn prepare(
        profile: &Profile,
        present: &[Presence],
        mounts: &MountTable,
        sysfs: &Sysfs,
    ) -> Option<Self> {
        let mut first = None;
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for entry in profile.entries.iter().take(MAX_ENTRIES) {
            let Place::Metadata { device } = entry.span.place else {
                continue;
            };
            match spans.last_mut() {
                _ if *first.get_or_insert(device) != device => {}
                Some((start, len)) if *start + *len == entry.span.start => *len += entry.span.len,
                _ => spans.push((entry.span.start, entry.span.len)),
            }
        }
        let device = usize::from(first?);
        let dev = present.get(device)?.dev()?;
        let mounted = MountedFs::new(profile.devices.get(device)?, dev, mounts)?;
        let node = blockdev::node(dev, mounts)?;
        let limit = sysfs.readahead_limit(dev)? / PAGE_SIZE * PAGE_SIZE;
        let mut left = MAX_BYTES;
        let mut requests = Vec::new();
        for (start, len) in spans {
            let (offset, bytes) = (start * PAGE_SIZE, (len * PAGE_SIZE).min(limit));
            if requests.len() == MAX_REQUESTS || bytes == 0 || bytes > left {
                break;
            }
            left -= bytes;
            requests.push((offset, bytes));
        }
        (!requests.is_empty()).then_some(HeadStart {
            dev,
            node,
            mounted,
            requests,
        })
    }

    /// Makes the requests, unless the node is no longer that of the device, or another file system lies on it.
    pub fn read(&self) {
        if !self.mounted.is_there() {
            return;
        }
        if let Ok(Some(node)) = safe_open::block_device(&self.node, self.dev) {
            let mut requests = self.requests.iter();
            // What cannot be read ahead here, the prefetch thread reports.
            requests.all(|(offset, bytes)| readahead(node.as_fd(), *offset, *bytes).is_ok());
        }
    }
}
