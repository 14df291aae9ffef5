//! What is kept of a launch: the `.pf` file and the directory that holds one for each app.

mod format;
mod store;

#[cfg(test)]
pub(crate) mod generate;

#[doc(hidden)]
pub use format::seal;
pub use format::{FormatError, MAX_FILE_BYTES, TIME_QUANTUM_US, decode, encode};
pub use store::{Store, StoreError, Stored};
