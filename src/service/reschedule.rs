//! Scheduling a profile anew: with other parameters, or after its files were replaced.
//!
//! The profile holds the schedule, and the times of first access with it: from these another metadata
//! shift follows at once. To merge otherwise, the launch sequence is needed, which is kept beside the
//! profile, and disk positions, which are asked for anew.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, statat};

use crate::fs::fiemap::extents;
use crate::fs::handle;
use crate::fs::mounts::MountTable;
use crate::model::{File, Profile, Revision};
use crate::model::{PAGE_SIZE, Params, Place, PrefetchEntry, SECTORS_PER_PAGE};
use crate::policy::{FileCheck, Finding, TunedParameter};
use crate::schedule::{Located, reorder, resequence, schedule};
use crate::service::cached_profile::main_class;
use crate::service::clock::now_s;

/// What came of it.
pub enum Rescheduled {
    /// The profile, with the new parameters in its history.
    Done(Box<Profile>),
    /// The schedule would be the same.
    NoEffect,
    /// It cannot be done.
    Failed(String),
}

/// The profile with other parameters. `sequence` is the launch sequence that was kept beside it, as a
/// profile whose entries are in access order.
pub fn reschedule(mut profile: Profile, sequence: Option<Profile>, params: Params) -> Rescheduled {
    let in_force = profile.history.last().map(|revision| revision.params);
    let order_only = in_force
        .and_then(|in_force| TunedParameter::of(main_class(&profile), &in_force))
        .is_some_and(TunedParameter::is_order_only);
    let entries = if order_only {
        reorder(&profile.entries, params.shift_bytes)
    } else {
        let Some(sequence) = sequence.filter(|sequence| sequence.created == profile.created) else {
            return Rescheduled::Failed("the launch sequence is not there any more".to_owned());
        };
        match merge_anew(&profile, &sequence.entries, &params) {
            Ok(entries) => entries,
            Err(why) => return Rescheduled::Failed(why),
        }
    };
    if entries == profile.entries {
        return Rescheduled::NoEffect;
    }
    profile.entries = entries;
    profile.history.push(Revision {
        time: now_s(),
        params,
    });
    Rescheduled::Done(Box::new(profile))
}

fn merge_anew(
    profile: &Profile,
    sequence: &[PrefetchEntry],
    params: &Params,
) -> Result<Vec<PrefetchEntry>, String> {
    let mut places = LocatedFiles::new(profile)?;
    let found = resequence(sequence, |file, pages| places.locate(file, pages));
    if found.log.is_empty() {
        return Err("none of its files can be found on their disks".to_owned());
    }
    Ok(schedule(&found.log, params))
}

/// The profile's devices and files, opened as they are needed.
struct LocatedFiles<'a> {
    profile: &'a Profile,
    roots: Vec<Option<OwnedFd>>,
    files: HashMap<u32, Option<OwnedFd>>,
}

impl<'a> LocatedFiles<'a> {
    fn new(profile: &'a Profile) -> Result<Self, String> {
        let mounts =
            MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
        let open = |device: &crate::model::Device| {
            let dev = mounts.find_uuid(&device.fs_uuid)?;
            Some(mounts.open_root(dev).ok()?.fd)
        };
        Ok(LocatedFiles {
            profile,
            roots: profile.devices.iter().map(open).collect(),
            files: HashMap::new(),
        })
    }

    fn locate(&mut self, file: u32, pages: Range<u64>) -> Vec<Located> {
        let Some(known) = self.profile.files.get(file as usize) else {
            return Vec::new();
        };
        let root = self.roots[usize::from(known.device)].as_ref();
        let fd = self.files.entry(file).or_insert_with(|| {
            let flags = OFlags::RDONLY
                | OFlags::NONBLOCK
                | OFlags::NOCTTY
                | OFlags::NOATIME
                | OFlags::NOFOLLOW
                | OFlags::CLOEXEC;
            handle::open_by_ino(root?.as_fd(), known.ino, known.generation, flags).ok()
        });
        let Some(fd) = fd else { return Vec::new() };
        // What cannot be told has no place.
        let found = extents(fd.as_fd(), pages.start, pages.end - pages.start).unwrap_or_default();
        found
            .iter()
            .filter(|extent| extent.has_lba())
            .map(|extent| {
                let start = extent.logical / PAGE_SIZE;
                Located {
                    device: known.device,
                    pages: start..extent.end().div_ceil(PAGE_SIZE),
                    lba: extent.physical / PAGE_SIZE * SECTORS_PER_PAGE,
                }
            })
            .collect()
    }
}

