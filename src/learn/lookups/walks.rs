//! Walking each path through the mounts that it was looked up in.
//!
//! Another mount namespace is entered once, after the launch, and shows the mounts that it has then.
//! Sandboxes set theirs up before they execute the app, and few apps mount anything, so that these are the
//! app's mounts. While a sandbox is being set up, paths lead through mounts that it detaches in the end
//! (pivot_root(2) and a lazy umount(2)). Their numbers are no longer in the table. Such paths are walked
//! through our own mounts, since the namespace began with copies of them. Mounts that came and went in
//! between are not seen.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::live::Dir;
use super::walk::{Tree, WalkEnd, walk};
use super::{LiveTree, Need, PathCounts};
use crate::fs::mounts::MountTable;
use crate::fs::open_mount;
use crate::kernel::{Namespaces, own_namespace};
use crate::model::{InodeId, PathUse, Use};

/// Most starting directories that are kept open.
const MOST_STARTS: usize = 128;

/// Metadata that a path needs.
pub struct Wanted {
    /// Which of the paths.
    pub path: usize,
    /// What it needs.
    pub need: Need,
}

/// The walks of all paths.
pub struct Walks<'a> {
    paths: &'a [PathUse],
    mounts: &'a MountTable,
    /// What the paths need, in their order.
    pub wanted: Vec<Wanted>,
    /// How many paths there are.
    pub counts: PathCounts,
    /// What to tell the user, a line each.
    pub warnings: Vec<String>,
}

impl<'a> Walks<'a> {
    /// Before the first walk. `mounts` is the table of our own mount namespace.
    pub fn new(paths: &'a [PathUse], mounts: &'a MountTable) -> Self {
        Walks {
            paths,
            mounts,
            wanted: Vec::new(),
            counts: PathCounts {
                used: paths.len() as u64,
                ..PathCounts::default()
            },
            warnings: Vec::new(),
        }
    }

    /// Walks all paths. Namespaces are entered one after the other, so that only the directories of one are
    /// open at a time.
    pub fn through(mut self, namespaces: &Namespaces) -> Self {
        let own = own_namespace("mnt");
        let mut ours = Vec::new();
        let mut others: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, path) in self.paths.iter().enumerate() {
            if path.mount_ns == own {
                ours.push(at);
            } else {
                others.entry(path.mount_ns).or_default().push(at);
            }
        }
        for (number, theirs) in others {
            ours.extend(self.in_namespace(namespaces, number, theirs));
        }
        ours.sort_unstable();
        let mounts = open_mount::open(self.mounts, &self.mounts_of(&ours));
        self.walk(&mut LiveTree::new(self.mounts.clone(), mounts), &ours);
        self.wanted.sort_by_key(|wanted| wanted.path);
        self
    }

    /// Walks the paths of another namespace; returns those that have to be walked in ours.
    fn in_namespace(
        &mut self,
        namespaces: &Namespaces,
        number: u32,
        theirs: Vec<usize>,
    ) -> Vec<usize> {
        let entered = namespaces
            .get(number)
            .map(|namespace| open_mount::open_in(namespace, &self.mounts_of(&theirs)));
        let (table, mounts) = match entered {
            Some(Ok(entered)) => entered,
            Some(Err(error)) => {
                self.warnings
                    .push(format!("cannot enter the app's mount namespace: {error}"));
                self.counts.foreign += theirs.len() as u64;
                return theirs;
            }
            None => {
                self.counts.foreign += theirs.len() as u64;
                return theirs;
            }
        };
        let mut tree = LiveTree::of_namespace(table, mounts);
        let (inside, detached): (Vec<usize>, Vec<usize>) = theirs.into_iter().partition(|&at| {
            let path = &self.paths[at];
            tree.is_open(path.from_mount) && tree.is_open(path.root_mount)
        });
        self.walk(&mut tree, &inside);
        detached
    }

    /// The mounts that paths start from.
    fn mounts_of(&self, paths: &[usize]) -> BTreeSet<u32> {
        let paths = paths.iter().map(|&at| &self.paths[at]);
        paths
            .flat_map(|path| [path.root_mount, path.from_mount])
            .collect()
    }

    fn walk(&mut self, tree: &mut LiveTree, paths: &[usize]) {
        let mut starts: HashMap<(InodeId, u32), Option<Dir>> = HashMap::new();
        for &at in paths {
            let path = &self.paths[at];
            if starts.len() >= MOST_STARTS {
                starts.clear();
            }
            let mut start = |inode, mount| {
                let opened = starts.entry((inode, mount));
                opened
                    .or_insert_with(|| tree.directory(inode, mount))
                    .clone()
            };
            let from = start(path.from, path.from_mount);
            let (Some(from), Some(root)) = (from, start(path.root, path.root_mount)) else {
                continue;
            };
            let mut needed = Vec::new();
            needs(tree, path, &from, &root, &mut |need| needed.push(need));
            let mut hidden = false;
            for need in needed {
                let dev = need.dev();
                if !tree.is_ext4(dev) {
                    continue;
                }
                if self.mounts.fs_type(dev).is_none() {
                    hidden = true;
                } else {
                    self.wanted.push(Wanted { path: at, need });
                }
            }
            self.counts.hidden += u64::from(hidden);
        }
    }
}

/// What one path needs.
fn needs(tree: &mut LiveTree, path: &PathUse, from: &Dir, root: &Dir, visit: &mut dyn FnMut(Need)) {
    let mut steps = |tree: &mut LiveTree, from: &Dir, root: &Dir, path: &[u8], follow| {
        walk(tree, from, root, path, follow, &mut |step| {
            visit(Need::Step(step));
        })
    };
    match path.how {
        Use::LookUp { follow } => {
            steps(tree, from, root, &path.path, follow);
        }
        Use::Execute => {
            let end = steps(tree, from, root, &path.path, true);
            if let WalkEnd::Named { dir, name } = end
                && let Some(interpreter) = tree.interpreter(&dir, &name)
            {
                steps(tree, from, root, &interpreter, true);
            }
        }
        Use::List => visit(Need::List(tree.id(from))),
        Use::Enter => {
            if let Some((root, path)) = tree.path_to(from) {
                steps(tree, &root, &root, &path, true);
            }
        }
    }
}
