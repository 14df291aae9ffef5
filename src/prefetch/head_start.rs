//! The first requests of a prefetch, made on the spot.
//!
//! Starting a thread, reading the mount table and looking whether the launch is warm take longer than the
//! app needs for its first reads. So a schedule that is kept in memory has its beginning prepared: a few
//! requests for metadata, which never wait for an inode, on a device whose node and limits are known. If
//! they are out of date, some blocks are read in vain, and the prefetch thread does the rest as ever.

use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, fstat};

use super::sys::readahead;
use crate::drive::Sysfs;
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::model::Profile;
use crate::model::{PAGE_SIZE, Place};

/// Requests that are prepared: what the drive can work on while the prefetch thread starts.
const MOST: usize = 16;

/// Bytes that they may have together. Under this, nobody asks whether there is memory for them.
const MOST_BYTES: u64 = 1 << 20;

/// How far into the schedule they are looked for, in entries.
const REACH: usize = 128;

/// The prepared requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadStart {
    dev: u64,
    node: PathBuf,
    /// Offset and length in bytes.
    requests: Vec<(u64, u64)>,
}

impl HeadStart {
    /// Prepares the first metadata entries of the schedule, as far as they are on one device. `None`
    /// if there are none, or if the device is not there under the number that it had.
    pub fn prepare(profile: &Profile, mounts: &MountTable, sysfs: &Sysfs) -> Option<Self> {
        let reach = &profile.entries[..profile.entries.len().min(REACH)];
        let mut first = None;
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for entry in reach {
            let Place::Metadata { device } = entry.span.place else {
                continue;
            };
            if *first.get_or_insert(device) != device {
                continue;
            }
            match spans.last_mut() {
                Some((start, len)) if *start + *len == entry.span.start => *len += entry.span.len,
                _ => spans.push((entry.span.start, entry.span.len)),
            }
        }
        let dev = profile.devices.get(usize::from(first?))?.dev;
        let node = blockdev::node(dev, mounts)?;
        let limit = sysfs.readahead_limit(dev)? / PAGE_SIZE * PAGE_SIZE;
        let mut left = MOST_BYTES;
        let mut requests = Vec::new();
        for (start, len) in spans {
            let (offset, bytes) = (start * PAGE_SIZE, (len * PAGE_SIZE).min(limit));
            if requests.len() == MOST || bytes == 0 || bytes > left {
                break;
            }
            left -= bytes;
            requests.push((offset, bytes));
        }
        (!requests.is_empty()).then_some(HeadStart {
            dev,
            node,
            requests,
        })
    }

    /// Makes the requests; says how many. 0 if the device is another one by now.
    pub fn read(&self) -> usize {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(node) = rustix::fs::open(&self.node, flags, Mode::empty()) else {
            return 0;
        };
        let is_same = fstat(&node).is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice
                && stat.st_rdev == self.dev
        });
        if !is_same {
            return 0;
        }
        self.requests
            .iter()
            .take_while(|(offset, bytes)| readahead(node.as_fd(), *offset, *bytes).is_ok())
            .count()
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Never: there is at least one request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
