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
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::Stat;

use crate::drive::{MeasuredDrives, Sysfs, costs_of};
use crate::fs::fiemap::{extents, pieces, place_by_file};
use crate::fs::handle::{self, CachedFile};
use crate::fs::kind::FsKind;
use crate::fs::loop_image::image_of;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::present::{Presence, present_devices, probable_device};
use crate::fs::safe_open;
use crate::fs::snap::is_outdated;
use crate::learn::{FileMetadata, MissedReads, NotedReads};
use crate::model::{
    Device, DeviceParams, DriveCosts, File, Learned, LogEntry, PAGE_SIZE, Params, Place, Profile,
    Revision,
};
use crate::policy::{Finding, TunedParameter, check_files};
use crate::schedule::{Located, formula, main_device, reorder, resequence, schedule_for};
use crate::service::cached_profile::main_class;
use crate::service::clock::now_s;

/// How long the metadata of a profile's files may be looked up.
const LOOKUP_LIMIT: Duration = Duration::from_secs(30);

/// What other parameters make of a profile.
#[derive(Debug, PartialEq)]
pub enum Rescheduled<P = Profile> {
    /// A profile with another schedule. The parameters are added to its history.
    Anew(P),
    /// The schedule is the same.
    Same,
}

/// The profile with other parameters. `sequence` is the launch sequence that was kept beside it, as a profile whose
/// entries are in access order.
///
/// # Errors
/// Why it cannot be done.
pub fn reschedule(
    mut profile: Profile,
    sequence: Option<Profile>,
    params: Params,
) -> Result<Rescheduled, String> {
    let in_force = profile.history.last().map(|revision| revision.params);
    let class = main_class(&profile);
    let tuned = in_force.and_then(|in_force| TunedParameter::of(class, &in_force));
    let of_devices = DeviceParams::new(&profile.devices, class, params);
    let entries = if tuned.is_some_and(TunedParameter::is_order_only) {
        reorder(&profile.entries, &profile.files, &of_devices)
    } else {
        let sequence = sequence
            .filter(|sequence| sequence.created == profile.created)
            .ok_or("the launch sequence is not there any more")?;
        schedule_for(&find_sequence(&sequence)?, &of_devices)
    };
    if entries == profile.entries {
        return Ok(Rescheduled::Same);
    }
    profile.entries = entries;
    let time = now_s();
    profile.history.push(Revision { time, params });
    Ok(Rescheduled::Anew(profile))
}

/// The profile with the schedule that its drives ask for by what they were measured to cost, as it is kept in this
/// directory; its parameters begin anew. `None` if they are the same as those that it began with, or were given by hand.
///
/// # Errors
/// Why it cannot be made.
pub fn schedule_for_drives(
    profile: Profile,
    sequence: Option<Profile>,
    state_dir: &Path,
) -> Result<Option<Profile>, String> {
    let measured = MeasuredDrives::load(state_dir).map_err(|error| error.to_string())?;
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let sysfs = Sysfs::default();
    let costs_now = |device: &Device| {
        let dev = probable_device(device, &mounts)?;
        Some(costs_of(dev, &sysfs, &mounts, &measured))
    };
    let kept = sequence.filter(|sequence| sequence.created == profile.created);
    // Whoever has learned it by hand may have given other parameters, which nothing replaces.
    let of_class = Params::for_device(main_class(&profile), profile.learned.is_touched());
    let is_given = profile.learned != Learned::Live && profile.history[0].params != of_class;
    match kept {
        Some(sequence) if !is_given => {
            let log = find_sequence(&sequence)?;
            Ok(scheduled_by(profile, &log, costs_now))
        }
        _ => Ok(None),
    }
}

/// The profile of this launch sequence, scheduled by what reads from its devices cost; `None` if it has these parameters, or
/// if that is not known of the device that most is read from.
fn scheduled_by(
    mut profile: Profile,
    log: &[LogEntry],
    costs: impl Fn(&Device) -> Option<DriveCosts>,
) -> Option<Profile> {
    let known: Vec<Option<DriveCosts>> = profile.devices.iter().map(costs).collect();
    let main = main_device(log)?;
    let params = formula::params(known.get(main)?.as_ref()?, profile.learned.is_touched());
    let mut is_same = profile.history.first()?.params == params;
    for (device, costs) in profile.devices.iter_mut().zip(known) {
        let class = costs.map_or(device.class, |costs| formula::class(&costs));
        is_same &= device.class == class;
        device.class = class;
    }
    if is_same {
        return None;
    }
    let class = profile.devices[main].class;
    profile.entries = schedule_for(log, &DeviceParams::new(&profile.devices, class, params));
    let time = now_s();
    profile.history = vec![Revision { time, params }];
    Some(profile)
}

