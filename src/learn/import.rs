//! Making a profile of one that travels, for this machine: as if its launch had been recorded here.
//!
//! Each of its files counts if what is here at its path is the same version. Its reads and look-ups become accesses and uses
//! of paths, of which a launch sequence is made as of those of a launch: with the places of the pages on this drive, and the
//! metadata that they depend on here.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FileType, OFlags};

use super::export::file_version;
use super::sequence::{Earlier, Observed, Sequence, resolve};
use crate::drive::{MeasuredDrives, Sysfs, costs_of};
use crate::fs::handle::{CachedFile, inode_generation};
use crate::fs::mounts::MountTable;
use crate::fs::node::OpenNode;
use crate::fs::public_tree::{NotPublic, PublicTree};
use crate::fs::safe_open::directory_beneath;
use crate::kernel::{EVERY_USER, Namespaces, own_namespace};
use crate::model::{
    Access, App, By, DeviceParams, File, Hooks, InodeId, Learned, PathUse, Place, Profile,
    Revision, Source, Span, Use,
};
use crate::profile::{PortableFile, PortableProfile};
use crate::schedule::{formula, main_device, schedule_for};

/// How long the files and paths of a profile may be looked up.
const LOOKUP_LIMIT: Duration = Duration::from_secs(60);
const TOO_LATE: &str = "finding its files and paths on the drive took too long";

/// Share of the bytes, in percent, below which a profile is of another version of the app.
const LEAST_PERCENT: u64 = 50;

/// Start of the launch on the clock of the accesses that stand for it, in nanoseconds.
const START_NS: u64 = 1_000_000_000;

/// Where a profile that travels is to be used.
#[derive(Clone, Debug)]
pub struct ImportPlace {
    /// The directory that the app is chrooted into; `None` for the system itself.
    pub root: Option<PathBuf>,
    /// What kinds of drives there are.
    pub sysfs: Sysfs,
    /// Where it is kept what drives were measured to cost.
    pub state_dir: PathBuf,
}

/// How much of a profile that travels fits here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFit {
    /// Files that are the same here, and how many there are.
    pub files: (u64, u64),
    /// Bytes that are read of files that are the same here, and of all.
    pub bytes: (u64, u64),
    /// Why files do not fit, and how many for each reason.
    pub reasons: BTreeMap<String, u64>,
}

impl ProfileFit {
    /// Whether enough fits.
    fn is_enough(&self) -> bool {
        let percent = |share: u64, of: u64| u128::from(share) * u128::from(of);
        self.bytes.0 > 0 && percent(100, self.bytes.0) >= percent(LEAST_PERCENT, self.bytes.1)
    }

