//! Changing a stored profile: scheduling it with other parameters, and following its files.
//!
//! A profile holds the schedule with the times of first access. These suffice for another metadata shift. To
//! merge otherwise, the launch sequence is needed, which is kept beside the profile, and disk positions, which
//! are looked up again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, statat};

use crate::fs::fiemap::{extents, pieces};
use crate::fs::handle::{self, CachedFile};
use crate::fs::mounts::{MountTable, OpenMount};
use crate::model::{Device, DeviceParams, File, PAGE_SIZE, Params, Place, Profile, Revision};
use crate::policy::{Finding, TunedParameter, check_files};
use crate::schedule::{Located, reorder, resequence, schedule_for};
use crate::service::cached_profile::main_class;
use crate::service::clock::now_s;

/// The profile with other parameters, which are added to its history; `None` if the schedule would be the
/// same. `sequence` is the launch sequence that was kept beside it, as a profile whose entries are in access
/// order.
///
/// # Errors
/// Why it cannot be done.
pub fn reschedule(
    mut profile: Profile,
    sequence: Option<Profile>,
    params: Params,
) -> Result<Option<Profile>, String> {
    let in_force = profile.history.last().map(|revision| revision.params);
    let class = main_class(&profile);
    let of_devices = DeviceParams::new(&profile.devices, class, params);
    let tuned = in_force.and_then(|in_force| TunedParameter::of(class, &in_force));
    let entries = if tuned.is_some_and(TunedParameter::is_order_only) {
        reorder(&profile.entries, &profile.files, &of_devices)
    } else {
        let sequence = sequence
            .filter(|sequence| sequence.created == profile.created)
            .ok_or("the launch sequence is not there any more")?;
        let mounts = ProfileMounts::open(&profile)?;
        let mut files = HashMap::new();
        let locate = |file, pages| mounts.locate(&mut files, file, pages);
        let found = resequence(&sequence.entries, locate);
        if found.log.is_empty() {
            return Err("none of its files can be found on their disks".to_owned());
        }
        schedule_for(&found.log, &of_devices)
    };
    if entries == profile.entries {
        return Ok(None);
    }
    profile.entries = entries;
    let time = now_s();
    profile.history.push(Revision { time, params });
    Ok(Some(profile))
}

/// A profile whose files were checked.
pub struct Refreshed {
    /// Without its obsolete entries; replaced files were found again by their paths.
    pub profile: Profile,
    /// The launch sequence kept beside it, likewise: a later schedule is made from it.
    pub sequence: Option<Profile>,
    /// Entries of the profile that were dropped, cut short, or of replaced files.
    pub obsolete: u64,
}

/// Checks the files of a profile; `None` if no entry is obsolete. `sequence` is the launch sequence that is kept
/// beside it.
pub fn refresh(profile: Profile, sequence: Option<Profile>) -> Option<Refreshed> {
    let mounts = ProfileMounts::open(&profile).ok()?;
    let mut replacements = HashMap::new();
    let found: Vec<Finding> = (0..)
        .zip(&profile.files)
        .map(|(index, file)| mounts.check(file, |new| drop(replacements.insert(index, new))))
        .collect();
    let checked = check_files(&profile.entries, &found);
    if checked.obsolete == 0 {
        return None;
    }
    let sequence = sequence
        .filter(|kept| kept.created == profile.created && kept.files == profile.files)
        .map(|mut kept| {
            kept.entries = check_files(&kept.entries, &found).entries;
            follow_replaced(kept, &replacements)
        });
    let mut profile = Profile {
        entries: checked.entries,
        obsolete: 0,
        ..profile
    };
    profile = follow_replaced(profile, &replacements);
    Some(Refreshed {
        profile,
        sequence,
        obsolete: checked.obsolete,
    })
}

/// Enters the files that have taken the place of others, and cuts their entries to their size.
fn follow_replaced(mut profile: Profile, replacements: &HashMap<u32, File>) -> Profile {
    for (&index, new) in replacements {
        profile.files[index as usize] = new.clone();
    }
    for entry in &mut profile.entries {
        if let Place::Data { file } = entry.span.place
            && let Some(new) = replacements.get(&file)
        {
            let pages = new.size.div_ceil(PAGE_SIZE);
            entry.span.len = entry.span.len.min(pages.saturating_sub(entry.span.start));
        }
    }
    profile.entries.retain(|entry| entry.span.len > 0);
    profile
}

/// The mounted file systems of a profile.
struct ProfileMounts<'a> {
    files: &'a [File],
    /// In the order of the profile's devices; `None` for those that are not mounted.
    mounts: Vec<Option<OpenMount>>,
}

impl<'a> ProfileMounts<'a> {
    fn open(profile: &'a Profile) -> Result<Self, String> {
        let table =
            MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
        let open = |device: &Device| table.open_root(table.find_uuid(&device.fs_uuid)?).ok();
        Ok(ProfileMounts {
            files: &profile.files,
            mounts: profile.devices.iter().map(open).collect(),
        })
    }

    fn mount(&self, file: &File) -> Option<&OpenMount> {
        self.mounts[usize::from(file.device)].as_ref()
    }

    /// Where pages of a file lie on its disk. `opened` are the files that were opened so far.
    fn locate(
        &self,
        opened: &mut HashMap<u32, Option<CachedFile>>,
        index: u32,
        pages: Range<u64>,
    ) -> Vec<Located> {
        let Some(file) = self.files.get(index as usize) else {
            return Vec::new();
        };
        let entry = opened.entry(index).or_insert_with(|| {
            let mount = self.mount(file)?.fd.as_fd();
            handle::open_cached_file(mount, file.ino, file.generation).ok()
        });
        let Some(open) = entry else { return Vec::new() };
        let found = extents(open.fd.as_fd(), pages.start, pages.end - pages.start);
        let device = file.device;
        pieces(pages, &found.unwrap_or_default())
            .into_iter()
            .map(|(pages, lba)| Located { device, pages, lba })
            .collect()
    }

    /// What has become of a file since the profile was made. `replace` takes the file that has its path now.
    fn check(&self, file: &File, replace: impl FnOnce(File)) -> Finding {
        // Paths in a profile start at the file system's own root.
        let Some(mount) = self.mount(file).filter(|mount| mount.mount.root == b"/") else {
            return Finding::Away;
        };
        if let Some(stat) = find(file, mount) {
            let size = stat.st_size as u64;
            let pages = size.div_ceil(PAGE_SIZE);
            return match size < file.size {
                true => Finding::Truncated { pages },
                false => Finding::There,
            };
        }
        match replacement(file, mount) {
            Some(new) => {
                replace(new);
                Finding::Replaced
            }
            None => Finding::Gone,
        }
    }
}

/// The file itself, if it is still there.
fn find(file: &File, mount: &OpenMount) -> Option<Stat> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = handle::open_by_ino(mount.fd.as_fd(), file.ino, file.generation, flags).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    (stat.st_nlink > 0).then_some(stat)
}

/// The file that the path of a lost one leads to now, if it is a regular file of the same file system.
fn replacement(file: &File, mount: &OpenMount) -> Option<File> {
    let path = OsStr::from_bytes(file.path.as_deref()?.strip_prefix(b"/")?);
    let stat = statat(&mount.fd, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_dev != mount.mount.dev {
        return None;
    }
    let flags = OFlags::RDONLY
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::NOATIME
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&mount.fd, path, flags, Mode::empty()).ok()?;
    let generation = handle::inode_generation(&fd).ok()?;
    Some(File {
        ino: stat.st_ino,
        generation,
        size: stat.st_size as u64,
        mtime_ns: stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec as i64,
        ..file.clone()
    })
}
