//! Where ext2, ext3 and ext4 keep the metadata that files, directories and path look-ups depend on.
//!
//! For files it is the user-space counterpart of the original's `ext4_fiedep` (paper §4.2); directories go
//! beyond the paper. It uses libext2fs through a small C shim (`shim.c`), which reads the block device
//! through its page cache, where the kernel keeps a mounted file system's metadata up to date; `sync`
//! beforehand gives delayed allocations their blocks.

mod directory;
mod directory_index;
mod read_limits;

use std::ffi::{CStr, CString, c_char, c_long, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use serde::Serialize;

pub use directory::DirectoryLookUp;
use read_limits::ReadGuard;
pub use read_limits::ReadLimits;

use super::mounts::MountTable;
use super::{blockdev, safe_open};

/// Most nodes of one file: enough for 22 million extents, or 16 GiB in indirect blocks of 1 KiB.
/// Beyond it the tree is taken for damaged.
const MAX_NODES: usize = 1 << 16;

/// The shim's error for more than [`MAX_NODES`].
const TOO_MANY_NODES: c_long = -1;

/// An extent-tree node or indirect block outside of the inode. As the shim's `struct pf_node`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentNode {
    /// First logical block of the file that the node maps, in file-system blocks.
    pub first: u64,
    /// Number of logical blocks from there on, at least 1.
    pub len: u64,
    /// Where the node itself lies, in file-system blocks from the start of the device.
    pub physical: u64,
    /// 0 if the inode points to the node, 1 if a node of depth 0 does, and so on.
    pub depth: u32,
}

/// What a metadata block is, as far as the group descriptors tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// Part of an inode table.
    InodeTable,
    /// A block bitmap.
    BlockBitmap,
    /// An inode bitmap.
    InodeBitmap,
    /// Of a directory, an extent tree or a link, or part of the journal or a superblock.
    Other,
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BlockKind::InodeTable => "inode table",
            BlockKind::BlockBitmap => "block bitmap",
            BlockKind::InodeBitmap => "inode bitmap",
            BlockKind::Other => "other",
        })
    }
}

/// Who uses a block of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// Nobody: it is free, or a block of an inode table without an inode in use.
    Unused,
    /// Regular files alone: a block of an inode table that no path leads through.
    ByFiles,
    /// Anything else.
    InUse,
}

/// What could not be found out, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Ext4Error(String);

/// The shim's `pf_ext4`.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

/// The shim's `struct pf_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    blocks: u64,
    block_size: u32,
    dir_index: u8,
    large_dir: u8,
    metadata_csum: u8,
}

/// `EXT4_INLINE_DATA_FL`: the data are in the inode itself.
const INLINE_DATA: u32 = 0x1000_0000;

/// The shim's `struct pf_inode`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Inode {
    /// In bytes.
    size: u64,
    /// The kernel's `EXT4_*_FL`.
    flags: u32,
    mode: u32,
}

impl Inode {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

unsafe extern "C" {
    // `fs` is what `pf_ext4_open` gave and `pf_ext4_close` has not closed yet. Inode and block numbers may be
    // anything. Results are written to the last parameter.
    fn pf_ext4_open(path: *const c_char, out: *mut *mut Opaque, info: *mut Info) -> c_long;
    fn pf_ext4_close(fs: *mut Opaque);
    fn pf_ext4_inode_block(fs: *mut Opaque, ino: u32, block: *mut u64) -> c_long;
    fn pf_ext4_block_kind(fs: *mut Opaque, block: u64) -> u32;
    fn pf_ext4_block_use(fs: *mut Opaque, block: u64, use_: *mut u32) -> c_long;
    fn pf_ext4_inode(fs: *mut Opaque, ino: u32, out: *mut Inode) -> c_long;
    fn pf_ext4_nodes(
        fs: *mut Opaque,
        ino: u32,
        out: *mut ExtentNode,
        cap: usize,
        count: *mut usize,
    ) -> c_long;
    fn pf_ext4_map(fs: *mut Opaque, ino: u32, logical: u64, physical: *mut u64) -> c_long;
    fn pf_ext4_read_block(fs: *mut Opaque, block: u64, out: *mut c_void) -> c_long;
    fn pf_ext4_name_hash(
        fs: *const Opaque,
        version: u8,
        name: *const c_char,
        len: usize,
        hash: *mut u32,
    ) -> c_long;
    fn pf_ext4_error(error: c_long) -> *const c_char;
}

/// An ext2, ext3 or ext4 file system, mounted or not, opened for reading its metadata.
#[derive(Debug)]
pub struct Ext4 {
    fs: NonNull<Opaque>,
    info: Info,
    guard: ReadGuard,
}

impl Ext4 {
    /// Opens the file system on a block device (or in an image), read-only and not exclusively.
    ///
    /// # Errors
    /// If the device cannot be read or holds no such file system.
    pub fn open(device: &Path) -> Result<Self, Ext4Error> {
        Self::open_within(device, ReadLimits::default())
    }

