//! Files by inode number: opening them without a path, and finding their path.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;

use super::kind::FsKind;
use super::mounts::OpenMount;
use super::safe_open::{self, beneath};
use super::uuid::subvolume;
use crate::model::File;

/// File times come from the kernel's coarse clock, which may lag by a timer tick: 10 ms at the lowest usual tick
/// rate.
pub const COARSE_CLOCK_NS: i64 = 10_000_000;

/// The kernel's `enum fid_type`: a 32-bit inode number and a 32-bit generation.
const FILEID_INO32_GEN: c_int = 1;

/// As [`FILEID_INO32_GEN`], with `XFS_FILEID_TYPE_64FLAG`: the inode number has 64 bits.
const XFS_FILEID_INO64_GEN: c_int = 0x81;

/// `FS_IOC_GETVERSION`, `_IOR('v', 1, long)`.
const FS_IOC_GETVERSION: libc::Ioctl =
    0x8000_7601 | ((std::mem::size_of::<libc::c_long>() as libc::Ioctl) << 16);

/// `FILEID_BTRFS_WITHOUT_PARENT`: inode number and subvolume, of 64 bits each, and generation.
const FILEID_BTRFS: c_int = 0x4d;

/// `FILEID_INO64_GEN`, as EROFS makes them: the upper half of an inode number, the lower one, and a generation that it does
/// not use.
const FILEID_INO64_GEN: c_int = XFS_FILEID_INO64_GEN;

/// `struct file_handle` with room for the longest of those that are made here.
#[repr(C)]
struct InodeHandle {
    bytes: u32,
    kind: c_int,
    words: [u32; WORDS],
}

/// Words of the longest handle.
const WORDS: usize = 5;

impl InodeHandle {
    /// Of a node in a mounted file system.
    fn new(mount: &OpenMount, ino: u64, generation: u32) -> io::Result<Self> {
        let short = u32::try_from(ino);
        let [first, second] = halves(ino);
        let (kind, words): (_, &[u32]) = match mount.mount.kind() {
            Some(FsKind::Ext4) => {
                let ino = short.map_err(|_| Errno::OVERFLOW)?;
                (FILEID_INO32_GEN, &[ino, generation])
            }
            Some(FsKind::Xfs) => (XFS_FILEID_INO64_GEN, &[first, second, generation]),
            Some(FsKind::Btrfs) => {
                let [third, fourth] = halves(subvolume(mount.fd.as_fd())?);
                (FILEID_BTRFS, &[first, second, third, fourth, generation])
            }
            Some(FsKind::Squashfs) => {
                let ino = short.map_err(|_| Errno::OVERFLOW)?;
                (FILEID_INO32_GEN, &[ino, 0])
            }
            Some(FsKind::Erofs) => match InodeHandle::kind_of(mount.fd.as_fd())? {
                FILEID_INO64_GEN => (FILEID_INO64_GEN, &[(ino >> 32) as u32, ino as u32, 0]),
                kind => (kind, &[short.map_err(|_| Errno::OVERFLOW)?, 0]),
            },
            None => return Err(Errno::OPNOTSUPP.into()),
        };
        let mut handle = InodeHandle {
            bytes: size_of_val(words) as u32,
            kind,
            words: [0; WORDS],
        };
        handle.words[..words.len()].copy_from_slice(words);
        Ok(handle)
    }

