//! Examining open files and directories by what the kernel has in memory, without asking a server or a
//! user-space process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, makedev,
    openat2, statx,
};
use rustix::io::Errno;

use super::kind::FsKind;

/// Flags to examine a node or to look names up in a directory: runs no driver and follows no link.
pub const O_LOOKUP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What statx(2) says about a node.
pub struct OpenNode {
    /// Device (`st_dev`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Number of the mount that it was reached through.
    pub mount: u64,
    /// Its type.
    pub kind: FileType,
    /// Whose it is.
    pub uid: u32,
    /// Whether the file system keeps it encrypted (fscrypt).
    pub is_encrypted: bool,
}

impl OpenNode {
    /// Examines an open node.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn of(fd: &OwnedFd) -> io::Result<OpenNode> {
        // linux/stat.h; not among rustix's flags.
        const AT_STATX_DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::UID | StatxFlags::MNT_ID;
        let stat = statx(fd, "", AtFlags::EMPTY_PATH | AT_STATX_DONT_SYNC, wanted)?;
        Ok(OpenNode {
            dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            mount: stat.stx_mnt_id,
            kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
            uid: stat.stx_uid,
            is_encrypted: stat.stx_attributes.contains(StatxAttributes::ENCRYPTED),
        })
    }
}

/// Attempts to look a path up in what the kernel has cached: renames and mounts disturb that.
const ATTEMPTS: u32 = 4;

/// Opens what a path leads to, behind symbolic links, with O_PATH, if the kernel knows the whole path without asking a drive,
/// a server or another process. It does right after a process has used the path, and of a mount point.
pub fn open_cached(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open = || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
    let mut opened = open();
    for _ in 1..ATTEMPTS {
        if matches!(opened, Err(Errno::AGAIN)) {
            opened = open();
        }
    }
    opened.ok()
}

/// The half of this UUID by which a file system of this kind is told from others: what statfs(2) tells in `f_fsid` of
/// ext2, ext3 and ext4, and of a subvolume of btrfs by what [`fs_uuid`] makes of both; for XFS made likewise.
pub fn fs_id(kind: FsKind, uuid: &[u8; 16]) -> u64 {
    let whole = u128::from_le_bytes(*uuid);
    match kind {
        FsKind::Ext4 | FsKind::Xfs => whole as u64 ^ (whole >> 64) as u64,
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
/// Those of ioctl(2): `ENOTTY` on other file systems.
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

/// UUID of the file system that an open file or directory belongs to. A subvolume of btrfs has that of the whole with its
/// own number in the last eight bytes (by exclusive or): a snapshot has the inode numbers of what it was made of.
///
/// # Errors
/// Those of ioctl(2): `ENOTTY` on file systems without a UUID, or that the kernel does not tell it of.
pub fn fs_uuid(file: BorrowedFd<'_>) -> io::Result<[u8; 16]> {
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

    use rustix::fs::{fstatvfs, open};

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
