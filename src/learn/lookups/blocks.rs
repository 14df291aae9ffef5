//! Where the metadata lie that look-ups need: libext2fs's answers.

use std::ops::Range;

use super::walk::{Id, WalkStep};
use super::{Blocks, Need};
use crate::fs::ext4::{Ext4, Ext4Error};
use crate::learn::probe::LiveProbe;
use crate::model::PAGE_SIZE;

impl Blocks for LiveProbe<'_> {
    fn pages(&mut self, need: &Need) -> Vec<Range<u64>> {
        let (dev, asked) = match need {
            Need::Step(WalkStep::LookUp { dir, .. }) | Need::List(dir) => (dir.0, need),
            Need::Step(WalkStep::Link(id)) => (id.0, need),
        };
        self.ask_ext4(dev, |ext4| {
            let blocks = blocks(ext4, asked)?;
            let size = ext4.block_size();
            Ok(blocks.into_iter().map(|block| page(block, size)).collect())
        })
        .unwrap_or_default()
    }
}

fn blocks(ext4: &Ext4, need: &Need) -> Result<Vec<u64>, Ext4Error> {
    match need {
        Need::Step(WalkStep::LookUp { dir, name, found }) => {
            let mut blocks = inode(ext4, *dir)?;
            let look_up = ext4.look_up(dir.1, name)?;
            blocks.extend(look_up.blocks);
            // Not waited for, but read all the same, and needed by the next name in the directory.
            blocks.extend(look_up.ahead);
            if let Some(ino) = found {
                blocks.extend(inode(ext4, (dir.0, *ino))?);
            }
            Ok(blocks)
        }
        Need::Step(WalkStep::Link(id)) => ext4.link_blocks(id.1),
        Need::List(id) => {
            let mut blocks = inode(ext4, *id)?;
            blocks.extend(ext4.directory_blocks(id.1)?);
            Ok(blocks)
        }
    }
}

/// An inode's block in its table, and that of its attributes, which permission checks and security
/// modules ask for.
fn inode(ext4: &Ext4, id: Id) -> Result<Vec<u64>, Ext4Error> {
    let mut blocks = vec![ext4.inode_block(id.1)?];
    blocks.extend(ext4.xattr_blocks(id.1)?);
    Ok(blocks)
}

/// The 4 KiB pages of a block. Blocks smaller than a page share it.
fn page(block: u64, block_size: u64) -> Range<u64> {
    let start = block.saturating_mul(block_size);
    start / PAGE_SIZE..start.saturating_add(block_size).div_ceil(PAGE_SIZE)
}
