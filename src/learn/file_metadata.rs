//! The metadata of a profile whose files were replaced: those of the new inodes join it, and those that only the
//! old ones needed leave it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::SystemTime;

use super::lookups::FilePaths;
use super::probe::LiveProbe;
use super::sequence::block_pages;
use crate::fs::ext4::{BlockUse, Ext4};
use crate::fs::mounts::{MountTable, OpenMount};
use crate::model::{DriveClass, File, PAGE_SIZE, Place, PrefetchEntry, Profile, Span};

/// Pages of metadata, each with the index of its device.
type Pages = BTreeSet<(u16, u64)>;

/// What has become of the metadata of a profile.
#[derive(Debug, Default)]
pub struct FileMetadata {
    /// For each new file, what opening and reading it needs, in order.
    of_new: BTreeMap<u32, Vec<(u16, u64)>>,
    /// What only lost files needed.
    obsolete: Pages,
}

impl FileMetadata {
    /// Looks at the files of `profile`, which name what is on the disks now, and at the metadata of its
    /// `entries`. `new` are the indices of the files that have taken the place of others, `lost` those that are
    /// no longer there. `mounts` are the file systems, in the order of the profile's devices. Once `is_late` says so, the
    /// drives are asked nothing more: what is not known then neither joins nor leaves.
    pub fn find(
        profile: &Profile,
        entries: &[PrefetchEntry],
        new: &BTreeSet<u32>,
        lost: &[File],
        mounts: &[Option<OpenMount>],
        is_late: &dyn Fn() -> bool,
    ) -> Self {
        let Ok(table) = MountTable::read() else {
            return FileMetadata::default();
        };
        let mut probe = LiveProbe::new(
            &table,
            &|_| DriveClass::CommandQueuing,
            SystemTime::now(),
            is_late,
        );
        let of_files = needed_by_files(profile, entries, mounts, &table, &mut probe);
        let known: Pages = of_files.values().flatten().copied().collect();
        let mut obsolete = metadata_pages(entries);
        obsolete.retain(|page| !known.contains(page));
        obsolete.retain(|&(device, page)| {
            let lost = lost.iter().filter(|file| file.device == device);
            let lost: Vec<u64> = lost.map(|file| file.ino).collect();
            let ask = |ext4: &Ext4| Ok(is_obsolete(ext4, page, &lost));
            let mount = mounts[usize::from(device)].as_ref();
            let answer = mount.and_then(|mount| probe.ask_ext4(mount.mount.dev, ask));
            answer.unwrap_or(false)
        });
        let mut of_new = of_files;
        of_new.retain(|file, _| new.contains(file));
        FileMetadata { of_new, obsolete }
    }

    /// The entries without obsolete metadata. Those that a new file needs and that are nowhere among them come
    /// just before its first data.
    pub fn apply(&self, entries: &[PrefetchEntry]) -> Vec<PrefetchEntry> {
        let mut present = metadata_pages(entries);
        present.retain(|page| !self.obsolete.contains(page));
        let mut first_access: HashMap<u32, u64> = HashMap::new();
        for (file, entry) in data(entries) {
            let first = first_access.entry(file).or_insert(entry.time_us);
            *first = entry.time_us.min(*first);
        }
        let mut applied = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.span.place {
                Place::Metadata { device } => {
                    let pages = entry.span.pages().map(|page| (device, page));
                    let left = pages.filter(|page| !self.obsolete.contains(page));
                    push_metadata(&mut applied, left, entry.time_us);
                }
                Place::Data { file } => {
                    // `None` after the first data of the file, or if it is not new.
                    let needed = first_access.remove(&file).zip(self.of_new.get(&file));
                    if let Some((time_us, needed)) = needed {
                        let missing = needed.iter().copied().filter(|&page| present.insert(page));
                        push_metadata(&mut applied, missing, time_us);
                    }
                    applied.push(*entry);
                }
            }
        }
        applied
    }
}

