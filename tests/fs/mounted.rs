//! Finding mounted file systems, their devices and their files.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use paralfetch::fs::ext4::Ext4;
use paralfetch::fs::handle::{inode_generation, open_by_ino, open_cached_file, path_in_fs};
use paralfetch::fs::mounts::{MountTable, fs_uuid};
use paralfetch::fs::{blockdev, residency};
use rustix::io::Errno;

use common::{LoopExt4, Mounted, privileged};

#[test]
fn a_file_system_is_found_by_device_and_by_uuid() {
    if !privileged() {
        return;
    }
    let uuid: [u8; 16] = std::array::from_fn(|index| 0x11 + index as u8);
    let image = LoopExt4::new(16, &["-U", "11121314-1516-1718-191a-1b1c1d1e1f20"]);
    let dev = fs::metadata(image.mount_point()).unwrap().dev();
    let mounts = MountTable::read().unwrap();
    let mountinfo = fs::read("/proc/self/mountinfo").unwrap();
    let lines = mountinfo.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(mounts.mounts().len(), lines);
    assert_eq!(mounts.fs_type(dev), Some("ext4"));
    assert_eq!(mounts.with_uuid(&uuid), [dev]);
    let open = mounts.open_root(dev).unwrap();
    assert_eq!(open.mount.mount_point, image.mount_point());
    assert_eq!(fs_uuid(open.fd.as_fd()).unwrap(), uuid);
    assert_eq!(
        blockdev::node(dev, &mounts).as_deref(),
        Some(image.device())
    );
    assert_eq!(
        image.device().file_name().unwrap().to_str(),
        Some(blockdev::name(dev).as_str())
    );
    let by_number = Ext4::of_device(dev, &mounts).unwrap();
    let by_path = Ext4::open(image.device()).unwrap();
    assert_eq!(by_number.blocks(), by_path.blocks());

    // What covers the mount is never taken for it.
    let cover = Mounted::new("tmpfs", "none", image.mount_point());
    let covered = MountTable::read().unwrap();
    // Nor by the older table, which does not know of the cover.
    for table in [&covered, &mounts] {
        let error = table.open_root(dev).unwrap_err().to_string();
        assert!(error.contains("is covered by another mount"), "{error}");
    }
    drop(cover);
    // Nor what covers a directory above.
    let above = image.mount_point().parent().unwrap();
    let cover = Mounted::new("tmpfs", "none", above);
    let error = mounts.open_root(dev).unwrap_err().to_string();
    assert!(error.contains("is covered by another mount"), "{error}");
    drop(cover);
    assert!(mounts.open_root(dev).is_ok());
}

#[test]
fn files_open_by_inode_number_until_they_are_gone() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(16, &[]);
    let path = image.mount_point().join("file");
    fs::write(&path, "content").unwrap();
    let file = OwnedFd::from(File::open(&path).unwrap());
    let (ino, generation) = (
        fs::metadata(&path).unwrap().ino(),
        inode_generation(&file).unwrap(),
    );
    let mounts = MountTable::read().unwrap();
    let open = mounts
        .open_root(fs::metadata(&path).unwrap().dev())
        .unwrap();
    let by_ino = |ino, generation| {
        let opened = open_cached_file(&open, ino, generation);
        opened.map(|file| file.fd)
    };
    let errno = |result: std::io::Result<OwnedFd>| Errno::from_io_error(&result.unwrap_err());

    let opened = by_ino(ino, generation).unwrap();
    assert_eq!(path_in_fs(opened.as_fd(), &open), Some(b"/file".to_vec()));
    assert_eq!(errno(by_ino(ino, generation ^ 1)), Some(Errno::STALE));
    assert_eq!(errno(by_ino(1 << 32, generation)), Some(Errno::OVERFLOW));
    // Generation 0 is a generation like any other.
    assert_ne!(generation, 0);
    assert_eq!(errno(by_ino(ino, 0)), Some(Errno::STALE));

    // A name that looks like a deleted file's.
    let odd = image.mount_point().join("odd (deleted)");
    fs::rename(&path, &odd).unwrap();
    assert_eq!(
        path_in_fs(opened.as_fd(), &open),
        Some(b"/odd (deleted)".to_vec())
    );
    fs::remove_file(&odd).unwrap();
    assert_eq!(path_in_fs(opened.as_fd(), &open), None);
    drop((opened, file));
    assert_eq!(errno(by_ino(ino, generation)), Some(Errno::STALE));
}

#[test]
fn paths_below_a_bind_mount_begin_at_the_file_system() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(16, &[]);
    let (inside, outside) = (
        image.mount_point().join("sub/in"),
        image.mount_point().join("out"),
    );
    fs::create_dir(image.mount_point().join("sub")).unwrap();
    fs::write(&inside, "in").unwrap();
    fs::write(&outside, "out").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let target = fs::canonicalize(directory.path()).unwrap();
    let _bind = Mounted::bind(&image.mount_point().join("sub"), &target);

    // A view of the system in which the file system is mounted there only.
    let whole = format!(" {} ", image.mount_point().display());
    let view: String = fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .filter(|line| !line.contains(&whole))
        .map(|line| format!("{line}\n"))
        .collect();
    let open = MountTable::parse(view.as_bytes())
        .open_root(fs::metadata(&inside).unwrap().dev())
        .unwrap();
    assert_eq!(open.mount.root, b"/sub");
    for (path, expected) in [(&inside, Some(b"/sub/in".to_vec())), (&outside, None)] {
        let generation = inode_generation(&File::open(path).unwrap().into()).unwrap();
        let ino = fs::metadata(path).unwrap().ino();
        let file = open_by_ino(&open, ino, generation).unwrap();
        assert_eq!(path_in_fs(file.as_fd(), &open), expected, "{path:?}");
    }
}

#[test]
fn a_written_file_is_cached_to_its_end_and_no_further() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(32, &["-b", "4096"]);
    // With smaller blocks, the last page would be up to date in part, which does not count.
    let path = image.mount_point().join("file");
    fs::write(&path, vec![1; 5 * 4096 + 1]).unwrap();
    let file = File::open(&path).unwrap();
    // Dirty pages stay, even if another test drops caches.
    let cached = residency::cached(file.as_fd(), &(1..100)).unwrap();
    assert!(
        cached.iter().cloned().eq(std::iter::once(1..6)),
        "{cached:?}"
    );
}
