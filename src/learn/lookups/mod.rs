//! The metadata that path look-ups read (beyond the paper, which sees only what data depend on).
//!
//! Each path that the launch used is walked again (`walk`, in the `live` tree of the mount namespace that
//! `walks` finds for it), and each step on its way names blocks: those of the directory that the name hashes to, the inode's in its table, a link's
//! or an attribute's own. The answers become accesses of the launch tree, at the time of the path's
//! first use, which then take their place among those that were seen.

mod blocks;
mod counts;
mod live;
mod walk;
mod walks;

use std::collections::HashSet;
use std::ops::Range;

pub use counts::Paths;
pub use live::LiveTree;
pub use walk::{ChildNode, Id, Tree, WalkEnd, WalkStep, walk};

use crate::fs::mounts::MountTable;
use crate::kernel::Namespaces;
use crate::model::{Access, By, PathUse, Source};
use walks::Walks;

/// Something that reads metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// A step on the way of a path.
    Step(WalkStep),
    /// Reading a whole directory.
    List(Id),
}

impl Need {
    /// Device (`st_dev`) of what is read.
    fn dev(&self) -> u64 {
        match self {
            Need::Step(WalkStep::LookUp { dir, .. }) => dir.0,
            Need::Step(WalkStep::Link(id)) | Need::List(id) => id.0,
        }
    }
}

/// Tells where metadata lie.
pub trait Blocks {
    /// What is read for it, in order, in 4 KiB pages of the device.
    fn pages(&mut self, need: &Need) -> Vec<Range<u64>>;
}

/// What the paths of a launch stand for.
#[derive(Clone, Debug, Default)]
pub struct LookedUp {
    /// Accesses to metadata, in time order, none twice.
    pub accesses: Vec<Access>,
    /// What became of the paths.
    pub counts: Paths,
    /// What a person should know, a line each.
    pub warnings: Vec<String>,
}

/// The accesses to metadata that the paths stand for. `namespaces` are the mount namespaces that are not
/// ours, of which `mounts` is the table.
pub fn accesses(
    paths: &[PathUse],
    namespaces: &Namespaces,
    mounts: &MountTable,
    blocks: &mut dyn Blocks,
) -> LookedUp {
    let walked = Walks::new(paths, mounts).through(namespaces);
    let mut counts = walked.counts;
    let mut accesses = Vec::new();
    let mut known: HashSet<Need> = HashSet::new();
    for wanted in walked.wanted {
        if known.contains(&wanted.need) {
            continue;
        }
        counts.look_ups += u64::from(matches!(wanted.need, Need::Step(WalkStep::LookUp { .. })));
        let time_ns = paths[wanted.path].time_ns;
        for pages in blocks.pages(&wanted.need) {
            accesses.push(access(time_ns, wanted.need.dev(), pages));
        }
        known.insert(wanted.need);
    }
    LookedUp {
        accesses,
        counts,
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