/// What has become of a profile's files since it was made, in the order of its file table.
pub fn look_at_files(profile: &Profile) -> Vec<FileCheck> {
    let Ok(mounts) = MountTable::read() else {
        return vec![AWAY; profile.files.len()];
    };
    let roots: Vec<Option<(u64, OwnedFd)>> = profile
        .devices
        .iter()
        .map(|device| {
            let dev = mounts.find_uuid(&device.fs_uuid)?;
            let open = mounts.open_root(dev).ok()?;
            // Paths in a profile start at the file system's own root.
            (open.mount.root == b"/").then_some((dev, open.fd))
        })
        .collect();
    profile
        .files
        .iter()
        .map(|file| match &roots[usize::from(file.device)] {
            Some((dev, root)) => look_at(file, *dev, root),
            None => AWAY,
        })
        .collect()
}

const AWAY: FileCheck = FileCheck {
    finding: Finding::Away,
    accessed_s: None,
};

fn look_at(file: &File, dev: u64, root: &OwnedFd) -> FileCheck {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let by_handle = handle::open_by_ino(root.as_fd(), file.ino, file.generation, flags);
    let found = by_handle
        .ok()
        .and_then(|fd| rustix::fs::fstat(&fd).ok())
        .filter(|stat| stat.st_nlink > 0);
    if let Some(stat) = found {
        let accessed_s = u64::try_from(stat.st_atime).ok();
        let size = stat.st_size as u64;
        let finding = if size < file.size {
            Finding::Truncated {
                pages: size.div_ceil(PAGE_SIZE),
            }
        } else {
            Finding::There
        };
        return FileCheck {
            finding,
            accessed_s,
        };
    }
    let finding = match replacement(file, dev, root) {
        Some(_) => Finding::Replaced,
        None => Finding::Gone,
    };
    FileCheck {
        finding,
        accessed_s: None,
    }
}

/// The file that the path of a lost one leads to now, if it is a regular file of the same file system.
fn replacement(file: &File, dev: u64, root: &OwnedFd) -> Option<File> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let path = file.path.as_deref()?.strip_prefix(b"/")?;
    let stat = statat(root, OsStr::from_bytes(path), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_dev != dev {
        return None;
    }
    let flags = OFlags::RDONLY
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::NOATIME
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(root, OsStr::from_bytes(path), flags, Mode::empty()).ok()?;
    let generation = handle::inode_generation(&fd).ok()?;
    Some(File {
        ino: stat.st_ino,
        generation,
        size: stat.st_size as u64,
        mtime_ns: stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec as i64,
        ..file.clone()
    })
}

/// Puts the files that took the place of others into the file table. Returns how many.
pub fn take_replacements(profile: &mut Profile, replaced: &[u32]) -> usize {
    let Ok(mounts) = MountTable::read() else {
        return 0;
    };
    let mut taken = 0;
    for &index in replaced {
        let Some(file) = profile.files.get(index as usize) else {
            continue;
        };
        let device = &profile.devices[usize::from(file.device)];
        let new = mounts.find_uuid(&device.fs_uuid).and_then(|dev| {
            let open = mounts.open_root(dev).ok()?;
            replacement(file, dev, &open.fd)
        });
        let Some(new) = new else { continue };
        let pages = new.size.div_ceil(PAGE_SIZE);
        for entry in &mut profile.entries {
            let of_file = entry.span.place == Place::Data { file: index };
            if of_file && entry.span.end() > pages {
                entry.span.len = pages.saturating_sub(entry.span.start);
            }
        }
        profile.files[index as usize] = new;
        taken += 1;
    }
    profile.entries.retain(|entry| entry.span.len > 0);
    taken
}
