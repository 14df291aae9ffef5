//! From what tracing saw to a launch sequence: files and devices by name, disk positions, and the
//! metadata that each read depends on (paper §3.1 and §4.2).
//!
//! [`sequence`] is the core. Its decisions are plain functions over plain data; all that it asks of
//! the system goes through one trait, [`sequence::Probe`]. Around it stand the small doors to the
//! kernel: [`lookups`] says what the look-ups of paths depend on, [`mounts`] and [`blockdev`] find file
//! systems and their devices, `doors` opens particular mounts, also of the mount namespaces of sandboxes,
//! [`handle`] opens files by inode number, [`fiemap`] tells where their data lie, [`ext4`] where their
//! metadata lie, and [`residency`] what of them is cached.

pub mod blockdev;
mod doors;
pub mod ext4;
pub mod fiemap;
pub mod handle;
mod interpreter;
pub mod lookups;
mod mountinfo;
pub mod mounts;
mod probe;
pub(crate) mod ranges;
pub mod residency;
pub mod sequence;
pub mod support;
mod uuid;

pub use sequence::{Earlier, Observed, Report, Sequence, resolve};
