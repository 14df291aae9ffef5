//! The steps of path walks as operations.

use std::collections::HashMap;

use super::need::{Id, Need};
use crate::fs::handle::joined;
use crate::model::OperationKind;
use crate::profile::MAX_PATH;

/// Most operations of a launch: fourteen times those of the largest one measured. A tree of links may lead to any number.
const MOST_OPERATIONS: usize = 1 << 13;

/// Most bytes of all their paths together.
const MOST_PATH_BYTES: usize = 1 << 20;

/// An operation of a launch, by its file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsOperation {
    /// Device of the file system (`st_dev`).
    pub dev: u64,
    /// Path from its root, through no link.
    pub path: Vec<u8>,
    /// What is done.
    pub kind: OperationKind,
    /// When it was done first, CLOCK_MONOTONIC in nanoseconds.
    pub time_ns: u64,
}

impl FsOperation {
    /// Whether looking up the path of `next` does all that this does.
    fn is_part_of(&self, next: &FsOperation) -> bool {
        let below = next.path.strip_prefix(self.path.as_slice());
        let is_above = below.is_some_and(|below| below.starts_with(b"/"));
        self.kind == OperationKind::LookUp && self.dev == next.dev && is_above
    }
}

/// The operations of a launch, in the order of its needs.
pub struct LearnedOperations {
    /// The paths of directories from the roots of their file systems.
    directories: HashMap<Id, Vec<u8>>,
    operations: Vec<FsOperation>,
    path_bytes: usize,
    is_full: bool,
}

impl LearnedOperations {
    /// None yet.
    pub fn new(directories: HashMap<Id, Vec<u8>>) -> Self {
        LearnedOperations {
            directories,
            operations: Vec::new(),
            path_bytes: 0,
            is_full: false,
        }
    }

    /// Adds what a path needs, at the time of its first use. Its directory must have a known path.
    pub fn add(&mut self, need: &Need, time_ns: u64) {
        let (dir, name, kind) = match need {
            Need::LookUp { dir, name, .. } => (dir, name.as_slice(), OperationKind::LookUp),
            Need::List(dir) => (dir, &b""[..], OperationKind::List),
            // Its target comes with its inode, which was looked up. readlink(2) would set its time of access.
            Need::Link(_) => return,
        };
        let Some(directory) = self.directories.get(dir) else {
            return;
        };
        let operation = FsOperation {
            dev: dir.0,
            path: joined(directory, name),
            kind,
            time_ns,
        };
        // A launch can go deeper step by step than a profile can hold.
        if operation.path.len() > MAX_PATH {
            return;
        }
        // The components of a path follow each other.
        if let Some(last) = self.operations.pop_if(|last| last.is_part_of(&operation)) {
            self.path_bytes -= last.path.len();
        }
        let bytes = self.path_bytes + operation.path.len();
        if self.operations.len() == MOST_OPERATIONS || bytes > MOST_PATH_BYTES {
            self.is_full = true;
            return;
        }
        self.path_bytes = bytes;
        self.operations.push(operation);
    }

    /// Whether some had to be left out.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The operations.
    pub fn finish(self) -> Vec<FsOperation> {
        self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Id = (1, 2);
    const LIB: Id = (1, 5);

    fn look_up(dir: Id, name: &str) -> Need {
        Need::LookUp {
            dir,
            name: name.into(),
            found: None,
        }
    }

    fn operations(needs: &[Need]) -> LearnedOperations {
        let directories = [(ROOT, "/"), (LIB, "/lib"), ((7, 2), "/")];
        let directories = directories.map(|(id, path)| (id, path.as_bytes().to_vec()));
        let mut operations = LearnedOperations::new(directories.into());
        for (need, time_ns) in needs.iter().zip(1..) {
            operations.add(need, time_ns);
        }
        operations
    }

    #[test]
    fn the_components_of_a_path_are_one_operation_and_links_none() {
        let unknown = (1, 99);
        let needs = [
            look_up(ROOT, "lib"),
            look_up(LIB, "x.so"),
            look_up(LIB, "absent"),
            look_up((7, 2), "lib"),
            look_up(ROOT, "library"),
            Need::Link((1, 8)),
            Need::List(LIB),
            look_up(LIB, "y.so"),
            look_up(unknown, "z.so"),
            Need::List(ROOT),
        ];
        let found = operations(&needs).finish();
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.dev,
                    str::from_utf8(&it.path).unwrap(),
                    it.kind,
                    it.time_ns,
                )
            })
            .collect();
        use OperationKind::{List, LookUp};
        let expected = [
            (1, "/lib/x.so", LookUp, 2),
            (1, "/lib/absent", LookUp, 3),
            (7, "/lib", LookUp, 4),
            (1, "/library", LookUp, 5),
            (1, "/lib", List, 7),
            (1, "/lib/y.so", LookUp, 8),
            (1, "/", List, 10),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_farm_of_names_fills_a_profile_to_its_bounds_only() {
        let many: Vec<_> = (0..=MOST_OPERATIONS)
            .map(|number| look_up(LIB, &number.to_string()))
            .collect();
        assert!(!operations(&many[1..]).is_full());
        let full = operations(&many);
        assert!(full.is_full());
        assert_eq!(full.finish().len(), MOST_OPERATIONS);
        let deep = [(ROOT, vec![b'/'; MAX_PATH - 1])];
        let mut operations_below = LearnedOperations::new(deep.into());
        for name in ["x", "xx"] {
            operations_below.add(&look_up(ROOT, name), 1);
        }
        assert_eq!(operations_below.finish().len(), 1);
        let long: Vec<_> = (0..MOST_PATH_BYTES / 256 + 1)
            .map(|number| look_up(LIB, &format!("{number:0255}")))
            .collect();
        let full = operations(&long);
        assert!(full.is_full());
        let bytes = full.finish().iter().map(|it| it.path.len()).sum::<usize>();
        assert!(bytes <= MOST_PATH_BYTES, "{bytes}");
    }
}
