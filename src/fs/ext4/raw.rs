//! Raw blocks and inodes through the shim, and names hashed and compared as the kernel does.

use std::ffi::{c_char, c_int, c_long, c_void};

use super::{Ext4, Ext4Error, Opaque, check, error_text};

/// The shim's `struct pf_traits`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    /// First block that can hold anything.
    pub first_block: u64,
    /// Size of an inode in its table, in bytes.
    pub inode_size: u32,
    /// Size of a cluster, in bytes: of a block, but with bigalloc.
    pub cluster_size: u32,
    flags: u32,
}

/// The shim's `PF_` flags.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Trait {
    /// Directories may be hashed.
    DirIndex = 0x01,
    /// Hashed directories may have three levels of index.
    LargeDir = 0x02,
    /// Blocks of an index end in a checksum.
    MetadataCsum = 0x04,
    /// Values of extended attributes may have inodes of their own.
    EaInode = 0x08,
    /// Block numbers have more than 32 bits.
    Wide = 0x10,
    /// Directories may ignore case, and libext2fs knows the charset.
    Casefold = 0x20,
    /// Names that are invalid in the charset are refused.
    StrictNames = 0x40,
    /// No linear search where the hash of a folded name finds nothing.
    NoLinearRetry = 0x80,
}

impl Traits {
    pub fn has(&self, which: Trait) -> bool {
        self.flags & which as u32 != 0
    }
}

unsafe extern "C" {
    fn pf_ext4_traits(fs: *const Opaque, traits: *mut Traits);
    fn pf_ext4_read_block(fs: *mut Opaque, block: u64, out: *mut c_void) -> c_long;
    fn pf_ext4_name_hash(
        fs: *const Opaque,
        version: u8,
        name: *const c_char,
        len: usize,
        fold: c_int,
        hash: *mut u32,
    ) -> c_long;
    fn pf_ext4_same_folded(
        fs: *const Opaque,
        a: *const c_char,
        a_len: usize,
        b: *const c_char,
        b_len: usize,
    ) -> c_int;
    fn pf_ext4_valid_name(fs: *const Opaque, name: *const c_char, len: usize) -> c_int;
}

impl Ext4 {
    pub(super) fn traits(&self) -> Traits {
        let mut traits = Traits::default();
        // SAFETY: `fs` is open until `self` is dropped; the shim fills the struct of this layout.
        unsafe { pf_ext4_traits(self.fs.as_ptr(), &mut traits) };
        traits
    }

    /// One block's contents; `ino` is the inode that it is read for, for the error.
    pub(super) fn read_block(&self, ino: u64, block: u64) -> Result<Vec<u8>, Ext4Error> {
        let mut out = vec![0; self.block_size() as usize];
        // SAFETY: as above; the shim checks the number, and the buffer has the size of a block.
        let error = unsafe { pf_ext4_read_block(self.fs.as_ptr(), block, out.as_mut_ptr().cast()) };
        match error {
            0 => Ok(out),
            error => Err(Ext4Error::Inode {
                ino,
                reason: format!("block {block}: {}", error_text(error)),
            }),
        }
    }

    /// The hash of a name in a directory whose index root names this hash version; of the folded name
    /// if the directory ignores case.
    pub(super) fn name_hash(
        &self,
        ino: u64,
        version: u8,
        name: &[u8],
        fold: bool,
    ) -> Result<u32, Ext4Error> {
        let mut hash = 0;
        // SAFETY: as above; the shim reads `len` bytes of the name at most and writes one u32.
        let error = unsafe {
            pf_ext4_name_hash(
                self.fs.as_ptr(),
                version,
                name.as_ptr().cast(),
                name.len(),
                c_int::from(fold),
                &mut hash,
            )
        };
        check(ino, error)?;
        Ok(hash)
    }

    /// Whether two names are the same but for case; false if the charset is not known.
    pub(super) fn same_folded(&self, a: &[u8], b: &[u8]) -> bool {
        // SAFETY: as above; the charset is known, and the shim reads as many bytes as it is told.
        self.traits().has(Trait::Casefold)
            && unsafe {
                pf_ext4_same_folded(
                    self.fs.as_ptr(),
                    a.as_ptr().cast(),
                    a.len(),
                    b.as_ptr().cast(),
                    b.len(),
                )
            } != 0
    }

    /// Whether a name is valid in the file system's charset; true if that is not known.
    pub(super) fn valid_name(&self, name: &[u8]) -> bool {
        // SAFETY: as above.
        !self.traits().has(Trait::Casefold)
            || unsafe { pf_ext4_valid_name(self.fs.as_ptr(), name.as_ptr().cast(), name.len()) }
                != 0
    }
}
