//! Resolving on real ext4 file systems, held against what debugfs(8) says of them.

#[path = "../common/mod.rs"]
mod common;
mod debugfs;
mod kinds;
mod layout;
mod mounted;
mod populate;
mod sequences;
