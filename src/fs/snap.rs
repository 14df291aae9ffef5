//! Snaps: images of which an update mounts the new one beside the old one.

use std::path::Path;

use super::mounts::MountTable;

/// Where snaps are mounted, each revision in a directory of the snap's own.
const SNAPS: [&str; 2] = ["/snap", "/var/lib/snapd/snap"];

/// The link beside the revisions that names the one in use.
const CURRENT: &str = "current";

/// Whether the file system on a device (`st_dev`) is a revision of a snap in whose place an update has put another. It may stay
/// mounted for months.
pub fn is_outdated(dev: u64, mounts: &MountTable) -> bool {
    let snaps = SNAPS.map(Path::new);
    let mut mounts = mounts.of_device(dev);
    mounts.any(|mount| is_outdated_below(&snaps, &mount.mount_point))
}

fn is_outdated_below(snaps: &[&Path], mount_point: &Path) -> bool {
    let (Some(snap), Some(revision)) = (mount_point.parent(), mount_point.file_name()) else {
        return false;
    };
    if !snap.parent().is_some_and(|above| snaps.contains(&above)) {
        return false;
    }
    let current = std::fs::read_link(snap.join(CURRENT));
    current.is_ok_and(|current| current.file_name().is_some_and(|name| name != revision))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_revision_is_outdated_once_the_link_beside_it_names_another() {
        let dir = tempfile::tempdir().unwrap();
        let snap = dir.path().join("snap/app");
        std::fs::create_dir_all(&snap).unwrap();
        let snaps = dir.path().join("snap");
        let is_outdated = |revision: &str| is_outdated_below(&[&snaps], &snap.join(revision));
        assert!(!is_outdated("7"), "no link");
        symlink("8", snap.join(CURRENT)).unwrap();
        assert!(is_outdated("7"));
        assert!(!is_outdated("8"));
        // Elsewhere, such a link means nothing.
        assert!(!is_outdated_below(&[dir.path()], &snap.join("7")));
        assert!(!is_outdated_below(&[&snaps], Path::new("/")));
    }
}