    /// Opens the file system on the block device with this number, by a descriptor: the node's name may lead to
    /// something else from one moment to the next.
    ///
    /// # Errors
    /// As [`Ext4::open`], and if the device has no node.
    pub fn of_device(dev: u64, mounts: &MountTable) -> Result<Self, Ext4Error> {
        let node = blockdev::node(dev, mounts);
        let node = node.ok_or_else(|| refused(blockdev::name(dev), "it has no device node"))?;
        Self::of_node(&node, dev)
    }

    /// As [`Ext4::of_device`], by the path of its node.
    fn of_node(node: &Path, dev: u64) -> Result<Self, Ext4Error> {
        let shown = node.display();
        let fd = safe_open::block_device(node, dev)
            .map_err(|errno| refused(&shown, &errno.to_string()))?
            .ok_or_else(|| refused(&shown, "the node is another device's by now"))?;
        // libext2fs takes nothing but a path, and opens what this one stands for once more.
        let own_path = safe_open::own_path(&fd);
        Self::open_named(Path::new(&own_path), shown, ReadLimits::default())
    }

    /// As [`Ext4::open`], with other limits on its reads.
    ///
    /// # Errors
    /// As [`Ext4::open`]; and that and every later question give an error where a limit is exceeded.
    pub fn open_within(device: &Path, limits: ReadLimits) -> Result<Self, Ext4Error> {
        Self::open_named(device, device.display(), limits)
    }

    /// Opens what `path` leads to, which errors call `shown`.
    fn open_named(
        path: &Path,
        shown: impl fmt::Display,
        limits: ReadLimits,
    ) -> Result<Self, Ext4Error> {
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| refused(&shown, "its path has a zero byte in it"))?;
        let (mut fs, mut info) = (std::ptr::null_mut(), Info::default());
        let guard = ReadGuard::new(limits);
        // SAFETY: `path` is a C string; the pointer and the struct are written on success.
        let open = || unsafe { pf_ext4_open(path.as_ptr(), &mut fs, &mut info) };
        let (error, exceeded) = guard.ask(open);
        match NonNull::new(fs) {
            Some(fs) if error == 0 => Ok(Ext4 { fs, info, guard }),
            _ => Err(refused(shown, &reason(error, exceeded))),
        }
    }

    /// Size of a block, in bytes.
    pub fn block_size(&self) -> u64 {
        u64::from(self.info.block_size)
    }

    /// Size of the file system, in blocks.
    pub fn blocks(&self) -> u64 {
        self.info.blocks
    }

    /// The block of the inode table that holds the inode, in blocks from the start of the device.
    ///
    /// # Errors
    /// If there is no such inode, or its table lies outside of the file system.
    pub fn inode_block(&self, ino: u64) -> Result<u64, Ext4Error> {
        // SAFETY: see `ask`.
        self.ask(ino, |fs, ino, out| unsafe {
            pf_ext4_inode_block(fs, ino, out)
        })
    }

    /// What a metadata block is, by its number from the start of the device. Takes time linear in the
    /// number of block groups.
    pub fn block_kind(&self, block: u64) -> BlockKind {
        // SAFETY: `fs` is open until `self` is dropped.
        match unsafe { pf_ext4_block_kind(self.fs.as_ptr(), block) } {
            1 => BlockKind::InodeTable,
            2 => BlockKind::BlockBitmap,
            3 => BlockKind::InodeBitmap,
            _ => BlockKind::Other,
        }
    }

    /// Who uses a block, by its number from the start of the device. Takes time linear in the number of block
    /// groups. What cannot be read counts as in use.
    pub fn block_use(&self, block: u64) -> BlockUse {
        let mut found = 0;
        // SAFETY: `fs` is open until `self` is dropped; the answer is one u32.
        let find = || unsafe { pf_ext4_block_use(self.fs.as_ptr(), block, &mut found) };
        let (error, _) = self.guard.ask(find);
        match error {
            0 if found == 0 => BlockUse::Unused,
            0 if found == 1 => BlockUse::ByFiles,
            _ => BlockUse::InUse,
        }
    }

    /// The extent-tree nodes of a regular file, directory or symbolic link, or its indirect blocks if it has
    /// no extents, parents before children. Empty for small files and inline data.
    ///
    /// # Errors
    /// If the inode or its tree is damaged, or has more than 65,536 nodes.
    pub fn extent_nodes(&self, ino: u64) -> Result<Vec<ExtentNode>, Ext4Error> {
        // Memory of which only the part that is written to is ever there.
        let mut nodes: Vec<ExtentNode> = Vec::with_capacity(MAX_NODES);
        let out = nodes.as_mut_ptr();
        // SAFETY: see `ask`; there is room for `MAX_NODES` nodes of this layout.
        let count = self.ask(ino, |fs, ino, count| unsafe {
            pf_ext4_nodes(fs, ino, out, MAX_NODES, count)
        })?;
        // SAFETY: the shim has written so many.
        unsafe { nodes.set_len(count) };
        nodes.shrink_to_fit();
        Ok(nodes)
    }

