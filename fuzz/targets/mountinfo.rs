//! Any bytes as a mount table: another mount namespace's is written by the user who has made it.
use paralfetch::fs::mounts::MountTable;

pub fn check(text: &[u8]) {
    let table = MountTable::parse(text);
    for mount in table.mounts() {
        assert!(mount.mount_point.is_absolute() && mount.root.starts_with(b"/"));
        assert!(table.by_id(mount.id).is_some() && table.fs_type(mount.dev).is_some());
    }
}
