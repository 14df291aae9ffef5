//! Reads of images: the files that file systems such as snaps are mounted from, behind loop devices.
//!
//! What lies compressed in an image has no place of its own that could be read ahead. The kernel reads the image's blocks
//! into the page cache of its file, in a thread that works for everybody, and only those that are not cached. So what was
//! read of an image while a launch used the file system inside counts as the launch's, and what earlier launches needed
//! of it stays needed for as long as launches use that file system. It comes before the first use of what is inside, in
//! the order of the image: decompressing then waits for the drive no more.

use std::collections::BTreeMap;

use super::sequence::Earlier;
use crate::fs::kind::FsKind;
use crate::fs::loop_image::image_of;
use crate::fs::mounts::MountTable;
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Source};

/// An image, by device and inode number of its file.
type Image = (u64, u64);

/// The images of file systems that a launch used, and when it used what is inside first (CLOCK_MONOTONIC, nanoseconds).
pub type UsedImages = BTreeMap<Image, u64>;

/// The images of file systems that the launch with these accesses used.
pub fn used_images(accesses: &[Access], mounts: &MountTable) -> UsedImages {
    let is_inside = |dev: u64| mounts.kind(dev).is_some_and(FsKind::reads_image);
    first_uses(accesses, is_inside, |dev| image_of(dev, mounts))
}

/// The accesses of the launch, with reads of these images. `earlier` is what was learned of the app before.
pub fn with_image_reads(accesses: &[Access], used: &UsedImages, earlier: &Earlier) -> Vec<Access> {
    let mut all = reads(accesses, used, earlier);
    all.extend_from_slice(accesses);
    all
}

fn first_uses(
    accesses: &[Access],
    is_inside: impl Fn(u64) -> bool,
    image_of: impl Fn(u64) -> Option<Image>,
) -> UsedImages {
    let mut devices: BTreeMap<u64, u64> = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.by == By::Tree) {
        let first = devices.entry(access.dev).or_insert(access.time_ns);
        *first = access.time_ns.min(*first);
    }
    devices.retain(|&dev, _| is_inside(dev));
    let images = devices.into_iter();
    images
        .filter_map(|(dev, first)| Some((image_of(dev)?, first)))
        .collect()
}

/// What was read of these images, as reads of the launch at their first use.
fn reads(accesses: &[Access], used: &UsedImages, earlier: &Earlier) -> Vec<Access> {
    let mut read: BTreeMap<Image, (u32, RangeSet)> = BTreeMap::new();
    let added = |access: &&Access| access.source == Source::Added && !access.is_metadata();
    for access in accesses.iter().filter(added) {
        let image = (access.dev, access.ino);
        if used.contains_key(&image) {
            let (_, pages) = read
                .entry(image)
                .or_insert_with(|| (access.generation, RangeSet::default()));
            pages.insert(access.start..access.start.saturating_add(access.len));
        }
    }
    for (key, needed) in earlier.needed_of(|key| used.contains_key(&(key.dev, key.ino))) {
        let (generation, pages) = read
            .entry((key.dev, key.ino))
            .or_insert_with(|| (key.generation, RangeSet::default()));
        // Another file had this number before.
        if *generation == key.generation {
            needed.ranges().for_each(|range| drop(pages.insert(range)));
        }
    }
    let mut reads = Vec::new();
    for ((dev, ino), (generation, pages)) in read {
        reads.extend(pages.ranges().map(|range| Access {
            time_ns: used[&(dev, ino)],
            dev,
            ino,
            generation,
            start: range.start,
            len: range.end - range.start,
            source: Source::Read,
            by: By::Tree,
        }));
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Device of the file system inside, and its image.
    const INSIDE: u64 = 7;
    const IMAGE: Image = (8, 70);

    fn access(time_ns: u64, dev: u64, ino: u64, start: u64, by: By) -> Access {
        Access {
            time_ns,
            dev,
            ino,
            generation: 3,
            start,
            len: 2,
            source: Source::Added,
            by,
        }
    }

    /// Time and pages of the reads of images that are found.
    fn found(accesses: &[Access]) -> Vec<(u64, u64, u64)> {
        let is_inside = |dev| dev == INSIDE;
        let used = first_uses(accesses, is_inside, |_| Some(IMAGE));
        let reads = reads(accesses, &used, &Earlier::default());
        let is_image =
            |read: &Access| (read.dev, read.ino, read.by) == (IMAGE.0, IMAGE.1, By::Tree);
        assert!(reads.iter().all(is_image));
        reads
            .iter()
            .map(|read| (read.time_ns, read.start, read.len))
            .collect()
    }

    /// The accesses while a launch, or another program, uses the file system inside.
    fn trace(inside: By) -> [Access; 7] {
        let (dev, ino) = IMAGE;
        [
            access(10, dev, 1, 0, By::Tree),
            access(20, INSIDE, 1, 0, inside),
            access(21, dev, ino, 6, By::Other),
            access(22, dev, ino, 2, By::Own),
            access(23, dev, ino, 4, By::Other),
            access(24, dev, 71, 0, By::Other),
            access(25, INSIDE, 2, 0, inside),
        ]
    }

    #[test]
    fn what_anybody_reads_of_an_image_comes_in_order_at_the_first_use_of_what_is_inside() {
        assert_eq!(found(&trace(By::Tree)), [(20, 2, 6)]);
    }

    #[test]
    fn an_image_of_which_the_launch_used_nothing_is_left_to_others() {
        assert_eq!(found(&trace(By::Other)), []);
    }
}
