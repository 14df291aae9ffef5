//! Where ext2, ext3 and ext4 keep the metadata that a file's data depends on.
//!
//! The user-space counterpart of the original's `ext4_fiedep` (paper §4.2), on libext2fs by way of a
//! small C shim (`shim.h`). It reads the block device through its page cache, where the kernel
//! keeps a mounted file system's metadata up to date; `sync` beforehand gives delayed allocations
//! their blocks.

mod attributes;
mod dirent;
mod hashed;
mod htree;
mod inode;
mod look_up;
mod map;
mod raw;

use std::ffi::{CStr, CString, c_char, c_long, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

pub use look_up::{DirectoryLookUp, MAX_DIRECTORY_BLOCKS};

/// Most nodes of one file: enough for 22 million extents, or 16 GiB in indirect blocks of 1 KiB.
/// Beyond it the tree is taken for damaged.
pub const MAX_NODES: usize = 1 << 16;

/// Nodes that are asked for at first; few files have more.
const FEW_NODES: usize = 64;

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

/// What the file system's layout fixes a block to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// The superblock or the group descriptors, or a copy of them.
    Superblock,
    /// A block bitmap.
    BlockBitmap,
    /// An inode bitmap.
    InodeBitmap,
    /// Part of an inode table.
    InodeTable,
    /// Part of the internal journal.
    Journal,
}

/// What libext2fs could not do.
#[derive(Debug, thiserror::Error)]
pub enum Ext4Error {
    /// No file system could be opened on the device.
    #[error(
        "cannot read the ext4 metadata of {path}: {reason}; check that it is the file system's \
             device and that you may read it"
    )]
    Open {
        /// The block device.
        path: String,
        /// libext2fs's words.
        reason: String,
    },
    /// The layout cannot be told.
    #[error(
        "cannot tell what block {block} is: {reason}; if this persists, check the file system with \
             e2fsck"
    )]
    Block {
        /// Block number.
        block: u64,
        /// libext2fs's words.
        reason: String,
    },
    /// The inode's number, place or tree is invalid.
    #[error(
        "cannot find the metadata of inode {ino}: {reason}; if this persists, check the file \
             system with e2fsck"
    )]
    Inode {
        /// Inode number.
        ino: u64,
        /// What is wrong, in libext2fs's words or ours.
        reason: String,
    },
    /// The file system is sound, but what was asked cannot be known from the outside.
    #[error("cannot tell what a look-up in directory {ino} reads: {reason}")]
    Unsupported {
        /// Inode number.
        ino: u64,
        /// Why not.
        reason: &'static str,
    },
}

/// The shim's `struct pf_ext4`.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn pf_ext4_open(path: *const c_char, out: *mut *mut Opaque) -> c_long;
    fn pf_ext4_close(fs: *mut Opaque);
    fn pf_ext4_block_size(fs: *const Opaque) -> u32;
    fn pf_ext4_blocks(fs: *const Opaque) -> u64;
    fn pf_ext4_uuid(fs: *const Opaque, uuid: *mut u8);
    fn pf_ext4_inode_block(
        fs: *const Opaque,
        ino: u32,
        block: *mut u64,
        offset: *mut u32,
    ) -> c_long;
    fn pf_ext4_fixed(fs: *mut Opaque, block: u64, kind: *mut c_uint) -> c_long;
    fn pf_ext4_nodes(
        fs: *mut Opaque,
        ino: u32,
        out: *mut ExtentNode,
        cap: usize,
        count: *mut usize,
    ) -> c_long;
    fn pf_ext4_error(error: c_long) -> *const c_char;
}

/// An ext2, ext3 or ext4 file system, mounted or not, opened for reading its metadata.
#[derive(Debug)]
pub struct Ext4 {
    fs: NonNull<Opaque>,
}

impl Ext4 {
    /// Opens the file system on a block device (or in an image), read-only and not exclusively.
    ///
    /// # Errors
    /// [`Ext4Error::Open`] if the device cannot be read or holds no such file system.
    pub fn open(device: &Path) -> Result<Self, Ext4Error> {
        let refused = |reason| Ext4Error::Open {
            path: device.display().to_string(),
            reason,
        };
        let path = CString::new(device.as_os_str().as_bytes())
            .map_err(|_| refused("its path has a zero byte in it".to_owned()))?;
        let mut fs = std::ptr::null_mut();
        // SAFETY: `path` is a C string, and `fs` takes the one pointer that is written on success.
        let error = unsafe { pf_ext4_open(path.as_ptr(), &mut fs) };
        match NonNull::new(fs) {
            Some(fs) if error == 0 => Ok(Ext4 { fs }),
            _ => Err(refused(error_text(error))),
        }
    }

