//! Resolving on real ext4 file systems, held against what debugfs(8) says of them.

mod damage;
mod debugfs;
mod layout;
mod look_up;
mod mounted;
mod names;
mod populate;
mod sequences;
