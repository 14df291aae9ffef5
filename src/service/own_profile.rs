//! A profile as its user may see it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fs::mounts::{Mount, MountTable};
use crate::fs::present::{Presence, present_devices};
use crate::fs::visible::VisibleNames;
use crate::model::{File, Profile};

/// Takes the names of files away that this user could not list: processes of others may have read them for his app.
///
/// # Errors
/// When the mount table cannot be read.
pub fn hide_names(profile: &mut Profile, uid: u32) -> Result<(), String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let present = present_devices(profile, &mounts);
    hide_names_in(profile, uid, &mounts, &present);
    Ok(())
}

/// The same by where its file systems are mounted.
fn hide_names_in(profile: &mut Profile, uid: u32, mounts: &MountTable, present: &[Presence]) {
    let mut names = VisibleNames::new(uid, mounts);
    let roots: Vec<Option<&Mount>> = present
        .iter()
        .map(|presence| {
            let of_device = mounts.of_device(presence.dev()?);
            of_device.min_by_key(|mount| mount.root.len())
        })
        .collect();
    for file in &mut profile.files {
        let mount = roots.get(usize::from(file.device)).copied().flatten();
        let path = mount.and_then(|mount| path_here(file, mount));
        if !path.is_some_and(|path| names.may_know(&path)) {
            file.path = None;
        }
    }
}

/// Where a file lies that is on this mount.
fn path_here(file: &File, mount: &Mount) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(file.path.as_deref()?));
    let root = Path::new(OsStr::from_bytes(&mount.root));
    Some(mount.mount_point.join(path.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::profile::generate::sample;

    #[test]
    fn names_that_a_user_could_not_list_are_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        for (name, mode) in [("open", 0o755), ("closed", 0o711)] {
            fs::create_dir(dir.path().join(name)).unwrap();
            let permissions = Permissions::from_mode(mode);
            fs::set_permissions(dir.path().join(name), permissions).unwrap();
        }
        let found = fs::metadata(dir.path()).unwrap();
        let mounts = MountTable::read().unwrap();
        let Some(mount) = mounts
            .of_device(found.dev())
            .min_by_key(|mount| mount.root.len())
        else {
            // Temporary files lie on a file system that is not mounted as a whole, such as a btrfs volume.
            return;
        };
        let path_in_fs = |name: &str| {
            let path = fs::canonicalize(dir.path()).unwrap().join(name);
            let relative = path.strip_prefix(&mount.mount_point).ok()?;
            let root = Path::new(OsStr::from_bytes(&mount.root));
            Some(root.join(relative).into_os_string().as_bytes().to_vec())
        };
        let mut profile = sample("/opt/app");
        let file = |name: &str, device| File {
            device,
            path: path_in_fs(name),
            ..profile.files[0].clone()
        };
        let missing = u16::try_from(profile.devices.len()).unwrap();
        profile.files = vec![
            file("open/a", 0),
            file("closed/b", 0),
            file("open/c", missing),
        ];
        let told = |uid| {
            let mut profile = profile.clone();
            hide_names_in(&mut profile, uid, &mounts, &[Presence::On(found.dev())]);
            let told = profile.files.iter().map(|file| file.path.is_some());
            told.collect::<Vec<_>>()
        };
        assert_eq!(told(found.uid() + 1), [true, false, false]);
        assert_eq!(told(0), [true, true, false]);
    }
}