    /// One line on it.
    pub fn line(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let line = format!(
            "{} of {} files fit, {:.1} of {:.1} MiB",
            self.files.0,
            self.files.1,
            mib(self.bytes.0),
            mib(self.bytes.1)
        );
        let reasons = self
            .reasons
            .iter()
            .map(|(why, files)| format!("{files} {why}"));
        match self.reasons.is_empty() {
            true => line,
            false => format!("{line} ({})", reasons.collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Makes this machine's profile of one that travels. It is that of an app of every user, and `created_s` is when its text
/// was put in place, in seconds since the epoch.
///
/// # Errors
/// If less than half of what it reads is the same here, or the file systems cannot be asked.
pub fn import(
    portable: &PortableProfile,
    place: &ImportPlace,
    created_s: u64,
) -> Result<(Profile, ProfileFit), String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let root = place.root.as_deref().unwrap_or(Path::new("/"));
    let tree = PublicTree::open(root, &mounts)
        .map_err(|error| format!("cannot open {}: {error}", root.display()))?;
    let until = Instant::now() + LOOKUP_LIMIT;
    let is_late = || Instant::now() >= until;
    let (files, fit) = fitting_files(portable, &tree, &is_late).ok_or(TOO_LATE)?;
    if !fit.is_enough() {
        return Err(format!(
            "it is of another version of the app: {}",
            fit.line()
        ));
    }
    let accesses = accesses(portable, &files);
    let paths = path_uses(portable, &tree, &files)?;
    // What cannot be read is reported by `doctor` and `probe`.
    let measured = MeasuredDrives::load(&place.state_dir).unwrap_or_default();
    let costs = |dev| costs_of(dev, &place.sysfs, &mounts, &measured);
    let observed = Observed {
        accesses: &accesses,
        paths: &paths,
        namespaces: &Namespaces::default(),
        start_ns: START_NS,
        // It was elsewhere: no file was written by it, however new.
        started: SystemTime::now() + LOOKUP_LIMIT,
        touches: false,
        earlier: &Earlier::default(),
        uid: EVERY_USER,
    };
    let class = |dev| formula::class(&costs(dev));
    let sequence = resolve(&observed, &mounts, &class, &is_late).ok_or(TOO_LATE)?;
    let main = main_device(&sequence.log).ok_or("its files lie on no supported file system")?;
    let main = &sequence.devices[main];
    let params = formula::params(&costs(main.dev), true);
    let scheduling = DeviceParams::new(&sequence.devices, main.class, params);
    let bytes = |text: &String| text.clone().into_bytes();
    let profile = Profile {
        app: App {
            uid: EVERY_USER,
            path: bytes(&portable.app),
            root: place
                .root
                .as_ref()
                .map(|root| root.as_os_str().as_encoded_bytes().to_vec()),
            program: portable.program.as_ref().map(bytes),
            ..App::default()
        },
        created: created_s,
        learned: Learned::Imported,
        ended: portable.ended,
        hooks: Hooks::default(),
        history: vec![Revision {
            time: created_s,
            params,
        }],
        entries: schedule_for(&sequence.log, &scheduling),
        fault_around: Vec::new(),
        unused: Vec::new(),
        learned_at: Vec::new(),
        helpers: Vec::new(),
        completion: completion(portable, &files, &sequence),
        log_entries: u32::try_from(sequence.log.len()).unwrap_or(u32::MAX),
        obsolete: 0,
        devices: sequence.devices,
        files: sequence.files,
        operations: sequence.operations,
    };
    Ok((profile, fit))
}

/// The files of a profile that are the same here, in its order, and how many; `None` if that takes too long.
fn fitting_files(
    portable: &PortableProfile,
    tree: &PublicTree<'_>,
    is_late: &dyn Fn() -> bool,
) -> Option<(Vec<Option<InodeId>>, ProfileFit)> {
    let mut fit = ProfileFit::default();
    let mut files = Vec::new();
    for (file, bytes) in portable.files.iter().zip(portable.bytes_by_file()) {
        if is_late() {
            return None;
        }
        let found = fitting(file, tree);
        let fits = u64::from(found.is_ok());
        fit.files.0 += fits;
        fit.files.1 += 1;
        fit.bytes.0 = fit.bytes.0.saturating_add(bytes * fits);
        fit.bytes.1 = fit.bytes.1.saturating_add(bytes);
        if let Err(why) = &found {
            *fit.reasons.entry(why.clone()).or_default() += 1;
        }
        files.push(found.ok());
    }
    Some((files, fit))
}

fn fitting(file: &PortableFile, tree: &PublicTree<'_>) -> Result<InodeId, String> {
    let found = tree.find(&file.path).map_err(|why| why.to_string())?;
    if found.node.kind != FileType::RegularFile {
        return Err(NotPublic::Special.to_string());
    }
    let opened = CachedFile::open(&found.fd).map_err(|_| "not to be opened")?;
    if opened.size != file.size {
        return Err("of another size".to_owned());
    }
    if file_version(&opened) != file.version {
        return Err("of another version".to_owned());
    }
    Ok(InodeId {
        dev: found.node.dev,
        ino: found.node.ino,
        generation: inode_generation(&opened.fd).unwrap_or(0),
    })
}

/// The reads of files, as accesses of a launch.
fn accesses(portable: &PortableProfile, files: &[Option<InodeId>]) -> Vec<Access> {
    let mut accesses: Vec<Access> = portable
        .reads
        .iter()
        .filter_map(|read| {
            let inode = files[read.file as usize]?;
            Some(Access {
                time_ns: time_ns(read.time_us),
                dev: inode.dev,
                ino: inode.ino,
                generation: inode.generation,
                start: read.start,
                len: read.pages,
                source: Source::Read,
                by: By::Tree,
            })
        })
        .collect();
    accesses.sort_by_key(|access| access.time_ns);
    accesses
}

fn time_ns(time_us: u64) -> u64 {
    START_NS + time_us * 1000
}

/// The look-ups and listings, and the opening of each file before its first read, as uses of paths in time order.
fn path_uses(
    portable: &PortableProfile,
    tree: &PublicTree<'_>,
    files: &[Option<InodeId>],
) -> Result<Vec<PathUse>, String> {
    let cannot = |error: std::io::Error| format!("cannot examine the root directory: {error}");
    let root = OpenNode::of(tree.root()).map_err(cannot)?;
    let (root, root_mount) = (directory_inode(tree.root(), &root), mount_number(&root));
    let looked_up = |time_us: u64, path: &str| PathUse {
        // A look-up comes before what it is for.
        time_ns: time_ns(time_us) - 1,
        from: root,
        from_mount: root_mount,
        root,
        root_mount,
        mount_ns: own_namespace("mnt"),
        pid: 0,
        path: path.as_bytes().to_vec(),
        how: Use::LookUp { follow: true },
    };
    let mut opened: BTreeMap<u32, u64> = BTreeMap::new();
    for read in portable
        .reads
        .iter()
        .filter(|read| files[read.file as usize].is_some())
    {
        let first = opened.entry(read.file).or_insert(read.time_us);
        *first = read.time_us.min(*first);
    }
    let opened = opened
        .iter()
        .map(|(&file, &time_us)| (time_us, portable.files[file as usize].path.as_str()));
    let named = portable.look_ups.iter().chain(&portable.listings);
    let named = named.map(|used| (used.time_us, used.path.as_str()));
    let mut uses: Vec<PathUse> = opened
        .chain(named)
        .map(|(time_us, path)| looked_up(time_us, path))
        .collect();
    for listing in &portable.listings {
        let Ok(found) = tree.find(&listing.path) else {
            continue;
        };
        if found.node.kind == FileType::Directory {
            uses.push(PathUse {
                from: directory_inode(&found.fd, &found.node),
                from_mount: mount_number(&found.node),
                path: Vec::new(),
                how: Use::List,
                ..looked_up(listing.time_us, "")
            });
        }
    }
    uses.sort_by_key(|used| used.time_ns);
    Ok(uses)
}

fn mount_number(node: &OpenNode) -> u32 {
    u32::try_from(node.mount).unwrap_or(u32::MAX)
}

fn directory_inode(fd: impl AsFd, node: &OpenNode) -> InodeId {
    let opened = directory_beneath(fd, ".", OFlags::empty()).ok();
    InodeId {
        dev: node.dev,
        ino: node.ino,
        generation: opened
            .and_then(|dir| inode_generation(&dir).ok())
            .unwrap_or(0),
    }
}

/// The completion pages in the sequence's table of files, those whose files are the same here.
fn completion(
    portable: &PortableProfile,
    files: &[Option<InodeId>],
    sequence: &Sequence,
) -> Vec<Span> {
    let here = |&(file, page): &(u32, u64)| {
        let inode = (*files.get(file as usize)?)?;
        let is_it = |known: &File| {
            let dev = sequence.devices[usize::from(known.device)].dev;
            known.inode(dev) == inode
        };
        let file = u32::try_from(sequence.files.iter().position(is_it)?).ok()?;
        Some(Span::new(Place::Data { file }, page..page + 1))
    };
    portable.completion.iter().filter_map(here).collect()
}