    /// Size of a block, in bytes.
    pub fn block_size(&self) -> u64 {
        // SAFETY: `fs` is open until `self` is dropped.
        u64::from(unsafe { pf_ext4_block_size(self.fs.as_ptr()) })
    }

    /// Size of the file system, in blocks.
    pub fn blocks(&self) -> u64 {
        // SAFETY: as above.
        unsafe { pf_ext4_blocks(self.fs.as_ptr()) }
    }

    /// UUID of the file system, from its superblock.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        // SAFETY: as above; the shim writes 16 bytes.
        unsafe { pf_ext4_uuid(self.fs.as_ptr(), uuid.as_mut_ptr()) };
        uuid
    }

    /// The block of the inode table that holds the inode, in blocks from the start of the device.
    ///
    /// # Errors
    /// [`Ext4Error::Inode`] if there is no such inode, or its table lies outside of the file system.
    pub fn inode_block(&self, ino: u64) -> Result<u64, Ext4Error> {
        self.inode_place(ino).map(|(block, _)| block)
    }

    /// The block of the inode table that holds the inode, and where in it the inode begins, in bytes.
    fn inode_place(&self, ino: u64) -> Result<(u64, usize), Ext4Error> {
        let (mut block, mut offset) = (0, 0);
        // SAFETY: as above; the shim checks the number and writes the two integers.
        let error =
            unsafe { pf_ext4_inode_block(self.fs.as_ptr(), narrow(ino)?, &mut block, &mut offset) };
        check(ino, error)?;
        Ok((block, offset as usize))
    }

    /// What the layout fixes a block to be, by its number from the start of the device; `None` for one
    /// that is allocated to a file, or free. Takes time linear in the number of block groups.
    ///
    /// # Errors
    /// [`Ext4Error::Block`] if the journal's inode cannot be read.
    pub fn fixed(&self, block: u64) -> Result<Option<Fixed>, Ext4Error> {
        let mut kind = 0;
        // SAFETY: as above; the shim writes one enum, which C stores as an unsigned int. No other call
        // runs at the same time: the pointer makes the type neither Send nor Sync.
        let error = unsafe { pf_ext4_fixed(self.fs.as_ptr(), block, &mut kind) };
        if error != 0 {
            return Err(Ext4Error::Block {
                block,
                reason: error_text(error),
            });
        }
        // The shim's enum pf_fixed.
        Ok(match kind {
            1 => Some(Fixed::Superblock),
            2 => Some(Fixed::BlockBitmap),
            3 => Some(Fixed::InodeBitmap),
            4 => Some(Fixed::InodeTable),
            5 => Some(Fixed::Journal),
            _ => None,
        })
    }

    /// The extent-tree nodes of a regular file, or its indirect blocks if it has no extents, parents
    /// before children. None for small files, inline data and anything but regular files.
    ///
    /// # Errors
    /// [`Ext4Error::Inode`] if the inode or its tree is damaged, or has more than [`MAX_NODES`].
    pub fn extent_nodes(&self, ino: u64) -> Result<Vec<ExtentNode>, Ext4Error> {
        match self.nodes_up_to(ino, FEW_NODES) {
            // Either more than a few, or damaged: the larger bound tells.
            Err(_) => self.nodes_up_to(ino, MAX_NODES),
            few => few,
        }
    }

    fn nodes_up_to(&self, ino: u64, most: usize) -> Result<Vec<ExtentNode>, Ext4Error> {
        let mut nodes = vec![ExtentNode::default(); most];
        let mut count = 0;
        // SAFETY: as above; the shim writes at most `most` nodes of this layout. No other call runs
        // at the same time: the pointer makes the type neither Send nor Sync.
        let error = unsafe {
            pf_ext4_nodes(
                self.fs.as_ptr(),
                narrow(ino)?,
                nodes.as_mut_ptr(),
                most,
                &mut count,
            )
        };
        check(ino, error)?;
        nodes.truncate(count);
        Ok(nodes)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { pf_ext4_close(self.fs.as_ptr()) }
    }
}

fn narrow(ino: u64) -> Result<u32, Ext4Error> {
    u32::try_from(ino).map_err(|_| Ext4Error::Inode {
        ino,
        reason: "ext4's inode numbers have 32 bits".to_owned(),
    })
}

fn check(ino: u64, error: c_long) -> Result<(), Ext4Error> {
    match error {
        0 => Ok(()),
        error => Err(Ext4Error::Inode {
            ino,
            reason: error_text(error),
        }),
    }
}

fn error_text(error: c_long) -> String {
    // SAFETY: the shim returns a C string in memory that is never freed; it is copied at once.
    unsafe { CStr::from_ptr(pf_ext4_error(error)) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ext4_is_an_error_that_names_the_device() {
        for path in ["/dev/null", "/nonexistent", "/proc/self/exe"] {
            let error = Ext4::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