/// A launch sequence with the present places on the disks.
///
/// # Errors
/// Why they cannot be found.
fn find_sequence(sequence: &Profile) -> Result<Vec<LogEntry>, String> {
    let mounts = ProfileMounts::open(sequence)?;
    let mut files = HashMap::new();
    let locate = |file, pages| mounts.locate(&mut files, file, pages);
    let found = resequence(&sequence.entries, locate);
    match found.log.is_empty() {
        true => Err("none of its files can be found on their disks".to_owned()),
        false => Ok(found.log),
    }
}

/// A profile that has taken in what a prefetched launch missed.
pub struct Extended {
    /// Scheduled anew if anything has joined.
    pub profile: Profile,
    /// The launch sequence to be kept beside it.
    pub sequence: Profile,
    /// What has changed.
    pub noted: NotedReads,
}

/// Takes what a prefetched launch missed into a profile that was learned live, with the launch sequence that is kept
/// beside it. `None` if that changes nothing. A profile that was learned by hand is left as the user has made it.
///
/// # Errors
/// Why it cannot be done.
pub fn extend(
    mut profile: Profile,
    sequence: Option<Profile>,
    missed: &MissedReads,
) -> Result<Option<Extended>, String> {
    let kept = sequence.filter(|kept| kept.created == profile.created);
    let live = kept.filter(|_| profile.learned == Learned::Live);
    let (Some(mut sequence), Some(revision)) = (live, profile.history.last().copied()) else {
        return Ok(None);
    };
    let noted = missed.note(&mut profile, &mut sequence)?;
    if noted == NotedReads::default() {
        return Ok(None);
    }
    if noted.joined > 0 {
        let log = find_sequence(&sequence)?;
        let class = main_class(&profile);
        let params = DeviceParams::new(&profile.devices, class, revision.params);
        profile.entries = schedule_for(&log, &params);
        profile.log_entries = u32::try_from(log.len()).unwrap_or(u32::MAX);
        sequence.log_entries = profile.log_entries;
    }
    profile.fault_around.clone_from(&sequence.fault_around);
    profile.helpers.clone_from(&sequence.helpers);
    Ok(Some(Extended {
        profile,
        sequence,
        noted,
    }))
}

/// A profile whose files were checked.
pub struct Refreshed {
    /// Without its obsolete entries; replaced files were found again by their paths, with the metadata that
    /// they need now.
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
    let mounts = mounts.mounts;
    let lost = lost_files(&profile, &found);
    let mut sequence = sequence
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
    let kept = sequence.iter().flat_map(|kept| &kept.entries);
    let entries: Vec<_> = profile.entries.iter().chain(kept).copied().collect();
    let new = replacements.into_keys().collect();
    let until = Instant::now() + LOOKUP_LIMIT;
    let is_late = || Instant::now() >= until;
    let metadata = FileMetadata::find(&profile, &entries, &new, &lost, &mounts, &is_late);
    for profile in sequence.iter_mut().chain([&mut profile]) {
        profile.entries = metadata.apply(&profile.entries);
    }
    Some(Refreshed {
        profile,
        sequence,
        obsolete: checked.obsolete,
    })
}

/// The files that are not on their disks any more.
fn lost_files(profile: &Profile, found: &[Finding]) -> Vec<File> {
    let is_lost = |finding: &Finding| matches!(finding, Finding::Replaced | Finding::Gone);
    let files = profile.files.iter().zip(found);
    let lost = files.filter(|(_, finding)| is_lost(finding));
    lost.map(|(file, _)| file.clone()).collect()
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
    /// See [`crate::model::App::uid`].
    uid: u32,
    files: &'a [File],
    /// In the order of the profile's devices; `None` for those that are not mounted, or not known among several.
    mounts: Vec<Option<OpenMount>>,
    /// Devices (`st_dev`) of snaps that are outdated.
    outdated: Vec<u64>,
    /// Device and inode numbers of their images.
    outdated_images: Vec<(u64, u64)>,
}

impl<'a> ProfileMounts<'a> {
    fn open(profile: &'a Profile) -> Result<Self, String> {
        let table =
            MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
        let open = |presence: &Presence| table.open_root(presence.dev()?).ok();
        let outdated = table.served_devices(|mount| is_outdated(mount.dev, &table));
        let images = outdated.iter().filter_map(|&dev| image_of(dev, &table));
        Ok(ProfileMounts {
            outdated_images: images.collect(),
            outdated,
            uid: profile.app.uid,
            files: &profile.files,
            mounts: present_devices(profile, &table).iter().map(open).collect(),
        })
    }

    fn mount(&self, file: &File) -> Option<&OpenMount> {
        self.mounts[usize::from(file.device)].as_ref()
    }

