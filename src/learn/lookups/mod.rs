//! The metadata that path look-ups read (beyond the paper, which sees only what data depend on).
//!
//! Each path that the launch used is walked again, in the mount namespace that it was used in, and each step
//! on its way names blocks: those of the directory that the name hashes to, the inode's in its table, a long
//! link's own. They become accesses of the launch tree, at the time of the path's first use, and take their
//! place among those that were traced.
//!
//! A file that the launch used without such a path is walked to by its own.
//!
//! Where metadata are not read as blocks of a device, or the device cannot be read, the steps become operations
//! instead: paths that are looked up, and directories that are listed, ahead of the launch. They name what a path led to
//! behind all links, so that no link is followed when they are carried out.
//!
//! Another mount namespace is entered once, after the launch, and shows the mounts that it has then.
//! Sandboxes set theirs up before they execute the app, and few apps mount anything, so that these are the
//! app's mounts. While a sandbox is being set up, paths lead through mounts that it detaches in the end
//! (pivot_root(2) and a lazy umount(2)). Their numbers are no longer in the table. Such paths are walked
//! through our own mounts, since the namespace began with copies of them. Mounts that came and went in
//! between are not seen.

mod directories;
mod executed;
mod need;
mod operations;
mod unseen;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, openat};

use super::probe::LiveProbe;
use super::sequence::{Observed, PathCounts};
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::namespace::open_in;
use crate::fs::node::O_LOOKUP;
use crate::kernel::own_namespace;
use crate::model::{Access, By, PathUse, Source, Use};
use directories::{Dir, Directories};
use executed::{SeenLibraries, walk_executed};
use need::{Id, Need};
pub use operations::FsOperation;
use operations::LearnedOperations;
use unseen::Met;
use walk::walk;

/// Most accesses that paths add: as many as a profile has entries.
const MOST_ACCESSES: usize = 1 << 18;

/// What the paths of a launch read.
pub struct ImpliedReads {
    /// Accesses to metadata by paths, in time order: each was reported when it was over.
    pub of_paths: Vec<Access>,
    /// The way to files that no path led to, at the time of their first use, which it came before; in time order.
    pub of_files: Vec<Access>,
    /// Where metadata are not read as blocks.
    pub operations: Vec<FsOperation>,
    /// How many paths there were.
    pub counts: PathCounts,
}

/// What a launch's paths read of metadata, and the way to each file that it used; each need counts once. `mounts` is the
/// table of our own namespace.
pub fn implied_reads(
    observed: &Observed<'_>,
    mounts: &MountTable,
    probe: &mut LiveProbe<'_>,
) -> ImpliedReads {
    let paths = observed.paths;
    let is_late = probe.is_late;
    let mut walks = PathWalks {
        paths,
        uid: observed.uid,
        mounts,
        is_late,
        needs: HashMap::new(),
        directories: HashMap::new(),
        counts: PathCounts {
            used: paths.len() as u64,
            ..PathCounts::default()
        },
    };
    let mut others: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        others.entry(path.mount_ns).or_default().push(at);
    }
    let mut ours = others.remove(&own_namespace("mnt")).unwrap_or_default();
    // One after the other, so that only the directories of one are open at a time.
    for (number, theirs) in others {
        let left =
            walks.walk_in_namespace(observed.namespaces.get(number), theirs, &mut probe.warnings);
        ours.extend(left);
    }
    ours.sort_unstable();
    let open = mounts.open_wanted(&walks.mounts_of(&ours));
    let mut directories = Directories::new(mounts.clone(), open, true, observed.uid);
    walks.walk_all(&mut directories, &ours);
    walks.walk_to_unseen(&mut directories, observed.accesses, probe);
    walks.directories.extend(directories.into_paths());
    let mut operations = LearnedOperations::new(walks.directories);
    let needs = walks.needs.into_iter();
    let mut needs: Vec<(Moment, Need)> = needs.map(|(need, at)| (at, need)).collect();
    needs.sort_unstable_by_key(|&(at, _)| at);

    let (mut of_paths, mut of_files) = (Vec::new(), Vec::new());
    for (Moment { time_ns, walk, .. }, need) in needs {
        if !probe.finds_blocks(need.dev()) {
            operations.add(&need, time_ns);
            continue;
        }
        if of_paths.len() + of_files.len() > MOST_ACCESSES {
            let what = "the directories of its paths have more blocks than a profile; the rest is left out";
            probe.warnings.push(what.to_owned());
            break;
        }
        let accesses = match walk < paths.len() {
            true => &mut of_paths,
            false => &mut of_files,
        };
        accesses.extend(need.pages(probe).into_iter().map(|pages| Access {
            time_ns,
            dev: need.dev(),
            ino: 0,
            generation: 0,
            start: pages.start,
            len: pages.end - pages.start,
            source: Source::LookedUp,
            by: By::Tree,
        }));
    }
    if operations.is_full() {
        let what = "its paths lead to more names than a profile has look-ups; the rest is left out";
        probe.warnings.push(what.to_owned());
    }
    ImpliedReads {
        of_paths,
        of_files,
        operations: operations.finish(),
        counts: walks.counts,
    }
}

