//! Block reads of a launch, as the completion rule counts them (design §4.3).

use crate::trace::{Access, By, Source};

/// Picks block reads out of a launch's accesses: those of the launch tree, or another's.
#[derive(Debug)]
pub struct ReadCounter {
    /// Device, inode and end of the last addition, to see what continues it.
    last: Option<(u64, u64, u64)>,
    /// With readahead, the folios of one request are added one after the other.
    join: bool,
    /// Whose reads.
    by: By,
}

impl ReadCounter {
    /// `exact`: the devices' readahead is off, so that each addition is a request of its own.
    pub fn new(exact: bool) -> Self {
        ReadCounter {
            last: None,
            join: !exact,
            by: By::Tree,
        }
    }

    /// Reads with readahead, by whom.
    pub fn joined(by: By) -> Self {
        ReadCounter {
            last: None,
            join: true,
            by,
        }
    }

    /// Whether this access began a block read.
    pub fn is_read(&mut self, access: &Access) -> bool {
        if access.by != self.by || access.source != Source::Added {
            return false;
        }
        let here = (access.dev, access.ino, access.start);
        let continues = self.join && self.last == Some(here);
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

    fn count(exact: bool, accesses: &[Access]) -> usize {
        let mut counter = ReadCounter::new(exact);
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
        assert_eq!(count(false, &accesses), 2);
        assert_eq!(count(true, &accesses), 4);
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
        assert_eq!(count(true, &[used, other, added(6, 1, 1)]), 1);
    }
}
