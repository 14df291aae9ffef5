//! The metadata that path look-ups read (beyond the paper, which sees only what data depend on).
//!
//! Each path that the launch used is walked again, in the mount namespace that it was used in, and each step
//! on its way names blocks: those of the directory that the name hashes to, the inode's in its table, a long
//! link's own. They become accesses of the launch tree, at the time of the path's first use, and take their
//! place among those that were traced.

mod blocks;
mod live;
mod walk;
mod walks;

use std::collections::HashSet;
use std::ops::Range;

use serde::Serialize;

pub use live::LiveTree;
pub use walk::{ChildNode, Id, Tree, WalkEnd, WalkStep, walk};

use crate::fs::mounts::MountTable;
use crate::kernel::Namespaces;
use crate::model::{Access, By, PathUse, Source};
use walks::Walks;

/// Metadata that a path needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// A step on the way of a path.
    Step(WalkStep),
    /// Reading a whole directory.
    List(Id),
}

impl Need {
    /// Device (`st_dev`) that is read.
    fn dev(&self) -> u64 {
        match self {
            Need::Step(WalkStep::LookUp { dir, .. }) => dir.0,
            Need::Step(WalkStep::Link(id)) | Need::List(id) => id.0,
        }
    }
}

/// Finds the places of metadata.
pub trait Blocks {
    /// The pages that a need reads, in order, in 4 KiB pages of its device.
    fn pages(&mut self, need: &Need) -> Vec<Range<u64>>;
}

/// How many paths a launch used, and of which of them the metadata could not be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathCounts {
    /// Paths, each counted once for the directory and the mount that it starts from.
    pub used: u64,
    /// Of these, paths used in another mount namespace that could not be entered, most often because it
    /// had ended before it could be held. They were walked through our own mounts.
    pub foreign: u64,
    /// Of these, paths to a file system that only another mount namespace has mounted.
    pub hidden: u64,
}

impl PathCounts {
    /// What to tell the user about them, a line each.
    pub fn lines(&self) -> Vec<String> {
        let problems = [
            (
                self.foreign,
                "were looked up in another mount namespace (a sandbox) that ended at once: where its \
                 mounts differed, their directories are not in the profile",
            ),
            (
                self.hidden,
                "lead to file systems that only a sandbox has mounted: mount them where paralfetch can \
                 see them to have them prefetched",
            ),
        ];
        problems
            .into_iter()
            .filter(|&(count, _)| count > 0)
            .map(|(count, problem)| format!("{count} of {} paths {problem}", self.used))
            .collect()
    }
}

/// The metadata that the paths of a launch need.
#[derive(Clone, Debug, Default)]
pub struct LookedUp {
    /// Accesses to metadata, in time order.
    pub accesses: Vec<Access>,
    /// How many paths there were.
    pub counts: PathCounts,
    /// What to tell the user, a line each.
    pub warnings: Vec<String>,
}

/// The accesses to metadata that `paths` imply, each once. `namespaces` are the mount namespaces other than
/// ours that they were used in; `mounts` is the table of ours.
pub fn accesses(
    paths: &[PathUse],
    namespaces: &Namespaces,
    mounts: &MountTable,
    blocks: &mut dyn Blocks,
) -> LookedUp {
    let walked = Walks::new(paths, mounts).through(namespaces);
    let mut accesses = Vec::new();
    let mut known: HashSet<&Need> = HashSet::new();
    for wanted in &walked.wanted {
        if known.insert(&wanted.need) {
            let time_ns = paths[wanted.path].time_ns;
            for pages in blocks.pages(&wanted.need) {
                accesses.push(access(time_ns, wanted.need.dev(), pages));
            }
        }
    }
    LookedUp {
        accesses,
        counts: walked.counts,
        warnings: walked.warnings,
    }
}

fn access(time_ns: u64, dev: u64, pages: Range<u64>) -> Access {
    Access {
        time_ns,
        dev,
        ino: 0,
        generation: 0,
        start: pages.start,
        len: pages.end - pages.start,
        source: Source::LookedUp,
        by: By::Tree,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_with_missing_metadata_are_reported() {
        let mut paths = PathCounts {
            used: 9,
            ..PathCounts::default()
        };
        assert_eq!(paths.lines(), Vec::<String>::new());
        paths.foreign = 1;
        paths.hidden = 3;
        let lines = paths.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("1 of 9 paths were looked up in another mount namespace"));
        assert!(lines[1].starts_with("3 of 9 paths lead to file systems that only a sandbox"));
    }
}
