//! What a prefetched launch read itself, by file.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use crate::fs::handle;
use crate::fs::mounts::MountTable;
use crate::fs::visible::VisibleNames;
use crate::model::{InodeId, OwnRead, PAGE_SIZE, shown};
use crate::service::history::{FileReads, MOST_READ_FILES, ReadKind};

/// The files from which most was read, the most first, and the metadata of all file systems as one. `is_held` says
/// whether the profile holds what was read, `name` what a file is called: it is asked for the files that remain.
pub fn by_file<'a>(
    reads: impl Iterator<Item = &'a OwnRead>,
    is_held: impl Fn(&OwnRead) -> bool,
    mut name: impl FnMut(InodeId) -> Option<String>,
) -> Vec<FileReads> {
    let mut indices: HashMap<Option<InodeId>, usize> = HashMap::new();
    let mut files: Vec<(Option<InodeId>, FileReads)> = Vec::new();
    for read in reads {
        let file = (read.inode.ino != 0).then_some(read.inode);
        let index = *indices.entry(file).or_insert_with(|| {
            let kind = file.map_or(ReadKind::Metadata, |_| ReadKind::Data);
            files.push((
                file,
                FileReads {
                    kind,
                    ..FileReads::default()
                },
            ));
            files.len() - 1
        });
        let bytes = (read.pages.end - read.pages.start).saturating_mul(PAGE_SIZE);
        let of_file = &mut files[index].1;
        of_file.reads += 1;
        of_file.bytes = of_file.bytes.saturating_add(bytes);
        if !is_held(read) {
            of_file.not_in_profile_bytes = of_file.not_in_profile_bytes.saturating_add(bytes);
        }
    }
    // Of equals, the one that was read first stays first.
    files.sort_by_key(|(_, reads)| std::cmp::Reverse(reads.bytes));
    files.truncate(MOST_READ_FILES);
    let named = files.into_iter().map(|(file, mut reads)| {
        let path = file.and_then(&mut name).unwrap_or_default();
        reads.path = path.chars().map(shown).collect();
        reads.cut();
        reads
    });
    named.collect()
}

/// The path of a file, if this user may know it. The kernel has it in memory: it was read a moment ago.
pub fn path_for(
    names: &mut VisibleNames<'_>,
    mounts: &MountTable,
    file: InodeId,
) -> Option<String> {
    let fd = open(mounts, file)?;
    let path = names.path_of(&fd)?;
    Some(path.to_string_lossy().into_owned())
}

fn open(mounts: &MountTable, file: InodeId) -> Option<OwnedFd> {
    mounts.kind(file.dev)?;
    let root = mounts.open_root(file.dev).ok()?;
    handle::open_by_ino(&root, file.ino, file.generation).ok()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::model::By;

    fn read(ino: u64, pages: Range<u64>) -> OwnRead {
        OwnRead {
            inode: InodeId {
                dev: 8,
                ino,
                generation: 1,
            },
            pages,
            time_ns: 0,
            by: By::Tree,
        }
    }

    #[test]
    fn reads_are_summed_up_by_file_and_the_largest_sums_are_named() {
        let mut reads = [read(0, 0..1), read(7, 0..4), read(0, 9..10), read(7, 8..10)];
        reads[2].inode.dev = 9;
        let held = |read: &OwnRead| read.pages.start == 0;
        let found = by_file(reads.iter(), held, |file| Some(format!("/{}\n", file.ino)));
        let pages = |pages: u64| pages * PAGE_SIZE;
        let expected = [
            FileReads {
                kind: ReadKind::Data,
                path: "/7\u{fffd}".to_owned(),
                reads: 2,
                bytes: pages(6),
                not_in_profile_bytes: pages(2),
            },
            FileReads {
                kind: ReadKind::Metadata,
                path: String::new(),
                reads: 2,
                bytes: pages(2),
                not_in_profile_bytes: pages(1),
            },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_files_that_remain_are_named_and_a_name_may_be_missing() {
        let reads: Vec<OwnRead> = (1..50).map(|ino| read(ino, 0..ino)).collect();
        let mut asked = Vec::new();
        let found = by_file(
            reads.iter(),
            |_| true,
            |file| {
                asked.push(file.ino);
                None
            },
        );
        assert_eq!(asked, [49, 48, 47, 46, 45]);
        assert!(found.len() == MOST_READ_FILES && found.iter().all(|file| file.path.is_empty()));
        assert!(by_file([].iter(), |_| true, |_| None).is_empty());
    }
}
