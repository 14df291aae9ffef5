//! The metadata that path look-ups read (beyond the paper, which sees only what data depend on).
//!
//! Each path that the launch used is walked again (`walk`, in the `live` tree), and each step on its
//! way names blocks: those of the directory that the name hashes to, the inode's in its table, a link's
//! or an attribute's own. The answers become accesses of the launch tree, at the time of the path's
//! first use, which then take their place among those that were seen.

mod blocks;
mod live;
mod walk;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;

pub use live::LiveTree;
pub use walk::{Child, End, Id, Step, Tree, walk};

use super::mounts::MountTable;
use crate::trace::{Access, By, Inode, PathUse, Source, Use};

/// What became of a launch's paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paths {
    /// Paths, each counted once for the directory that it starts from.
    pub used: u64,
    /// Of these, those that start on a file system that is left out, or in a directory that is gone.
    pub elsewhere: u64,
    /// Of these, those looked up in another mount namespace, of which the mounts are not known: they
    /// were walked through ours.
    pub foreign: u64,
    /// Names looked up in directories, each counted once.
    pub look_ups: u64,
}

/// Something that reads metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// A step on the way of a path.
    Step(Step),
    /// Reading a whole directory.
    List(Id),
}

/// Tells where metadata lie.
pub trait Blocks {
    /// What is read for it, in order, in 4 KiB pages of the device.
    fn pages(&mut self, need: &Need) -> Vec<Range<u64>>;
}

/// The accesses to metadata that the paths stand for, in time order, none twice.
pub fn accesses(
    paths: &[PathUse],
    mounts: &MountTable,
    mount_ns: u32,
    blocks: &mut dyn Blocks,
) -> (Vec<Access>, Paths) {
    let mut tree = LiveTree::new(mounts);
    let mut counts = Paths::default();
    let mut found = Vec::new();
    let mut known: HashSet<Need> = HashSet::new();
    let mut starts: HashMap<Inode, Option<live::Dir>> = HashMap::new();
    for path in paths {
        counts.used += 1;
        counts.foreign += u64::from(path.mount_ns != mount_ns);
        let mut start = |inode| {
            let opened = starts.entry(inode);
            opened.or_insert_with(|| tree.directory(inode)).clone()
        };
        let (Some(from), Some(root)) = (start(path.from), start(path.root)) else {
            counts.elsewhere += 1;
            continue;
        };
        let mut visit = |need: Need, dev: u64| {
            if known.contains(&need) {
                return;
            }
            counts.look_ups += u64::from(matches!(need, Need::Step(Step::LookUp { .. })));
            for pages in blocks.pages(&need) {
                found.push(access(path.time_ns, dev, pages));
            }
            known.insert(need);
        };
        needs(&mut tree, path, &from, &root, &mut visit);
    }
    (found, counts)
}

/// What one path needs: each need with its device.
fn needs(
    tree: &mut LiveTree<'_>,
    path: &PathUse,
    from: &live::Dir,
    root: &live::Dir,
    visit: &mut dyn FnMut(Need, u64),
) {
    let mut steps =
        |tree: &mut LiveTree<'_>, from: &live::Dir, root: &live::Dir, path: &[u8], follow| {
            walk(tree, from, root, path, follow, &mut |step| {
                let dev = match &step {
                    Step::LookUp { dir, .. } => dir.0,
                    Step::Link(id) => id.0,
                };
                visit(Need::Step(step), dev);
            })
        };
    match path.how {
        Use::LookUp { follow } => {
            steps(tree, from, root, &path.path, follow);
        }
        Use::Execute => {
            let end = steps(tree, from, root, &path.path, true);
            if let End::Named { dir, name } = end {
                if let Some(interpreter) = tree.interpreter(&dir, &name) {
                    steps(tree, from, root, &interpreter, true);
                }
            }
        }
        Use::List => {
            let id = tree.id(from);
            visit(Need::List(id), id.0);
        }
        Use::Enter => {
            if let Some((top, way)) = tree.way_to(from) {
                steps(tree, &top, &top, &way, true);
            }
        }
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
