//! The steps of a path look-up that may read the drive, and the blocks that each reads.

use std::ops::Range;

use crate::fs::ext4::{Ext4, Ext4Error};
use crate::learn::probe::LiveProbe;
use crate::learn::sequence::block_pages;

/// An inode: its device (`st_dev`) and number.
pub type Id = (u64, u64);

/// Something that the kernel does with a path and that may read the drive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Looks a name up in a directory and gets the inode that it finds.
    LookUp {
        dir: Id,
        /// One component of a path.
        name: Vec<u8>,
        /// Number of the inode found, on the same device.
        found: Option<u64>,
    },
    /// Reads the target of a symbolic link.
    Link(Id),
    /// Reads a whole directory.
    List(Id),
}

impl Need {
    /// Device (`st_dev`) that is read.
    pub fn dev(&self) -> u64 {
        match self {
            Need::LookUp { dir, .. } => dir.0,
            Need::Link(id) | Need::List(id) => id.0,
        }
    }

    /// The blocks that are read, in order, as ext4's layout tells.
    fn blocks(&self, ext4: &Ext4) -> Result<Vec<u64>, Ext4Error> {
        match self {
            Need::LookUp { dir, name, found } => {
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
            Need::Link(id) => ext4.link_blocks(id.1),
            Need::List(id) => {
                let mut blocks = vec![ext4.inode_block(id.1)?];
                blocks.extend(ext4.directory_blocks(id.1)?);
                Ok(blocks)
            }
        }
    }

    /// The blocks as 4 KiB pages of the device.
    pub fn pages(&self, probe: &mut LiveProbe<'_>) -> Vec<Range<u64>> {
        let pages = probe.ask_ext4(self.dev(), |ext4| {
            let (blocks, size) = (self.blocks(ext4)?.into_iter(), ext4.block_size());
            Ok(blocks.map(|block| block_pages(block, 1, size)).collect())
        });
        pages.unwrap_or_default()
    }
}