/// What opening files by their paths reads.
pub struct FilePaths {
    directories: Directories,
    /// Each need is asked for once.
    known: HashMap<Need, Vec<Range<u64>>>,
}

impl FilePaths {
    /// Of the file systems that are mounted here, with the eyes of the user `uid`.
    pub fn new(mounts: &MountTable, uid: u32) -> Self {
        FilePaths {
            directories: Directories::new(mounts.clone(), Vec::new(), true, uid),
            known: HashMap::new(),
        }
    }

    /// The metadata that are read to open a file, in 4 KiB pages of its device and in order. `path` leads to the
    /// file from the root of its file system, which `mount` shows as a whole. No link is followed.
    pub fn metadata(
        &mut self,
        mount: &OpenMount,
        path: &[u8],
        probe: &mut LiveProbe<'_>,
    ) -> Vec<Range<u64>> {
        if !self.directories.has_metadata(mount.mount.dev) {
            return Vec::new();
        }
        let root = openat(&mount.fd, ".", O_LOOKUP, Mode::empty()).ok();
        let Some(root) = root.and_then(|root| self.directories.opened(root)) else {
            return Vec::new();
        };
        let mut needs = Vec::new();
        walk(&mut self.directories, &root, &root, path, false, &mut needs);
        let is_here = |need: &Need| need.dev() == mount.mount.dev && !matches!(need, Need::Link(_));
        // A path in a profile led through no link when it was learned.
        let needs = needs.into_iter().take_while(is_here);
        let mut pages = Vec::new();
        for need in needs {
            let known = self.known.entry(need);
            let known = known.or_insert_with_key(|need| need.pages(probe));
            pages.extend(known.iter().cloned());
        }
        pages
    }
}

/// When something was needed: by time, walk and place in the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    /// CLOCK_MONOTONIC, in nanoseconds.
    time_ns: u64,
    /// Number of the path or, behind all paths, of the file.
    walk: usize,
    place: usize,
}

/// The walks of the paths that a launch used.
struct PathWalks<'a> {
    /// See [`Observed::uid`].
    uid: u32,
    paths: &'a [PathUse],
    mounts: &'a MountTable,
    is_late: &'a dyn Fn() -> bool,
    /// What the paths need, each with the first moment.
    needs: HashMap<Need, Moment>,
    /// The paths of directories from the roots of their file systems.
    directories: HashMap<Id, Vec<u8>>,
    counts: PathCounts,
}

