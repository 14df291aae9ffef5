//! The trace's accesses, grouped by file and, for metadata, by device.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

use super::dependencies::Dependencies;
use super::report::{FileCount, LeftOut, ResolveReport};
use crate::fs::fiemap::FileExtent;
use crate::fs::support::Support;
use crate::model::ranges::{RangeSet, bridge};
use crate::model::{Access, By, Device, InodeId, PAGE_SIZE, PrefetchEntry, Source};

/// Most pages of a file or device: what the kernel's signed 64-bit file positions can address.
const MAX_PAGES: u64 = 1 << 51;

/// Ranges closer to each other than this are asked about together: a system call costs as much as the answers
/// for so many pages.
const BRIDGE_PAGES: u64 = 512;

/// From how many pages on a file may be one of data: 4 MiB. Configuration and small caches, which every launch
/// reads as a whole, are smaller.
const DATA_PAGES: u64 = 1024;

/// A file, or the metadata of a device, with all the accesses to it.
#[derive(Debug, Default)]
pub struct AccessedFile {
    /// Which file it is; the inode number is 0 for metadata.
    pub key: InodeId,
    /// Pages that the launch tree accessed.
    tree: RangeSet,
    /// Pages that it certainly touched itself.
    pub touched: RangeSet,
    /// Pages that helpers accessed: processes outside of the tree that were started during the launch, or older
    /// ones of the app's user.
    pub helpers: RangeSet,
    /// Pages that any tasks outside of the tree accessed, helpers included.
    other: RangeSet,
    /// Pages that earlier launches needed.
    pub earlier: RangeSet,
    /// Pages that any task added to the cache while tracing.
    pub added: RangeSet,
    /// The added pages folio by folio: ends by starts. If a folio was evicted and added again, the later one counts.
    folios: BTreeMap<u64, u64>,
    /// Faultaround windows of the launch tree and of helpers.
    windows: Vec<Range<u64>>,
    /// Whether the launch tree faulted on it.
    pub mapped: bool,
    /// How the launch tree went through it.
    passage: Passage,
    /// Device of the file or metadata; `None` if that is left out.
    pub device: Option<Rc<Device>>,
    /// What the system says of the file.
    pub facts: FileFacts,
}

/// How the launch tree went through a file.
#[derive(Clone, Copy, Debug, Default)]
struct Passage {
    /// Accesses, and those that began before the one before them.
    accesses: u64,
    backwards: u64,
    /// Pages of all accesses. The kernel reports each page once.
    pages: u64,
    /// The first page of the last access.
    last_start: u64,
    /// From the first page to behind the last one.
    start: u64,
    end: u64,
}

impl Passage {
    fn note(&mut self, pages: &Range<u64>) {
        if self.accesses == 0 {
            self.start = pages.start;
        }
        self.backwards += u64::from(pages.start < self.last_start);
        self.last_start = pages.start;
        self.accesses += 1;
        self.pages = self.pages.saturating_add(pages.end - pages.start);
        self.start = self.start.min(pages.start);
        self.end = self.end.max(pages.end);
    }

    /// Whether it led from one end of a long stretch to the other, in a file that ends at page `end`, and left out
    /// next to nothing.
    fn is_of_data(&self, end: u64) -> bool {
        let few_of = |number: u64| number / 16;
        let stretch = self.end.min(end).saturating_sub(self.start);
        stretch >= DATA_PAGES
            && self.backwards <= few_of(self.accesses)
            && stretch.saturating_sub(self.pages) <= few_of(stretch)
    }
}

/// A regular file as it is after the launch.
#[derive(Clone, Debug, Default)]
pub struct FileFacts {
    /// Size, in bytes.
    pub size: u64,
    /// Time of last modification, in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Whether root owns it, as what is installed for all users.
    pub is_roots: bool,
    /// Path from the file system's own root, where it is known.
    pub path: Option<Vec<u8>>,
    /// The pages asked about that are in the page cache.
    pub cached: RangeSet,
    /// Extents of the pages asked about, in file order; they do not overlap. `None` if the file system is not asked where
    /// its files lie.
    pub extents: Option<Vec<FileExtent>>,
    /// The metadata that the data depend on; none if they cannot be found.
    pub dependencies: Dependencies,
}

/// Why a file or a device's metadata is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFacts {
    /// The device is not mounted here, or not to be opened.
    UnknownDevice,
    /// The file system, of this type (such as `tmpfs`) and kind, cannot be prefetched.
    FileSystem(String, Support),
    /// The block device cannot be read, and with it the metadata.
    Metadata,
    /// The file is deleted, replaced, no regular file, or not to be opened.
    Gone,
    /// The file was written or changed since the launch began.
    Written,
}

/// Answers what is known of a file and its device; for metadata (inode number 0), the device alone. The first
/// ranges are to be located on the disk, the second in the page cache. Both are in order, in 4 KiB pages, and may
/// reach past the file's end.
pub type Probe<'a> = dyn FnMut(InodeId, &[Range<u64>], &[Range<u64>]) -> Result<(Rc<Device>, FileFacts), NoFacts>
    + 'a;

/// The pages of an access, bounded so that positions in bytes and sectors cannot overflow.
pub fn pages(access: &Access) -> Range<u64> {
    let end = access.start.saturating_add(access.len).min(MAX_PAGES);
    access.start.min(end)..end
}

