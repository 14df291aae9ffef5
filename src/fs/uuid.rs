//! The UUIDs by which file systems, and subvolumes of btrfs, are found again, and the ids that are made of them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{fstat, fstatfs, fstatvfs};

use super::kind::FsKind;

/// The half of this UUID by which a file system of this kind is told from others: what statfs(2) tells in `f_fsid` of
/// ext2, ext3 and ext4, and of a subvolume of btrfs by what [`fs_uuid`] makes of both; for the others made likewise.
pub fn fs_id(kind: FsKind, uuid: &[u8; 16]) -> u64 {
    let whole = u128::from_le_bytes(*uuid);
    match kind {
        FsKind::Ext4 | FsKind::Xfs | FsKind::Erofs | FsKind::Squashfs => {
            whole as u64 ^ (whole >> 64) as u64
        }
        FsKind::Btrfs => {
            let half = whole.swap_bytes() as u64 ^ (whole.swap_bytes() >> 64) as u64;
            half.rotate_left(32)
        }
    }
}

/// `EXT4_IOC_GETFSUUID` (Linux 6.0): `_IOR('f', 44, struct fsuuid)`; the array does not count towards the
/// size.
const EXT4_IOC_GETFSUUID: libc::Ioctl = 0x8008_662c_u32 as libc::Ioctl;

/// `FS_IOC_GETFSUUID` (Linux 6.9): `_IOR(0x15, 0, struct fsuuid2)`. Kernels that mount ext2 by a driver of its own
/// answer this one alone.
const FS_IOC_GETFSUUID: libc::Ioctl = 0x8011_1500_u32 as libc::Ioctl;

/// `XFS_IOC_FSGEOMETRY_V1`: `_IOR('X', 100, struct xfs_fsop_geom_v1)`. Before Linux 6.9, XFS answers no other.
const XFS_IOC_FSGEOMETRY_V1: libc::Ioctl = 0x8070_5864_u32 as libc::Ioctl;

/// `BTRFS_IOC_FS_INFO`: `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`.
const BTRFS_IOC_FS_INFO: libc::Ioctl = 0x8400_941f_u32 as libc::Ioctl;

/// `BTRFS_IOC_INO_LOOKUP`: `_IOWR(0x94, 18, struct btrfs_ioctl_ino_lookup_args)`.
const BTRFS_IOC_INO_LOOKUP: libc::Ioctl = 0xd000_9412_u32 as libc::Ioctl;

/// `BTRFS_FIRST_FREE_OBJECTID`: the inode number of a subvolume's root directory.
pub const SUBVOLUME_ROOT: u64 = 256;

/// `EROFS_SUPER_MAGIC_V1` and `SQUASHFS_MAGIC`: what statfs(2) calls images that nobody writes.
const IMAGES: [i64; 2] = [0xe0f5_e1e2, 0x7371_7368];

/// ext4's `struct fsuuid`.
#[repr(C)]
struct ExtUuid {
    len: u32,
    flags: u32,
    uuid: [u8; 16],
}

/// `struct fsuuid2`.
#[repr(C)]
struct AnyUuid {
    len: u8,
    uuid: [u8; 16],
}

/// XFS's `struct xfs_fsop_geom_v1`.
#[repr(C)]
struct XfsGeometry {
    sizes: [u32; 8],
    blocks: [u64; 4],
    uuid: [u8; 16],
    others: [u32; 8],
}

/// The start of btrfs's `struct btrfs_ioctl_fs_info_args`, and room for the rest.
#[repr(C)]
struct BtrfsInfo {
    numbers: [u64; 2],
    uuid: [u8; 16],
    others: [u64; 124],
}

/// btrfs's `struct btrfs_ioctl_ino_lookup_args`.
#[repr(C)]
struct BtrfsLookUp {
    subvolume: u64,
    ino: u64,
    name: [u8; 4080],
}

/// Number of the subvolume of btrfs that an open file or directory belongs to.
///
/// # Errors
/// The errors of ioctl(2): `ENOTTY` on other file systems.
pub fn subvolume(file: BorrowedFd<'_>) -> io::Result<u64> {
    let mut found = BtrfsLookUp {
        subvolume: 0,
        ino: SUBVOLUME_ROOT,
        name: [0; 4080],
    };
    // SAFETY: the struct has btrfs's layout, of 4,096 bytes. Other file systems do not implement the request.
    if unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_INO_LOOKUP, &raw mut found) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.subvolume)
}