/// What opening and reading each file needs.
fn needed_by_files(
    profile: &Profile,
    entries: &[PrefetchEntry],
    mounts: &[Option<OpenMount>],
    table: &MountTable,
    probe: &mut LiveProbe<'_>,
) -> BTreeMap<u32, Vec<(u16, u64)>> {
    let mut pages_of: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
    for (file, entry) in data(entries) {
        let pages = pages_of.entry(file).or_default();
        pages.push(entry.span.pages());
    }
    let mut paths = FilePaths::new(table, profile.app.uid);
    let mut needed = BTreeMap::new();
    for (index, pages) in pages_of {
        let file = &profile.files[index as usize];
        let Some(mount) = &mounts[usize::from(file.device)] else {
            continue;
        };
        let path = file.path.as_deref().unwrap_or_default();
        let mut metadata = paths.metadata(mount, path, probe);
        let dependencies = probe.dependencies_of(file.inode(mount.mount.dev));
        metadata.extend(pages.iter().flat_map(|pages| dependencies.of(pages)));
        let metadata = metadata.into_iter().flatten();
        needed.insert(index, metadata.map(|page| (file.device, page)).collect());
    }
    needed
}

/// Whether nobody needs a page of metadata that no file of the profile needs: all of its blocks are free, or
/// held inodes of lost files. Other inodes there may be links and directories that paths lead through; those of
/// regular files have to be of the profile to count.
fn is_obsolete(ext4: &Ext4, page: u64, lost: &[u64]) -> bool {
    let size = ext4.block_size();
    let first = page * PAGE_SIZE / size;
    let mut tables = lost.iter().filter_map(|&ino| ext4.inode_block(ino).ok());
    let held_lost = tables.any(|block| block_pages(block, 1, size).contains(&page));
    let mut blocks = first..first + (PAGE_SIZE / size).max(1);
    blocks.all(|block| match ext4.block_use(block) {
        BlockUse::Unused => true,
        BlockUse::ByFiles => held_lost,
        BlockUse::InUse => false,
    })
}

fn metadata_pages(entries: &[PrefetchEntry]) -> Pages {
    let pages = entries.iter().filter_map(|entry| match entry.span.place {
        Place::Metadata { device } => Some(entry.span.pages().map(move |page| (device, page))),
        Place::Data { .. } => None,
    });
    pages.flatten().collect()
}

/// The entries of files, with the files' indices.
fn data(entries: &[PrefetchEntry]) -> impl Iterator<Item = (u32, &PrefetchEntry)> {
    entries.iter().filter_map(|entry| match entry.span.place {
        Place::Data { file } => Some((file, entry)),
        Place::Metadata { .. } => None,
    })
}

/// Appends pages of metadata, those that follow each other as one entry.
fn push_metadata(
    entries: &mut Vec<PrefetchEntry>,
    pages: impl Iterator<Item = (u16, u64)>,
    time_us: u64,
) {
    let before = entries.len();
    for (device, page) in pages {
        let place = Place::Metadata { device };
        match entries[before..].last_mut() {
            Some(last) if last.span.place == place && last.span.end() == page => last.span.len += 1,
            _ => entries.push(PrefetchEntry {
                span: Span::new(place, page..page + 1),
                time_us,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(place: Place, pages: Range<u64>, time_us: u64) -> PrefetchEntry {
        let span = Span::new(place, pages);
        PrefetchEntry { span, time_us }
    }

    #[test]
    fn metadata_of_new_files_come_before_their_first_data_and_obsolete_ones_go() {
        let metadata = |pages, time_us| entry(Place::Metadata { device: 0 }, pages, time_us);
        let data = |file, pages, time_us| entry(Place::Data { file }, pages, time_us);
        let found = FileMetadata {
            of_new: BTreeMap::from([(1, vec![(0, 7), (0, 20), (0, 21), (0, 40)])]),
            obsolete: Pages::from([(0, 11)]),
        };
        let entries = [
            metadata(10..13, 1),
            data(0, 0..1, 2),
            data(1, 8..9, 5),
            // A schedule may have its entries in another order than that of access.
            data(1, 0..1, 4),
            metadata(40..41, 6),
        ];
        let expected = [
            metadata(10..11, 1),
            metadata(12..13, 1),
            entries[1],
            metadata(7..8, 4),
            metadata(20..22, 4),
            entries[2],
            entries[3],
            entries[4],
        ];
        assert_eq!(found.apply(&entries), expected);
        assert_eq!(found.apply(&expected), expected);
    }
}
