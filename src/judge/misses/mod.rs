//! The misses of a prefetched launch, listed with their reasons.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::known_files::KnownFiles;
use crate::fs::ext4::BlockKind;
use crate::learn::ReadCounter;
use crate::model::InodeId;
use crate::model::{Access, By, PAGE_SIZE, PrefetchReport, Profile, Source};

/// How far the kernel's readahead reaches around a page that was missed, in 4 KiB pages: 128 KiB of a
/// file at the usual setting, and as much of ext4's inode tables (`inode_readahead_blks`).
const AROUND_PAGES: u64 = 32;

/// Why the launch tree had to read something itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissReason {
    /// The profile does not have it.
    NotInProfile,
    /// The profile has it, but the app came before the prefetch thread.
    Late,
    /// The profile has it, or had it, but the file was replaced, truncated or extended since.
    Stale,
    /// The profile has it, but the prefetch skipped it: it was refused, took the launch for a warm one, or
    /// could not use the device.
    Skipped,
    /// It belongs to a file that this launch writes, or that was removed since.
    Written,
    /// The kernel's readahead brought it in around a page that was missed or faulted on.
    ReadAround,
    /// A process outside of the launch tree read it, maybe on the app's behalf; not a miss of the tree.
    Other,
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            MissReason::NotInProfile => "not-in-profile",
            MissReason::Late => "late",
            MissReason::Stale => "stale",
            MissReason::Skipped => "skipped",
            MissReason::Written => "written",
            MissReason::ReadAround => "read-around",
            MissReason::Other => "other",
        })
    }
}

/// What a request read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MissedPlace {
    /// Data of a regular file.
    Data {
        /// Inode number.
        inode: u64,
        /// Path from the file system's own root (arbitrary bytes), where it is known.
        #[serde(serialize_with = "as_text")]
        path: Option<Vec<u8>>,
    },
    /// File-system metadata.
    Metadata {
        /// Kind of the first block.
        block: BlockKind,
    },
}

/// One read request that prefetching should have spared the launch tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// Time since the launch's execve, in microseconds.
    pub time_us: u64,
    /// Why it was missed.
    pub reason: MissReason,
    /// Device of the file system (`st_dev`).
    pub dev: u64,
    /// What was read: `kind` and the members of that kind stand in its place.
    #[serde(flatten)]
    pub place: MissedPlace,
    /// First 4 KiB page: of the file, or of the device for metadata.
    pub start: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
}

/// A number of requests and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCount {
    /// Read requests.
    pub requests: u64,
    /// 4 KiB pages.
    pub pages: u64,
}

impl RequestCount {
    fn add(&mut self, pages: u64) {
        self.requests += 1;
        self.pages += pages;
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE_SIZE
    }
}

/// All misses of one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Misses of the launch tree, in time order.
    pub misses: Vec<Miss>,
    /// Requests of processes outside of the launch tree while it was being recorded.
    pub others: Vec<Miss>,
    /// The launch tree's requests.
    pub total: RequestCount,
    /// The launch tree's requests by reason.
    pub by_reason: BTreeMap<MissReason, RequestCount>,
    /// Requests of the launch sequence that the profile was made from.
    pub launch_requests: u64,
    /// Pages added to the caches for files that the launch itself created: nothing was read.
    pub made_pages: u64,
}

impl Misses {
    /// Missed requests against requests of the launch sequence; 0 for an empty sequence.
    pub fn ratio(&self) -> f64 {
        if self.launch_requests == 0 {
            return 0.0;
        }
        self.total.requests as f64 / self.launch_requests as f64
    }
}

/// What the launch did to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageFate {
    /// The file has not changed.
    #[default]
    Unchanged,
    /// The file was written or changed otherwise in the launch.
    Written,
    /// The file was created in the launch.
    Made,
    /// The file is gone, or cannot be examined.
    Gone,
}

/// A regular file as it is after the launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNow {
    /// Path from the file system's own root, where it is known.
    pub path: Option<Vec<u8>>,
    /// What the launch did to it.
    pub fate: PageFate,
}

impl FileNow {
    /// Whether its pages were, or may have been, cached in order to be written.
    pub(super) fn is_written(&self) -> bool {
        self.fate != PageFate::Unchanged
    }
}

/// Answers about the system.
pub trait FileLookUp {
    /// Whether the device's file system lies on a drive, so that additions to its caches are reads.
    fn on_drive(&mut self, dev: u64) -> bool;

    /// Whether a launch that is learned brings what it reads of this file, or of the device's metadata.
    fn can_be_learned(&mut self, key: InodeId) -> bool;

    /// The file as it is now. Asked once for each.
    fn file(&mut self, key: InodeId) -> FileNow;

    /// Kind of the metadata block in this 4 KiB page of the device.
    fn block(&mut self, dev: u64, page: u64) -> BlockKind;
}

/// A recorded launch and the prefetch that went with it.
#[derive(Clone, Copy, Debug)]
pub struct JudgedLaunch<'a> {
    /// Time of its execve, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// What was traced from then to its end, in time order.
    pub accesses: &'a [Access],
    /// What was prefetched.
    pub profile: &'a Profile,
    /// What the prefetch did.
    pub prefetch: &'a PrefetchReport,
}

/// Lists the misses of a launch: additions to the caches by the launch tree, consecutive ones joined
/// into requests. A request's reason is that of the page which the app asked for, as far as that can
/// be told: the page that was faulted on, or else the first.
pub fn misses(launch: &JudgedLaunch<'_>, system: &mut dyn FileLookUp) -> Misses {
    let mut judge = Judge {
        known: KnownFiles::new(launch.profile, launch.prefetch),
        system,
        drives: HashMap::new(),
        files: HashMap::new(),
        last_table_miss: None,
        found: Misses {
            launch_requests: launch.profile.log_entries.into(),
            ..Misses::default()
        },
    };
    for request in requests(launch) {
        judge.request(&request);
    }
    judge.found
}

