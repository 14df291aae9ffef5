//! The files behind loop devices, from which images such as snaps are mounted.

use std::os::fd::AsRawFd;

use super::blockdev;
use super::mounts::MountTable;

/// `LOOP_GET_STATUS64`.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;

/// `LO_FLAGS_DIRECT_IO`: what is read of the file passes the page cache by.
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    positions: [u64; 3],
    numbers: [u32; 3],
    flags: u32,
    names: [u8; 160],
    others: [u64; 2],
}

/// Device (`st_dev`) and inode number of the file that the loop device `dev` (`st_rdev`) shows, if what is read of that file
/// goes through its page cache. `None` for other devices. Asks the kernel by the device's node and looks up no path of
/// the file, which may lie where nobody answers.
pub fn image_of(dev: u64, mounts: &MountTable) -> Option<(u64, u64)> {
    let node = blockdev::open(dev, mounts)?;
    let mut info = LoopInfo {
        device: 0,
        inode: 0,
        positions: [0; 3],
        numbers: [0; 3],
        flags: 0,
        names: [0; 160],
        others: [0; 2],
    };
    // SAFETY: the struct has the kernel's layout, of 232 bytes. Drivers of other devices do not implement the request.
    let result = unsafe { libc::ioctl(node.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    let is_cached = info.flags & LO_FLAGS_DIRECT_IO == 0;
    (result == 0 && is_cached).then_some((info.device, info.inode))
}