    fn has_places(&self, file: &File) -> bool {
        let mount = self.mount(file);
        let kind = mount.and_then(|mount| mount.mount.kind());
        kind.is_some_and(FsKind::has_places)
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
            let mount = self.mount(file)?;
            handle::open_cached_file(mount, file.ino, file.generation).ok()
        });
        let Some(open) = entry else { return Vec::new() };
        let device = file.device;
        let placed = match self.has_places(file) {
            true => {
                let found = extents(open.fd.as_fd(), pages.start, pages.end - pages.start);
                pieces(pages, &found.unwrap_or_default())
            }
            false => vec![place_by_file(index, pages)],
        };
        placed
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
        let dev = mount.mount.dev;
        if self.outdated.contains(&dev) || self.outdated_images.contains(&(dev, file.ino)) {
            return Finding::Gone;
        }
        if let Some(stat) = find(file, mount) {
            let size = stat.st_size as u64;
            let pages = size.div_ceil(PAGE_SIZE);
            return match size < file.size {
                true => Finding::Truncated { pages },
                false => Finding::There,
            };
        }
        match replacement(file, mount, self.uid) {
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
    let fd = handle::open_by_ino(mount, file.ino, file.generation).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    (stat.st_nlink > 0).then_some(stat)
}

/// The file that the path of a lost one leads to now, if it is a regular file of the same file system and the user
/// whose launches the profile is for could have opened it by that path, or root alone has put it there. The path may
/// go through directories that the user can change: no symbolic link is followed.
fn replacement(file: &File, mount: &OpenMount, uid: u32) -> Option<File> {
    let path = Path::new(OsStr::from_bytes(file.path.as_deref()?));
    let found = safe_open::as_user(mount.fd.as_fd(), path, uid).ok()??;
    let new = CachedFile::open(&found).ok()?;
    Some(File {
        ino: new.ino,
        generation: handle::inode_generation(&new.fd).ok()?,
        size: new.size,
        mtime_ns: new.mtime_ns,
        ..file.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::fs::mounts::Mount;
    use crate::model::{DriveClass, ReadOrder, SECTORS_PER_PAGE, Span};
    use crate::profile::generate::sample;

    #[test]
    fn a_profile_follows_what_its_drive_was_measured_to_cost() {
        let profile = sample("/bin/app");
        let at = |page: u64, lba| LogEntry {
            span: Span {
                place: Place::Data { file: 0 },
                start: page,
                len: 1,
            },
            device: 0,
            lba: lba * SECTORS_PER_PAGE,
            time_us: page * 100,
        };
        let log = [at(0, 500), at(1, 100), at(2, 300)];
        let by = |profile: &Profile, costs| scheduled_by(profile.clone(), &log, |_| costs);
        assert_eq!(by(&profile, None), None);
        let flash = DriveCosts::of_class(DriveClass::CommandQueuing);
        assert_eq!(by(&profile, Some(flash)), None, "it has these parameters");
        let disk = DriveCosts::of_class(DriveClass::Rotational);
        let swept = by(&profile, Some(disk)).unwrap();
        let pages = |profile: &Profile| -> Vec<u64> {
            let entries = profile.entries.iter();
            entries.map(|entry| entry.span.start).collect()
        };
        assert_eq!(pages(&swept), [1, 2, 0]);
        assert_eq!(swept.devices[0].class, DriveClass::Rotational);
        assert_eq!(swept.history.len(), 1);
        assert_eq!(swept.history[0].params.order, ReadOrder::Disk);
        assert_eq!(by(&swept, Some(disk)), None);
        let again = by(&swept, Some(flash)).unwrap();
        assert_eq!(pages(&again), [0, 1, 2]);
    }

    #[test]
    fn a_replaced_file_is_found_neither_through_links_nor_where_its_user_cannot_read() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["data", "private"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("file"), "content").unwrap();
        }
        symlink("private", root.join("link")).unwrap();
        symlink("file", root.join("private/link")).unwrap();
        // Anybody may put names here, as a user may in his home directory.
        for (name, mode) in [("", 0o777), ("private", 0o700)] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty()).unwrap();
        let mount = OpenMount {
            mount: Mount {
                id: 1,
                parent: 0,
                dev: rustix::fs::fstat(&fd).unwrap().st_dev,
                root: b"/".to_vec(),
                mount_point: root.to_owned(),
                fs_type: "ext4".to_owned(),
                source: Vec::new(),
            },
            fd,
        };
        let find = |path: &str, uid| {
            let file = File {
                device: 0,
                ino: 1,
                generation: 1,
                size: 0,
                mtime_ns: 0,
                path: Some(path.as_bytes().to_vec()),
            };
            replacement(&file, &mount, uid).map(|new| new.size)
        };
        let own = rustix::process::geteuid().as_raw();
        // There are file systems without generations, where no file can be found again.
        let file = fs::File::open(root.join("data/file")).unwrap();
        let there = handle::inode_generation(&file.into()).ok().map(|_| 7);
        assert_eq!(find("/data/file", own), there);
        assert_eq!(find("/data/file", own + 1), there);
        assert_eq!(find("/private/file", own), there);
        for path in ["/private/file", "/link/file", "/data", "/absent"] {
            assert_eq!(find(path, own + 1), None, "{path}");
        }
        assert_eq!(find("/link/file", own), None);
        assert_eq!(find("/private/link", own), None);
    }
}
