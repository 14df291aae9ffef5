//! Where the metadata lie that look-ups need, as ext4's layout tells.

use std::ops::Range;

use super::walk::WalkStep;
use super::{Blocks, Need};
use crate::fs::ext4::{Ext4, Ext4Error};
use crate::learn::probe::LiveProbe;
use crate::model::PAGE_SIZE;

impl Blocks for LiveProbe<'_> {
    fn pages(&mut self, need: &Need) -> Vec<Range<u64>> {
        self.ask_ext4(need.dev(), |ext4| {
            let blocks = blocks(ext4, need)?;
            let size = ext4.block_size();
            Ok(blocks.into_iter().map(|block| page(block, size)).collect())
        })
        .unwrap_or_default()
    }
}

fn blocks(ext4: &Ext4, need: &Need) -> Result<Vec<u64>, Ext4Error> {
    match need {
        Need::Step(WalkStep::LookUp { dir, name, found }) => {
            let mut blocks = vec![ext4.inode_block(dir.1)?];
            let look_up = ext4.look_up(dir.1, name)?;
            blocks.extend(look_up.blocks);
            // A page too many costs less than one that is missing.
            blocks.extend(look_up.perhaps);
            if let Some(ino) = found {
                blocks.push(ext4.inode_block(*ino)?);
            }
            Ok(blocks)
        }
        Need::Step(WalkStep::Link(id)) => ext4.link_blocks(id.1),
        Need::List(id) => {
            let mut blocks = vec![ext4.inode_block(id.1)?];
            blocks.extend(ext4.directory_blocks(id.1)?);
            Ok(blocks)
        }
    }
}

/// The 4 KiB pages of a block. Blocks smaller than a page share it.
fn page(block: u64, block_size: u64) -> Range<u64> {
    let start = block.saturating_mul(block_size);
    start / PAGE_SIZE..start.saturating_add(block_size).div_ceil(PAGE_SIZE)
}
