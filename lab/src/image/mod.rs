//! The file-system image with the applications: built once, mounted for each session.

mod build;
mod copy;
mod lock;
mod mount;
mod workplace;

pub use build::{build, start};
pub use copy::copy;
pub use lock::Lock;
pub use mount::{MountPoint, Mounted};
pub use workplace::Workplace;
