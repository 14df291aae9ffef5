//! What is kept of a launch: the `.pf` file and the directory that holds one for each app; and the text that travels.

mod format;
mod portable;
mod store;

#[cfg(test)]
pub(crate) mod generate;

#[doc(hidden)]
pub use format::seal;
pub use format::{FormatError, MAX_FILE_BYTES, MAX_PATH, TIME_QUANTUM_US, decode, encode};
pub use portable::{
    FileVersion, MAX_PORTABLE_BYTES, PortableError, PortableFile, PortableProfile, PortableRead,
    PortableUse, is_plain_path,
};
pub use store::{Store, StoreError, Stored, portable_name};
