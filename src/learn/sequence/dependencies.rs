//! The metadata that reading a file needs: where its inode and the nodes of its block map lie.

use std::ops::Range;

use crate::fs::ext4::ExtentNode;
use crate::model::PAGE_SIZE;

/// The metadata that a file's data depend on, in 4 KiB pages of its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The block of the inode table.
    inode: Option<Range<u64>>,
    /// Nodes of the block map; for each depth, in file order: what they map, in 4 KiB pages of the file (the first
    /// and the last may be covered in part), and where they are.
    levels: Vec<Vec<(Range<u64>, Range<u64>)>>,
}

impl Dependencies {
    /// From file-system blocks of `block_size` bytes to 4 KiB pages. `nodes` come parents first and,
    /// within a depth, in file order.
    pub fn new(inode_block: Option<u64>, nodes: &[ExtentNode], block_size: u64) -> Self {
        let depths = nodes.iter().map(|node| node.depth as usize + 1);
        let mut levels = vec![Vec::new(); depths.max().unwrap_or(0)];
        for node in nodes {
            let covers = block_pages(node.first, node.len, block_size);
            let at = block_pages(node.physical, 1, block_size);
            levels[node.depth as usize].push((covers, at));
        }
        Dependencies {
            inode: inode_block.map(|block| block_pages(block, 1, block_size)),
            levels,
        }
    }

    /// The metadata that must be read before the file's pages of `data`, in the order of dependence.
    pub fn of<'a>(&'a self, data: &'a Range<u64>) -> impl Iterator<Item = Range<u64>> + 'a {
        let nodes = self.levels.iter().flat_map(move |level| {
            let first = level.partition_point(|(covers, _)| covers.end <= data.start);
            let level = level[first..].iter();
            level.take_while(|(covers, _)| covers.start < data.end)
        });
        self.inode.iter().chain(nodes.map(|(_, at)| at)).cloned()
    }
}

/// The 4 KiB pages that hold `len` blocks from `first` on. Blocks smaller than a page share it.
pub fn block_pages(first: u64, len: u64, block_size: u64) -> Range<u64> {
    let start = first.saturating_mul(block_size);
    let end = first.saturating_add(len).saturating_mul(block_size);
    start / PAGE_SIZE..end.div_ceil(PAGE_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_other_sizes_become_pages() {
        let of = |files: &Dependencies, page: u64| -> Vec<u64> {
            files.of(&(page..page + 1)).flatten().collect()
        };
        let node = ExtentNode {
            first: 12,
            len: 256,
            physical: 9,
            depth: 0,
        };
        let small = Dependencies::new(Some(7), &[node], 1024);
        for (page, expected) in [(2, &[1][..]), (3, &[1, 2]), (66, &[1, 2]), (67, &[1])] {
            assert_eq!(of(&small, page), expected, "{page}");
        }
        let large = Dependencies::new(Some(3), &[], 65_536);
        assert_eq!(of(&large, 0), (48..64).collect::<Vec<_>>());
    }
}
