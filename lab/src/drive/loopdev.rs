//! Loop devices that vanish with their last user: LOOP_CONFIGURE with LO_FLAGS_AUTOCLEAR (losetup(8)
//! cannot set that flag). `unsafe` for the ioctls, as in linux/loop.h.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// How often another program may take the free device before we attach it.
const TRIES: u32 = 64;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Configuration {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device; it is detached when this and all mounts of it are gone, also when the process is killed.
#[derive(Debug)]
pub struct LoopDevice {
    node: PathBuf,
    _open: File,
}

impl LoopDevice {
    /// A free loop device with direct I/O and blocks of 512 bytes over `backing`, which must be open for
    /// reading and writing.
    pub fn attach(backing: &File) -> Result<LoopDevice> {
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .context("opening /dev/loop-control: loop devices need root")?;
        let configuration = configuration(backing.as_raw_fd());
        for _ in 0..TRIES {
            // SAFETY: takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(std::io::Error::last_os_error()).context("no free loop device");
            }
            let node = PathBuf::from(format!("/dev/loop{number}"));
            let open = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_CLOEXEC)
                .open(&node)
                .with_context(|| format!("opening {}", node.display()))?;
            // SAFETY: reads a `struct loop_config`, which outlives the call.
            let result = unsafe { libc::ioctl(open.as_raw_fd(), LOOP_CONFIGURE, &configuration) };
            if result == 0 {
                return Ok(LoopDevice { node, _open: open });
            }
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(error).with_context(|| {
                    format!("setting up {} (LOOP_CONFIGURE: Linux 5.8)", node.display())
                });
            }
        }
        bail!("every loop device offered was taken by others, {TRIES} times")
    }

    /// `/dev/loop3`.
    pub fn node(&self) -> &Path {
        &self.node
    }
}

fn configuration(backing: RawFd) -> Configuration {
    Configuration {
        fd: backing as u32,
        block_size: 512,
        info: Info {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_the_kernels() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Configuration>(), 304);
    }
}
