//! Which accesses of a launch count as block reads.

use crate::model::{Access, By, Learned, Source};

/// Picks the block reads from a launch's accesses: pages that were added to the caches. A launch that is
/// learned live may have everything cached; there, each first use of pages counts instead.
#[derive(Debug)]
pub struct ReadCounter {
    learned: Learned,
    /// Device, inode and end of the last addition, to recognize the next part of the same read.
    last: Option<(u64, u64, u64)>,
    /// Whose reads count.
    by: By,
}

impl ReadCounter {
    /// For reads of the launch tree in a launch that is learned in this way.
    pub fn new(learned: Learned) -> Self {
        ReadCounter {
            learned,
            last: None,
            by: By::Tree,
        }
    }

    /// For reads with readahead, made by the launch tree, the prefetch thread or others.
    pub fn joined(by: By) -> Self {
        ReadCounter {
            by,
            ..Self::new(Learned::AsRead)
        }
    }

    /// Whether this access began a block read.
    pub fn is_read(&mut self, access: &Access) -> bool {
        let counts = match self.learned {
            Learned::Exact | Learned::AsRead | Learned::Imported => access.source == Source::Added,
            Learned::Live => access.source != Source::Added,
        };
        if access.by != self.by || !counts {
            return false;
        }
        let here = (access.dev, access.ino, access.start);
        // With readahead, the folios of one request are added one after the other.
        let continues = self.learned == Learned::AsRead && self.last == Some(here);
        self.last = Some((access.dev, access.ino, access.start + access.len));
        !continues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(ino: u64, start: u64, len: u64) -> Access {
        Access {
            time_ns: 0,
            dev: 1,
            ino,
            generation: 0,
            start,
            len,
            source: Source::Added,
            by: By::Tree,
        }
    }

    fn count(learned: Learned, accesses: &[Access]) -> usize {
        let mut counter = ReadCounter::new(learned);
        accesses
            .iter()
            .filter(|access| counter.is_read(access))
            .count()
    }

    #[test]
    fn additions_by_the_tree_are_reads_and_a_readahead_window_is_one() {
        let of = |source, by, start| Access {
            source,
            by,
            ..added(5, start, 1)
        };
        let accesses = [
            added(5, 0, 4),
            added(5, 4, 4),
            of(Source::Read, By::Tree, 8),
            of(Source::Added, By::Other, 8),
            added(5, 8, 1),
            added(5, 20, 1),
            added(6, 21, 1),
            of(Source::Read, By::Tree, 20),
        ];
        assert_eq!(count(Learned::AsRead, &accesses), 3);
        assert_eq!(count(Learned::Exact, &accesses), 5);
        // In a live run, first uses count.
        assert_eq!(count(Learned::Live, &accesses), 2);
    }
}
