//! Searching and listing a directory by its index, as fs/ext4/namei.c of the kernel does.

use std::collections::HashSet;

use super::dirent::Damaged;
use super::htree::{self, HashKey, Root};
use super::look_up::Directory;
use super::map::BlockReads;
use super::{Ext4, Ext4Error};

/// How searching an index ended.
pub enum Hashed {
    Found(u64),
    Absent,
    /// The index is damaged in a way in which the kernel searches all of the directory.
    Useless,
}

/// A way from the root of an index to a leaf: for each level its keys and the one taken.
struct Way(Vec<(Vec<HashKey>, usize)>);

impl Way {
    fn key(&self) -> Option<HashKey> {
        self.0.last().and_then(|(keys, at)| keys.get(*at).copied())
    }
}

impl Ext4 {
    /// Looks a name up by its hash (`ext4_dx_find_entry`).
    pub(super) fn search_hashed(
        &self,
        dir: &Directory,
        name: &[u8],
        reads: &mut BlockReads,
    ) -> Result<Hashed, Ext4Error> {
        let Some(root) = Root::parse(&self.read_logical(dir, 0, reads)?, dir.shape) else {
            return Ok(Hashed::Useless);
        };
        let hash = self.name_hash(dir.inode.ino, root.version, name, dir.folded)?;
        let Some(mut way) = self.probe(dir, root, hash, reads)? else {
            return Ok(Hashed::Useless);
        };
        // Names of one hash may go on in the next leaf; no valid index has a leaf twice.
        for _ in 0..dir.blocks {
            let Some(key) = way.key() else {
                return Ok(Hashed::Absent);
            };
            let leaf = self.read_logical(dir, key.block, reads)?;
            match self.search(dir, &leaf, name) {
                Ok(Some(ino)) => return Ok(Hashed::Found(ino)),
                Ok(None) => {}
                Err(Damaged) => return Ok(Hashed::Useless),
            }
            if !self.next_leaf(dir, &mut way, hash, reads)? {
                return Ok(Hashed::Absent);
            }
        }
        Err(dir.inode.damaged("its index runs in circles"))
    }

    /// The way to the leaf of a hash (`dx_probe`); `None` if the index is useless.
    fn probe(
        &self,
        dir: &Directory,
        root: Root,
        hash: u32,
        reads: &mut BlockReads,
    ) -> Result<Option<Way>, Ext4Error> {
        let mut way = Way(Vec::new());
        let mut passed = vec![0];
        let mut keys = root.keys;
        for level in 0..=root.levels {
            let at = htree::position(&keys, hash);
            let Some(&HashKey { block, .. }) = keys.get(at) else {
                return Ok(None);
            };
            way.0.push((keys, at));
            if passed.contains(&block) {
                return Ok(None);
            }
            if level == root.levels {
                break;
            }
            passed.push(block);
            let node = self.read_logical(dir, block, reads)?;
            keys = match htree::node(&node, dir.shape) {
                Some(keys) => keys,
                None => return Ok(None),
            };
        }
        Ok(Some(way))
    }

    /// Goes on to the next leaf if names of this hash may be in it (`ext4_htree_next_block`).
    fn next_leaf(
        &self,
        dir: &Directory,
        way: &mut Way,
        hash: u32,
        reads: &mut BlockReads,
    ) -> Result<bool, Ext4Error> {
        let depth = way.0.len();
        // Up to the lowest level that has a key left.
        while let Some((keys, at)) = way.0.last_mut() {
            *at += 1;
            if *at < keys.len() {
                break;
            }
            way.0.pop();
        }
        // Bit 0 of a key says that names of its hash begin before it.
        match way.key() {
            Some(key) if key.hash & !1 == hash => {}
            _ => return Ok(false),
        }
        // And down again along the first keys.
        while let (true, Some(key)) = (way.0.len() < depth, way.key()) {
            let node = self.read_logical(dir, key.block, reads)?;
            let keys = htree::node(&node, dir.shape)
                .ok_or_else(|| dir.inode.damaged("a node of its index is damaged"))?;
            way.0.push((keys, 0));
        }
        Ok(true)
    }

    /// Notes the blocks of the index and the leaves in the order of hashes (`ext4_dx_readdir`). False
    /// if the index is useless, and the kernel goes through the directory without it.
    pub(super) fn list_hashed(
        &self,
        dir: &Directory,
        reads: &mut BlockReads,
    ) -> Result<bool, Ext4Error> {
        let Some(root) = Root::parse(&self.read_logical(dir, 0, reads)?, dir.shape) else {
            return Ok(false);
        };
        let mut seen = HashSet::from([0]);
        // Keys still to follow and their levels; the last comes first.
        let below =
            |keys: Vec<HashKey>, level: u8| keys.into_iter().rev().map(move |key| (key, level));
        let mut waiting: Vec<(HashKey, u8)> = below(root.keys, 0).collect();
        while let Some((key, level)) = waiting.pop() {
            if !seen.insert(key.block) {
                return Err(dir.inode.damaged("its index runs in circles"));
            }
            let block = self.locate_logical(dir, key.block, reads)?;
            if level < root.levels {
                match htree::node(&self.read_block(dir.inode.ino, block)?, dir.shape) {
                    Some(keys) => waiting.extend(below(keys, level + 1)),
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }
}
