//! Resolving on real ext4 file systems, held against what debugfs(8) says of them.

#[path = "../common/cold.rs"]
mod cold;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod debugfs;
mod layout;
mod look_up;
mod mounted;
mod names;
mod populate;
mod sequences;