impl PathWalks<'_> {
    /// Walks the paths of another namespace; returns those that have to be walked in ours.
    fn walk_in_namespace(
        &mut self,
        namespace: Option<BorrowedFd<'_>>,
        theirs: Vec<usize>,
        warnings: &mut Vec<String>,
    ) -> Vec<usize> {
        let wanted = self.mounts_of(&theirs);
        match namespace.map(|namespace| open_in(namespace, &wanted)) {
            Some(Ok((table, open))) => {
                let mut directories = Directories::new(table, open, false, self.uid);
                let (inside, detached) = theirs.into_iter().partition::<Vec<_>, _>(|&at| {
                    let path = &self.paths[at];
                    directories.is_open(path.from_mount) && directories.is_open(path.root_mount)
                });
                self.walk_all(&mut directories, &inside);
                self.directories.extend(directories.into_paths());
                return detached;
            }
            Some(Err(error)) => {
                warnings.push(format!("cannot enter the app's mount namespace: {error}"));
            }
            None => {}
        }
        self.counts.foreign += theirs.len() as u64;
        theirs
    }

    /// The mounts that paths start from.
    fn mounts_of(&self, paths: &[usize]) -> BTreeSet<u32> {
        let paths = paths.iter().map(|&at| &self.paths[at]);
        paths
            .flat_map(|path| [path.root_mount, path.from_mount])
            .collect()
    }

    fn walk_all(&mut self, directories: &mut Directories, paths: &[usize]) {
        let mut seen = SeenLibraries::default();
        for &at in paths {
            if (self.is_late)() {
                break;
            }
            let path = &self.paths[at];
            let from = directories.start(path.from, path.from_mount);
            let root = directories.start(path.root, path.root_mount);
            let (Some(from), Some(root)) = (from, root) else {
                continue;
            };
            let mut needs = Vec::new();
            walk_path(directories, path, &from, &root, &mut seen, &mut needs);
            needs.retain(|need| directories.is_served(need.dev()));
            let all = needs.len();
            needs.retain(|need| self.mounts.fs_type(need.dev()).is_some());
            self.counts.hidden += u64::from(needs.len() < all);
            self.add(needs, path.time_ns, at);
        }
    }

    /// Walks to the files that were used and that no path led to.
    fn walk_to_unseen(
        &mut self,
        directories: &mut Directories,
        accesses: &[Access],
        probe: &mut LiveProbe<'_>,
    ) {
        let met = Met::by(self.needs.keys());
        for (number, (time_ns, file)) in met.unseen_files(accesses).into_iter().enumerate() {
            // A file that is gone, or was written in the launch, has no place in a profile.
            let facts = probe.look_at(file, &[], &[]);
            let path = facts.ok().and_then(|(_, facts)| facts.path);
            let Some((root, path)) = path.and_then(|path| directories.in_fs(file.dev, &path))
            else {
                continue;
            };
            let steps = met.steps(directories, &root, &path, (file.dev, file.ino));
            self.add(steps, time_ns, self.paths.len() + number);
        }
    }

    /// Adds the needs of one walk.
    fn add(&mut self, needs: Vec<Need>, time_ns: u64, walk: usize) {
        for (place, need) in needs.into_iter().enumerate() {
            let moment = Moment {
                time_ns,
                walk,
                place,
            };
            let first = self.needs.entry(need).or_insert(moment);
            *first = moment.min(*first);
        }
    }
}

/// Adds what one path needs.
fn walk_path(
    directories: &mut Directories,
    path: &PathUse,
    from: &Dir,
    root: &Dir,
    seen: &mut SeenLibraries,
    needs: &mut Vec<Need>,
) {
    match path.how {
        Use::LookUp { follow } => {
            walk(directories, from, root, &path.path, follow, needs);
        }
        Use::Execute => walk_executed(directories, &path.path, from, root, seen, needs),
        Use::List => {
            directories.note_path(from);
            needs.push(Need::List(from.id));
        }
        Use::Enter => {
            if let Some((root, path)) = directories.path_to(from) {
                walk(directories, &root, &root, &path, true, needs);
            }
        }
    }
}
