//! Damage in an ext4 file system's inode table.
#![no_main]

#[path = "common/ext4_image.rs"]
mod ext4_image;

libfuzzer_sys::fuzz_target!(|changes: &[u8]| {
    ext4_image::fuzz(ext4_image::Damaged::Inodes, changes);
});
