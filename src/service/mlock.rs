//! Keeping the service's own code in memory.
//!
//! A service that has been idle for days is the first whose code pages the kernel reclaims. At the next
//! launch each of them would be a read from the drive before the first prefetch request.

use std::{fs, io};

use rustix::mm::{MlockFlags, mlock_with};

use crate::drive::FileMapping;

/// Locks the pages of this process's program and libraries in memory, each from its next use on. Reads
/// none of them.
///
/// # Errors
/// When /proc cannot be read, or RLIMIT_MEMLOCK does not allow it.
pub fn lock_code() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    for mapping in maps.lines().filter_map(FileMapping::parse) {
        if mapping.read_only {
            let start = std::ptr::without_provenance_mut(mapping.addresses.start as usize);
            let length = (mapping.addresses.end - mapping.addresses.start) as usize;
            // SAFETY: locking changes no contents. If the mapping is gone by now, the call fails or locks
            // another mapping of this process.
            unsafe { mlock_with(start, length, MlockFlags::ONFAULT)? };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_locked() {
        let locked = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let field = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
            let kib = field.unwrap().trim().trim_end_matches(" kB");
            kib.parse::<u64>().unwrap()
        };
        let before = locked();
        match lock_code() {
            Ok(()) => assert!(locked() > before),
            Err(error) => eprintln!("SKIPPED: locking memory: {error}"),
        }
    }
}