    /// The kind of handles that the kernel makes here, where that depends on its version.
    fn kind_of(directory: BorrowedFd<'_>) -> io::Result<c_int> {
        let mut handle = InodeHandle {
            bytes: size_of::<[u32; WORDS]>() as u32,
            kind: 0,
            words: [0; WORDS],
        };
        let mut mount = 0;
        // SAFETY: `handle` has the layout of the kernel's struct and room for the bytes that it says; the path is an empty
        // string, and `mount` an int.
        let result = unsafe {
            libc::name_to_handle_at(
                directory.as_raw_fd(),
                c"".as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        match result {
            0 => Ok(handle.kind),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The two words that a number occupies in memory.
fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

/// Opens a node of a mounted file system by inode number and generation, with O_PATH, as open_by_handle_at(2). ext4
/// takes generation 0 as "any".
///
/// # Errors
/// `ESTALE` if the node is gone or its inode number has been given to another; `EOVERFLOW` if the number has more than
/// the 32 bits of ext4's; `EOPNOTSUPP` if the file system is not served; `EPERM` without CAP_DAC_READ_SEARCH.
pub fn open_by_ino(mount: &OpenMount, ino: u64, generation: u32) -> io::Result<OwnedFd> {
    let mut handle = InodeHandle::new(mount, ino, generation)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // SAFETY: `handle` has the layout of the kernel's struct and the bytes that its length says; the call
    // only reads it.
    let fd = unsafe {
        libc::open_by_handle_at(
            mount.fd.as_raw_fd(),
            (&raw mut handle).cast(),
            flags.bits() as c_int,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A regular file that was opened to examine its pages.
#[derive(Debug)]
pub struct CachedFile {
    /// Open for reading.
    pub fd: OwnedFd,
    /// Inode number.
    pub ino: u64,
    /// Size, in bytes.
    pub size: u64,
    /// Time of last modification, in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Time of last change, likewise.
    pub ctime_ns: i64,
    /// Whose it is.
    pub uid: u32,
}

impl CachedFile {
    /// Opens the very file that `found`, an O_PATH descriptor, refers to, without changing its access time.
    ///
    /// # Errors
    /// `ESTALE` if it is no regular file, or is deleted and only kept open; and those of open(2).
    pub fn open(found: &OwnedFd) -> io::Result<CachedFile> {
        // NOATIME: mapping a file to ask for its cached pages would count as an access.
        let (fd, stat) = safe_open::regular(found, OFlags::NOATIME)?.ok_or(Errno::STALE)?;
        if stat.st_nlink == 0 {
            return Err(Errno::STALE.into());
        }
        // Years after 2262 do not fit; a hostile file may have them.
        let ns = |seconds: i64, ns| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Ok(CachedFile {
            ino: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec as i64),
            ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec as i64),
            uid: stat.st_uid,
            fd,
        })
    }
}

/// Opens a regular file by inode number and generation, to examine its pages without changing its access time.
/// Generation 0 is the file's own here, not "any". What the number belongs to by now may be a device or a FIFO: that
/// is not opened.
///
/// # Errors
/// As [`open_by_ino`] and [`CachedFile::open`].
pub fn open_cached_file(mount: &OpenMount, ino: u64, generation: u32) -> io::Result<CachedFile> {
    let file = CachedFile::open(&open_by_ino(mount, ino, generation)?)?;
    if generation == 0 && has_generations(mount) && inode_generation(&file.fd)? != 0 {
        return Err(Errno::STALE.into());
    }
    Ok(file)
}

fn has_generations(mount: &OpenMount) -> bool {
    mount.mount.kind().is_some_and(FsKind::has_generations)
}

/// Opens a file that a profile names, as [`open_cached_file`] does: where its file system is served so
/// ([`FsKind::opens_by_path`]), by its path if that still leads to this very inode. Where there are no generations, nobody
/// writes, and another image may have the same numbers: its path has to lead there, and size and time to be the same.
///
/// # Errors
/// As [`open_cached_file`].
pub fn open_known_file(mount: &OpenMount, file: &File) -> io::Result<CachedFile> {
    let is_by_path = mount.mount.kind().is_some_and(FsKind::opens_by_path);
    let path = file.path.as_deref().filter(|_| is_by_path);
    let found = match path.and_then(|path| open_by_path(mount, path, file)) {
        Some(found) => found,
        None if path.is_some() && !has_generations(mount) => return Err(Errno::STALE.into()),
        None => open_cached_file(mount, file.ino, file.generation)?,
    };
    let is_same = (found.size, found.mtime_ns) == (file.size, file.mtime_ns);
    match is_same || has_generations(mount) {
        true => Ok(found),
        false => Err(Errno::STALE.into()),
    }
}

/// The file, if its path leads to it: through no symbolic link and no other mount. Nothing else is opened.
fn open_by_path(mount: &OpenMount, path: &[u8], file: &File) -> Option<CachedFile> {
    let found = beneath(&mount.fd, below_root(mount, path)?).ok()?;
    let stat = fstat(&found).ok()?;
    if (stat.st_dev, stat.st_ino) != (mount.mount.dev, file.ino) {
        return None;
    }
    let opened = CachedFile::open(&found).ok()?;
    let is_it = !has_generations(mount)
        || inode_generation(&opened.fd).is_ok_and(|found| found == file.generation);
    is_it.then_some(opened)
}

/// The rest of a path from its file system's own root below the directory that a mount shows, which is `.` itself; `None` if
/// it lies elsewhere.
pub(crate) fn below_root<'a>(mount: &OpenMount, path: &'a [u8]) -> Option<&'a [u8]> {
    let root = &mount.mount.root;
    let below = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?;
    match below {
        [] | b"/" => Some(b"."),
        [b'/', below @ ..] => Some(below),
        _ => None,
    }
}

/// Generation of an open file's inode. With the inode number it identifies this very file.
///
/// # Errors
/// The errors of ioctl(2): `ENOTTY` where the file system has no generations.
pub fn inode_generation(file: &OwnedFd) -> io::Result<u32> {
    // The kernel writes an int, whatever the request's number says.
    let mut generation: c_int = 0;
    // SAFETY: FS_IOC_GETVERSION writes one int.
    if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(generation as u32)
}

/// Checks that [`path_in_fs`] can work. A sandbox may refuse openat2(2), as systemd's RestrictSUIDSGID= does,
/// and then no file has a path.
///
/// # Errors
/// The errors of openat2(2).
pub fn check_paths() -> io::Result<()> {
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    beneath(&root, ".")?;
    Ok(())
}

/// Path of an open file from its file system's own root, such as `/lib/x.so` for `/usr/lib/x.so` on a
/// separate `/usr`; arbitrary bytes. `None` if the kernel knows no name (files opened by handle have one
/// while their directory entry is cached), if the file was deleted or moved out of the mount, or if another
/// mount covers it.
pub fn path_in_fs(file: BorrowedFd<'_>, mount: &OpenMount) -> Option<Vec<u8>> {
    let shown = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let relative = shown.strip_prefix(&mount.mount.mount_point).ok()?;
    if relative.as_os_str().is_empty() || mount.mount.root.ends_with(b"//deleted") {
        return None;
    }
    // The text from /proc may end in " (deleted)", or lie outside of a bind mount's directory. It counts only
    // if it leads to the file, and not through another file system.
    let found = beneath(&mount.fd, relative).ok()?;
    let (found, file) = (fstat(&found).ok()?, fstat(file).ok()?);
    if (found.st_dev, found.st_ino) != (file.st_dev, file.st_ino) {
        return None;
    }
    Some(joined(&mount.mount.root, relative.as_os_str().as_bytes()))
}

/// The path of a name below a directory. An empty name is the directory itself.
pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let is_whole = directory.ends_with(b"/") || name.is_empty();
    let between: &[u8] = if is_whole { b"" } else { b"/" };
    [directory, between, name].concat()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fs::mounts::Mount;

    /// A directory as if it were the root of an EROFS.
    fn image(directory: &std::path::Path) -> OpenMount {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(directory, flags, Mode::empty()).unwrap();
        OpenMount {
            mount: Mount {
                id: 1,
                parent: 0,
                dev: fstat(&fd).unwrap().st_dev,
                root: b"/".to_vec(),
                mount_point: directory.to_owned(),
                fs_type: "erofs".to_owned(),
                source: Vec::new(),
            },
            fd,
        }
    }

    #[test]
    fn a_file_of_an_image_is_known_by_path_number_size_and_time() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["file", "other"] {
            fs::write(directory.path().join(name), "content").unwrap();
        }
        let mount = image(directory.path());
        let found = safe_open::beneath(&mount.fd, "file").unwrap();
        let found = CachedFile::open(&found).unwrap();
        let file = File {
            device: 0,
            ino: found.ino,
            generation: 0,
            size: found.size,
            mtime_ns: found.mtime_ns,
            path: Some(b"/file".to_vec()),
        };
        assert_eq!(open_known_file(&mount, &file).unwrap().ino, file.ino);
        let path = |path: &[u8]| Some(path.to_vec());
        let others = [
            File {
                path: path(b"/other"),
                ..file.clone()
            },
            File {
                path: path(b"/absent"),
                ..file.clone()
            },
            File {
                size: file.size + 1,
                ..file.clone()
            },
            File {
                mtime_ns: file.mtime_ns - 1,
                ..file.clone()
            },
        ];
        for other in others {
            let error = open_known_file(&mount, &other).unwrap_err();
            assert_eq!(
                Errno::from_io_error(&error),
                Some(Errno::STALE),
                "{other:?}"
            );
        }
    }
}