    /// The block that reading a symbolic link (readlink(2), or following it) needs besides the inode-table
    /// block, with the extent-tree nodes or indirect blocks that lead to it; in file-system blocks from the
    /// start of the device. Empty if the target is in the inode, and for anything but links.
    ///
    /// # Errors
    /// If the inode or its map is damaged.
    pub fn link_blocks(&self, ino: u64) -> Result<Vec<u64>, Ext4Error> {
        if self.inode(ino)?.kind() != FileType::Symlink {
            return Ok(Vec::new());
        }
        let nodes = self.extent_nodes(ino)?;
        // A target is never longer than a block.
        let target = self.map(ino, 0)?;
        let nodes = nodes.iter().map(|node| node.physical);
        Ok(nodes.chain(target).collect())
    }

    fn inode(&self, ino: u64) -> Result<Inode, Ext4Error> {
        // SAFETY: see `ask`.
        self.ask(ino, |fs, ino, out| unsafe { pf_ext4_inode(fs, ino, out) })
    }

    /// The place of a logical block of the inode, in file-system blocks; `None` in a hole.
    fn map(&self, ino: u64, logical: u64) -> Result<Option<u64>, Ext4Error> {
        // SAFETY: see `ask`.
        let physical: u64 = self.ask(ino, |fs, ino, out| unsafe {
            pf_ext4_map(fs, ino, logical, out)
        })?;
        Ok((physical != 0).then_some(physical))
    }

    /// The contents of a block. `ino` is the inode that it is read for, which an error names.
    fn read_block(&self, ino: u64, block: u64) -> Result<Vec<u8>, Ext4Error> {
        let mut contents = vec![0; self.block_size() as usize];
        let out = contents.as_mut_ptr().cast();
        // SAFETY: see `ask`; the buffer has the size of a block.
        self.ask(ino, |fs, _, ()| unsafe {
            pf_ext4_read_block(fs, block, out)
        })?;
        Ok(contents)
    }

    /// The hash of a name in directory `ino`, whose index root names this version of the hash.
    fn name_hash(&self, ino: u64, version: u8, name: &[u8]) -> Result<u32, Ext4Error> {
        let (bytes, len) = (name.as_ptr().cast(), name.len());
        // SAFETY: see `ask`; the shim reads `len` bytes of the name.
        self.ask(ino, |fs, _, out| unsafe {
            pf_ext4_name_hash(fs, version, bytes, len, out)
        })
    }

    /// Calls the shim for an inode. The file system is open until `self` is dropped, the answer is one `T`, and no
    /// two calls run at the same time: the pointer makes the type neither Send nor Sync.
    fn ask<T: Default>(
        &self,
        ino: u64,
        call: impl FnOnce(*mut Opaque, u32, &mut T) -> c_long,
    ) -> Result<T, Ext4Error> {
        let number =
            u32::try_from(ino).map_err(|_| damaged(ino, "ext4's inode numbers have 32 bits"))?;
        let mut answer = T::default();
        let ask = || call(self.fs.as_ptr(), number, &mut answer);
        match self.guard.ask(ask) {
            (0, _) => Ok(answer),
            (error, exceeded) => Err(damaged(ino, &reason(error, exceeded))),
        }
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { pf_ext4_close(self.fs.as_ptr()) }
    }
}

/// The error that says why a file system cannot be opened.
fn refused(device: impl fmt::Display, reason: &str) -> Ext4Error {
    Ext4Error(format!(
        "cannot read the ext4 metadata of {device}: {reason}; check that it is the file system's device and that \
         you may read it"
    ))
}

/// The error that says what is wrong with an inode.
fn damaged(ino: u64, reason: &str) -> Ext4Error {
    Ext4Error(format!(
        "cannot find the metadata of inode {ino}: {reason}; if this persists, check the file system with e2fsck"
    ))
}

/// Why the shim has given an error: the limit that was exceeded, or what libext2fs says.
fn reason(error: c_long, exceeded: Option<&str>) -> String {
    match exceeded {
        Some(limit) => limit.to_owned(),
        None if error == TOO_MANY_NODES => {
            format!("it has more than {MAX_NODES} tree nodes, as if they ran in circles")
        }
        None => error_text(error),
    }
}

fn error_text(error: c_long) -> String {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the shim returns a C string in memory that is never freed; it is copied at once.
    unsafe { CStr::from_ptr(pf_ext4_error(error)) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_something_else_than_ext4_is_an_error_that_names_the_device() {
        for path in ["/dev/null", "/nonexistent", "/proc/self/exe"] {
            let error = Ext4::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }

    #[test]
    fn a_device_is_opened_by_its_number_and_nothing_else_at_its_path_is() {
        let dev = rustix::fs::makedev(4095, 7);
        let error = Ext4::of_node(Path::new("/dev/null"), dev).unwrap_err();
        let said = "/dev/null: the node is another device's by now";
        assert!(error.to_string().contains(said), "{error}");
        let error = Ext4::of_device(dev, &MountTable::parse(b"")).unwrap_err();
        let said = "4095:7: it has no device node";
        assert!(error.to_string().contains(said), "{error}");
    }
}
