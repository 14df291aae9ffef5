//! The records of the programs as bytes.

use super::skel::types::{pf_event, pf_launch_event, pf_own_read, pf_path};

/// A type of the programs.
///
/// # Safety
/// The type is plain integers, for which any bytes are a value.
pub(super) unsafe trait Plain: Default {}

// SAFETY: structs of `bpf/intf.h`, which has nothing but integers and arrays of them.
unsafe impl Plain for pf_event {}
// SAFETY: as above.
unsafe impl Plain for pf_launch_event {}
// SAFETY: as above.
unsafe impl Plain for pf_own_read {}
// SAFETY: as above.
unsafe impl Plain for pf_path {}

/// The value that a record begins with; what the record is too short for stays zero. `None` if it has less than
/// `least` bytes.
pub(super) fn read<T: Plain>(record: &[u8], least: usize) -> Option<T> {
    let bytes = record.get(..record.len().min(size_of::<T>()))?;
    let mut value = T::default();
    // SAFETY: within the value, of which any bytes are a value.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast::<u8>(), bytes.len());
    }
    (bytes.len() >= least).then_some(value)
}

/// The record of a value.
#[cfg(test)]
pub(super) fn write<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: an initialised value of plain integers without padding between them.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) }
}
