//! A profile as its user may see it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fs::mounts::{Mount, MountTable};
use crate::fs::present::{Presence, present_devices};
use crate::fs::visible::VisibleNames;
use crate::model::Profile;

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

/// Hides the names by where the profile's file systems are mounted.
fn hide_names_in(profile: &mut Profile, uid: u32, mounts: &MountTable, present: &[Presence]) {
    let mut names = VisibleNames::new(uid, mounts);
    let roots: Vec<Option<&Mount>> = present
        .iter()
        .map(|presence| {
            let of_device = mounts.of_device(presence.dev()?);
            of_device.min_by_key(|mount| mount.root.len())
        })
        .collect();
    let mut may_know = |device: u16, path: &[u8]| {
        let mount = roots.get(usize::from(device)).copied().flatten();
        let path = mount.and_then(|mount| path_here(path, mount));
        path.is_some_and(|path| names.may_know(&path))
    };
    for file in &mut profile.files {
        file.path.take_if(|path| !may_know(file.device, path));
    }
    let operations = &mut profile.operations;
    operations.retain(|operation| may_know(operation.device, &operation.path));
}

/// Where a path from the root of a file system lies that is on this mount.
fn path_here(path: &[u8], mount: &Mount) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let root = Path::new(OsStr::from_bytes(&mount.root));
    Some(mount.mount_point.join(path.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::model::{File, Operation, OperationKind};
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
        let operation = |file: &File| Operation {
            device: file.device,
            path: file.path.clone().unwrap(),
            kind: OperationKind::LookUp,
            time_us: 0,
        };
        profile.operations = profile.files.iter().map(operation).collect();
        let told = |uid| {
            let mut profile = profile.clone();
            hide_names_in(&mut profile, uid, &mounts, &[Presence::On(found.dev())]);
            let told = profile.files.iter().map(|file| file.path.is_some());
            (told.collect::<Vec<_>>(), profile.operations)
        };
        let (all, first) = (&profile.operations, &profile.operations[..1]);
        assert_eq!(
            told(found.uid() + 1),
            (vec![true, false, false], first.to_vec())
        );
        assert_eq!(told(0), (vec![true, true, false], all[..2].to_vec()));
    }
}