/// Additions that follow each other, and what was faulted on before them.
struct MissRequest {
    time_us: u64,
    by: By,
    key: InodeId,
    pages: Range<u64>,
    /// The last pages of the file that the tree had faulted on.
    faults: Faults,
}

/// The last faults on a file, the latest first. Several, since the tree's processes take turns: while the
/// kernel reads around the fault of one, others may fault on cached pages.
type Faults = [Option<u64>; 16];

/// The requests of the launch tree and of others, each in time order.
fn requests(launch: &JudgedLaunch<'_>) -> Vec<MissRequest> {
    let mut faults: HashMap<InodeId, Faults> = HashMap::new();
    let mut streams = [By::Tree, By::Other].map(|by| (ReadCounter::joined(by), None));
    let mut requests: Vec<MissRequest> = Vec::new();
    for access in launch.accesses {
        let key = access.inode();
        if access.by == By::Tree && access.source == Source::Fault {
            let faults = faults.entry(key).or_default();
            faults.rotate_right(1);
            faults[0] = Some(access.start);
        }
        if access.source != Source::Added {
            continue;
        }
        let (stream, by) = match access.by {
            By::Tree => (&mut streams[0], By::Tree),
            By::Other | By::Helper | By::Daemon => (&mut streams[1], By::Other),
            By::Own => continue,
        };
        let end = access.start.saturating_add(access.len);
        let begins = stream.0.is_read(&Access { by, ..*access });
        match stream.1 {
            Some(last) if !begins => {
                let last: &mut MissRequest = &mut requests[last];
                last.pages.end = end;
            }
            _ => {
                stream.1 = Some(requests.len());
                requests.push(MissRequest {
                    time_us: access.time_ns.saturating_sub(launch.start_ns) / 1000,
                    by,
                    key,
                    pages: access.start..end,
                    faults: faults.get(&key).copied().unwrap_or_default(),
                });
            }
        }
    }
    requests
}

struct Judge<'a> {
    known: KnownFiles<'a>,
    system: &'a mut dyn FileLookUp,
    drives: HashMap<u64, bool>,
    files: HashMap<InodeId, FileNow>,
    /// Device and page of the inode-table block that the tree missed last, as long as only the readahead
    /// around it has followed.
    last_table_miss: Option<(u64, u64)>,
    found: Misses,
}

impl Judge<'_> {
    fn request(&mut self, request: &MissRequest) {
        let (key, system) = (request.key, &mut *self.system);
        let on_drive = self
            .drives
            .entry(key.dev)
            .or_insert_with(|| system.on_drive(key.dev));
        if !*on_drive {
            return;
        }
        let pages = request.pages.end - request.pages.start;
        let (place, reason) = if key.ino == 0 {
            let block = self.system.block(key.dev, request.pages.start);
            let reason = self.metadata_reason(request, block);
            (MissedPlace::Metadata { block }, reason)
        } else {
            let system = &mut *self.system;
            let now = self.files.entry(key).or_insert_with(|| system.file(key));
            if now.fate == PageFate::Made {
                self.found.made_pages += pages;
                return;
            }
            let place = MissedPlace::Data {
                inode: key.ino,
                path: now.path.clone(),
            };
            let reason = match asked_for(request) {
                Some(page) => self.known.data(key, page, now),
                None => MissReason::ReadAround,
            };
            (place, reason)
        };
        let mut miss = Miss {
            time_us: request.time_us,
            reason,
            dev: key.dev,
            place,
            start: request.pages.start,
            pages,
        };
        if request.by == By::Tree {
            self.found.total.add(pages);
            self.found.by_reason.entry(reason).or_default().add(pages);
            self.found.misses.push(miss);
        } else {
            miss.reason = MissReason::Other;
            self.found.others.push(miss);
        }
    }

    fn metadata_reason(&mut self, request: &MissRequest, block: BlockKind) -> MissReason {
        let (dev, page) = (request.key.dev, request.pages.start);
        if request.by != By::Tree {
            return MissReason::Other;
        }
        // ext4 first adds the block with the inode, then those of its aligned window that are absent,
        // and one block more (__ext4_get_inode_loc).
        let is_table = block == BlockKind::InodeTable;
        if let Some((missed_dev, missed)) = self.last_table_miss {
            let window = missed - missed % AROUND_PAGES;
            let around = (window..=window + AROUND_PAGES).contains(&page);
            if is_table && missed_dev == dev && around {
                return MissReason::ReadAround;
            }
        }
        self.last_table_miss = is_table.then_some((dev, page));
        self.known.metadata(dev, page)
    }
}

/// The page of a data request that the app asked for; `None` if the request is only around a page
/// that was faulted on.
fn asked_for(request: &MissRequest) -> Option<u64> {
    let pages = &request.pages;
    let faults = || request.faults.iter().flatten().copied();
    let is_near = |page: u64| {
        page < pages.start && pages.start - page <= AROUND_PAGES
            || page >= pages.end && page - pages.end < AROUND_PAGES
    };
    match faults().find(|page| pages.contains(page)) {
        Some(page) => Some(page),
        None if faults().any(is_near) => None,
        None => Some(pages.start),
    }
}

fn as_text<S: serde::Serializer>(path: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(String::from_utf8_lossy).serialize(to)
}
