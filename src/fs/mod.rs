//! Access to file systems: mounts, files by handle, the places of their blocks, their cached pages, and
//! ext4's metadata.

pub mod app_dirs;
pub(crate) mod atomic_write;
pub mod blockdev;
pub(crate) mod elf;
pub mod ext4;
pub mod fiemap;
pub mod handle;
pub(crate) mod kept;
pub mod kind;
pub(crate) mod local_path;
pub mod loop_image;
mod mountinfo;
pub mod mounts;
pub(crate) mod namespace;
pub(crate) mod node;
pub mod present;
pub(crate) mod public_tree;
pub mod residency;
pub(crate) mod root_owned;
pub(crate) mod safe_open;
pub(crate) mod snap;
pub mod support;
pub(crate) mod uuid;
pub(crate) mod virtual_file;
pub(crate) mod visible;