/// The accessed files, in the order of their first access.
#[derive(Default)]
pub struct FileGroups {
    index: HashMap<InodeId, usize>,
    /// The files.
    pub files: Vec<AccessedFile>,
}

impl FileGroups {
    /// Groups the accesses; returns, for each of them, the index of its file. `touches` is as in
    /// [`super::Observed`].
    pub fn add(&mut self, accesses: &[Access], touches: bool) -> Vec<usize> {
        let add = |access: &Access| {
            let number = self.number(access.inode());
            self.files[number].note(access, touches);
            number
        };
        accesses.iter().map(add).collect()
    }

    /// Adds what earlier launches needed; returns, for each entry, the index of its file.
    pub fn add_earlier(&mut self, entries: &[(InodeId, PrefetchEntry)]) -> Vec<usize> {
        let add = |(key, entry): &(InodeId, PrefetchEntry)| {
            let number = self.number(*key);
            self.files[number].earlier.insert(entry.span.pages());
            number
        };
        entries.iter().map(add).collect()
    }

    fn number(&mut self, key: InodeId) -> usize {
        *self.index.entry(key).or_insert_with(|| {
            self.files.push(AccessedFile {
                key,
                ..AccessedFile::default()
            });
            self.files.len() - 1
        })
    }
}

impl AccessedFile {
    /// Whether helpers accessed it, and the launch tree neither did now nor in earlier launches.
    pub fn is_of_helpers(&self) -> bool {
        self.tree.len() == 0 && self.earlier.len() == 0 && self.helpers.len() > 0
    }

    /// Whether the launch tree or helpers accessed it.
    pub fn is_used(&self) -> bool {
        self.tree.len() > 0 || self.helpers.len() > 0
    }

    /// Whether it seems to be data that the launch was asked to open, such as a document or a film: a file that is
    /// not root's, and of which a long stretch was read from one end to the other. An app reads its own databases and
    /// libraries in part. Some read large caches as a whole, so that this is not certain before another launch.
    pub fn is_data(&self) -> bool {
        let end = self.facts.size.div_ceil(PAGE_SIZE);
        self.is_file() && !self.facts.is_roots && self.passage.is_of_data(end)
    }

    /// Whether it is a file, not a device's metadata.
    pub fn is_file(&self) -> bool {
        self.key.ino != 0
    }

    fn note(&mut self, access: &Access, touches: bool) {
        let range = pages(access);
        if range.is_empty() {
            return;
        }
        let is_added = access.source == Source::Added;
        let is_window = access.source == Source::Window;
        if is_added {
            self.added.insert(range.clone());
            self.folios.insert(range.start, range.end);
        }
        if is_window && matches!(access.by, By::Tree | By::Helper) {
            self.windows.push(range.clone());
        }
        if access.by != By::Tree {
            if matches!(access.by, By::Helper | By::Daemon) {
                self.helpers.insert(range.clone());
            }
            self.other.insert(range);
            return;
        }
        self.mapped |= access.is_fault();
        // Readahead says nothing about the app where uses are seen.
        if !(touches && is_added) {
            self.passage.note(&range);
        }
        let is_alone = range.end - range.start == 1;
        // In live learning, additions may be readahead.
        if (!is_window || is_alone) && !(touches && is_added) {
            self.touched.insert(range.clone());
        }
        self.tree.insert(range);
    }

    /// The large folio that was added and contains the page, if there is one. A fault maps all of it.
    pub fn added_folio(&self, page: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.folios.range(..=page).next_back()?;
        (page < end && end - start > 1).then_some(start..end)
    }

    /// Asks the system about it, once, and counts it in the report if it is left out, unless helpers or earlier
    /// launches alone accessed it.
    pub fn decide(&mut self, probe: &mut Probe<'_>, report: &mut ResolveReport) {
        let (is_file, other) = (self.is_file(), self.other.len());
        if is_file {
            report.other.add(other > 0, other);
        } else {
            report.other_metadata_pages += other;
        }
        let pages = self.tree.len();
        let mut of_others = ResolveReport::default();
        let report = match (pages, self.helpers.len() + self.earlier.len()) {
            (0, 0) => return,
            (0, _) => &mut of_others,
            _ => report,
        };
        let ranges = self.tree.ranges().chain(self.helpers.ranges());
        let ranges = ranges.chain(self.earlier.ranges());
        let wanted = bridge(ranges.collect(), BRIDGE_PAGES);
        let windows = bridge(std::mem::take(&mut self.windows), BRIDGE_PAGES);
        match probe(self.key, &wanted, &windows) {
            Ok((device, facts)) => (self.device, self.facts) = (Some(device), facts),
            Err(NoFacts::UnknownDevice) => report.unknown_device.add(is_file, pages),
            Err(NoFacts::FileSystem(fs_type, support)) => {
                let count = FileCount::default();
                let left_out = report.left_out.entry(fs_type);
                let left_out = left_out.or_insert(LeftOut { support, count });
                left_out.count.add(is_file, pages);
            }
            Err(NoFacts::Metadata) => report.dropped_metadata += pages,
            Err(NoFacts::Gone) => report.gone.add(true, pages),
            Err(NoFacts::Written) => report.written.add(true, pages),
        }
    }
}