/// What the kernel has in memory of an image that nobody writes, in place of a UUID: the time of its root directory, how many
/// inodes it has, if that is known, and how many blocks. Images that agree in all of these are told apart by their files
/// ([`super::handle::open_known_file`]).
fn image_id(root: BorrowedFd<'_>) -> io::Result<[u8; 16]> {
    let (stat, size) = (fstat(root)?, fstatvfs(root)?);
    // Whoever made it may have chosen any time.
    let time_ns = (stat.st_mtime as u64).wrapping_mul(1_000_000_000);
    let time_ns = time_ns.wrapping_add(stat.st_mtime_nsec);
    let sizes = (size.f_files & u64::from(u32::MAX)) << 32 | size.f_blocks & u64::from(u32::MAX);
    Ok((u128::from(time_ns) << 64 | u128::from(sizes)).to_le_bytes())
}

/// UUID of the file system whose root directory is open. A subvolume of btrfs has that of the whole with its
/// own number in the last eight bytes (by exclusive or): a snapshot has the inode numbers of what it was made of. Images
/// that nobody writes and that have no UUID, or none that the kernel tells, have an id of their own that another mount
/// does not change.
///
/// # Errors
/// The errors of ioctl(2): `ENOTTY` on other file systems without a UUID, or that the kernel does not tell it of.
pub fn fs_uuid(root: BorrowedFd<'_>) -> io::Result<[u8; 16]> {
    let found = uuid_of(root);
    let is_known = found.as_ref().is_ok_and(|uuid| *uuid != [0; 16]);
    match is_known || !IMAGES.contains(&fstatfs(root)?.f_type) {
        true => found,
        false => image_id(root),
    }
}

fn uuid_of(file: BorrowedFd<'_>) -> io::Result<[u8; 16]> {
    let mut ext = ExtUuid {
        len: 16,
        flags: 0,
        uuid: [0; 16],
    };
    // SAFETY: the struct has ext4's layout, with room for the 16 bytes that `len` says. Other file systems do
    // not implement the request.
    if unsafe { libc::ioctl(file.as_raw_fd(), EXT4_IOC_GETFSUUID, &raw mut ext) } == 0 {
        return Ok(ext.uuid);
    }
    let mut xfs = XfsGeometry {
        sizes: [0; 8],
        blocks: [0; 4],
        uuid: [0; 16],
        others: [0; 8],
    };
    // SAFETY: the struct has XFS's layout, of 112 bytes. Other file systems do not implement the request.
    if unsafe { libc::ioctl(file.as_raw_fd(), XFS_IOC_FSGEOMETRY_V1, &raw mut xfs) } == 0 {
        return Ok(xfs.uuid);
    }
    let mut btrfs = BtrfsInfo {
        numbers: [0; 2],
        uuid: [0; 16],
        others: [0; 124],
    };
    // SAFETY: the struct has the 1,024 bytes of btrfs's. Other file systems do not implement the request.
    if unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_FS_INFO, &raw mut btrfs) } == 0 {
        let whole = u128::from_be_bytes(btrfs.uuid);
        return Ok((whole ^ u128::from(subvolume(file)?)).to_be_bytes());
    }
    let mut any = AnyUuid {
        len: 0,
        uuid: [0; 16],
    };
    // SAFETY: the kernel writes at most the 17 bytes of the struct.
    if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFSUUID, &raw mut any) } < 0 {
        return Err(io::Error::last_os_error());
    }
    match any.len {
        16 => Ok(any.uuid),
        _ => Err(io::Error::from_raw_os_error(libc::ENOTTY)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{Mode, OFlags, fstatvfs, open};

    use super::*;

    #[test]
    fn an_id_is_made_of_both_halves_of_the_uuid() {
        let uuid = std::array::from_fn(|index| index as u8 + 1);
        assert_eq!(fs_id(FsKind::Ext4, &uuid), 0x1808_0808_0808_0808);
        assert_eq!(fs_id(FsKind::Ext4, &[7; 16]), 0);
        // The answer of statfs(2) for subvolume 256 of a btrfs.
        let uuid = 0xfcef_857c_d957_4b60_a906_1aa2_36c7_8365 ^ 256_u128;
        let id = fs_id(FsKind::Btrfs, &uuid.to_be_bytes());
        assert_eq!(id, 0xef90_c905_55e9_9fde);
        // As the kernel has it, where these files lie on ext4.
        let here = open(env!("CARGO_MANIFEST_DIR"), OFlags::RDONLY, Mode::empty()).unwrap();
        const EXT4: i64 = 0xef53;
        if rustix::fs::fstatfs(&here).unwrap().f_type == EXT4
            && let Ok(uuid) = fs_uuid(here.as_fd())
        {
            assert_eq!(fstatvfs(&here).unwrap().f_fsid, fs_id(FsKind::Ext4, &uuid));
        }
    }
}
