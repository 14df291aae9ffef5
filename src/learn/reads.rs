//! Which accesses of a launch count as block reads.

use crate::model::Learned;
use crate::model::{Access, By, Source};

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
            Learned::Exact | Learned::AsRead => access.source == Source::Added,
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
    fn a_readahead_window_is_one_read() {
        let accesses = [
            added(5, 0, 4),
            added(5, 4, 4),
            added(5, 8, 1),
            added(5, 20, 1),
        ];
        assert_eq!(count(Learned::AsRead, &accesses), 2);
        assert_eq!(count(Learned::Exact, &accesses), 4);
    }

    #[test]
    fn only_additions_by_the_tree_are_reads() {
        let used = Access {
            source: Source::Read,
            ..added(5, 0, 1)
        };
        let other = Access {
            by: By::Other,
            ..added(5, 1, 1)
        };
        let accesses = [used, other, added(6, 1, 1)];
        assert_eq!(count(Learned::Exact, &accesses), 1);
        assert_eq!(count(Learned::AsRead, &accesses), 1);
    }

    #[test]
    fn first_uses_count_in_a_live_run() {
        let used = |start| Access {
            source: Source::Read,
            ..added(5, start, 1)
        };
        let accesses = [added(5, 0, 32), used(0), used(1), used(7)];
        assert_eq!(count(Learned::Live, &accesses), 3);
    }
}
