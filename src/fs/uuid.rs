//! A mounted file system's UUID, as the kernel reports it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `EXT4_IOC_GETFSUUID` (Linux 6.0): `_IOR('f', 44, struct fsuuid)`; the array does not count towards the
/// size.
const EXT4_IOC_GETFSUUID: libc::Ioctl = 0x8008_662c_u32 as libc::Ioctl;

/// `FS_IOC_GETFSUUID` (Linux 6.9): `_IOR(0x15, 0, struct fsuuid2)`.
const FS_IOC_GETFSUUID: libc::Ioctl = 0x8011_1500_u32 as libc::Ioctl;

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

/// UUID of the file system that an open file or directory belongs to.
///
/// # Errors
/// Those of ioctl(2): `ENOTTY` on kernels before 6.0 and on file systems without a UUID.
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
