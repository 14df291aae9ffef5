//! What is fuzzed: functions that take any bytes, and panic where something is not as it must be. `main.rs` has libFuzzer
//! call one of them; the test `seeds` calls all of them with their seeds and with damaged ones.

mod announce;
mod config;
mod desktop_entry;
mod ext4_image;
mod knob_record;
mod launchers;
mod measured_drives;
mod mountinfo;
mod portable_profile;
mod proc_files;
mod profile_body;
mod profile_reader;

use ext4_image::Damaged;

/// A target, by the name of its directory in `seeds`.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 15] = [
    ("announce", announce::check),
    ("config", config::check),
    ("desktop_entry", desktop_entry::check),
    ("ext4_directories", |bytes| {
        ext4_image::check(Damaged::Directory, bytes)
    }),
    ("ext4_extents", |bytes| {
        ext4_image::check(Damaged::Extents, bytes)
    }),
    ("ext4_inodes", |bytes| {
        ext4_image::check(Damaged::Inodes, bytes)
    }),
    ("ext4_superblock", |bytes| {
        ext4_image::check(Damaged::Superblock, bytes)
    }),
    ("knob_record", knob_record::check),
    ("launchers", launchers::check),
    ("measured_drives", measured_drives::check),
    ("mountinfo", mountinfo::check),
    ("portable_profile", portable_profile::check),
    ("proc_files", proc_files::check),
    ("profile_body", profile_body::check),
    ("profile_reader", profile_reader::check),
];
