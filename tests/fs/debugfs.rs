//! What debugfs(8) says about many inodes, in one run.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use common::{LoopExt4, succeed};

/// A tree node or indirect block: its place, and the logical blocks that it maps, as far as debugfs
/// tells.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    pub physical: u64,
    pub depth: u32,
    pub first: u64,
}

/// What debugfs says about an inode, in file-system blocks.
#[derive(Debug, Default)]
pub struct Inode {
    pub table_block: u64,
    pub nodes: Vec<Node>,
    /// Logical → physical, of blocks that hold data.
    pub data: BTreeMap<u64, u64>,
}

/// Asks about each of the inodes.
pub fn inspect(image: &LoopExt4, inodes: &[u64]) -> BTreeMap<u64, Inode> {
    image.sync();
    let directory = tempfile::tempdir().unwrap();
    let commands = directory.path().join("commands");
    let script: String = inodes
        .iter()
        .map(|ino| format!("imap <{ino}>\nstat <{ino}>\nex <{ino}>\n"))
        .collect();
    fs::write(&commands, script).unwrap();
    let mut debugfs = Command::new("debugfs");
    debugfs.arg("-f").arg(&commands).arg(image.device());
    let output = succeed(&mut debugfs);
    let mut answers = output.split("debugfs: ").skip(1);
    let mut inspected = BTreeMap::new();
    for &ino in inodes {
        let [imap, stat, extents] = [(); 3].map(|()| answers.next().unwrap());
        let mut inode = Inode {
            table_block: table_block(imap),
            ..Inode::default()
        };
        if stat.contains("\nEXTENTS:") {
            inode.read_extents(extents);
        } else {
            inode.read_blocks(stat);
        }
        inspected.insert(ino, inode);
    }
    inspected
}

/// `located at block 37, offset 0x0b00`
fn table_block(imap: &str) -> u64 {
    let (_, rest) = imap
        .split_once("located at block ")
        .unwrap_or_else(|| panic!("{imap}"));
    rest.split_once(',').unwrap().0.parse().unwrap()
}

impl Inode {
    /// `LEVEL/DEPTH ENTRY/ENTRIES LOGICAL - LOGICAL PHYSICAL [- PHYSICAL] LENGTH [FLAGS]`
    fn read_extents(&mut self, text: &str) {
        for line in text
            .lines()
            .skip_while(|line| !line.starts_with("Level"))
            .skip(1)
        {
            let numbers: Vec<u64> = line
                .split(|c: char| !c.is_ascii_digit())
                .filter(|digits| !digits.is_empty())
                .map(|digits| digits.parse().unwrap())
                .collect();
            let [level, depth, _, _, first, last, physical, ..] = numbers[..] else {
                continue;
            };
            if level < depth {
                self.nodes.push(Node {
                    physical,
                    depth: level as u32,
                    first,
                });
            } else if !line.contains("Uninit") {
                self.data
                    .extend((first..=last).map(|logical| (logical, physical + logical - first)));
            }
        }
    }

    /// `(0-11):100-111, (IND):112, (12-20):113-121, (DIND):…`; an indirect block stands before what
    /// it maps.
    fn read_blocks(&mut self, text: &str) {
        let Some((_, blocks)) = text.split_once("\nBLOCKS:\n") else {
            return;
        };
        let blocks = blocks
            .split_once("\nTOTAL")
            .map_or(blocks, |(blocks, _)| blocks);
        // Levels of the tree that the last indirect block belongs to.
        let mut tree = 0;
        let mut waiting: Vec<(u64, u32)> = Vec::new();
        for item in blocks
            .split([',', '\n'])
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (what, place) = item.split_once(':').unwrap_or_else(|| panic!("{item:?}"));
            let what = what.trim_matches(['(', ')']);
            let levels = match what {
                "IND" => 1,
                "DIND" => 2,
                "TIND" => 3,
                _ => 0,
            };
            if levels > 0 {
                tree = tree.max(levels);
                waiting.push((place.parse().unwrap(), tree - levels));
                continue;
            }
            let range = |text: &str| -> (u64, u64) {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                (first.parse().unwrap(), last.parse().unwrap())
            };
            let ((first, last), (physical, _)) = (range(what), range(place));
            self.data
                .extend((first..=last).map(|logical| (logical, physical + logical - first)));
            for (physical, depth) in waiting.drain(..) {
                self.nodes.push(Node {
                    physical,
                    depth,
                    first,
                });
            }
        }
    }
}
