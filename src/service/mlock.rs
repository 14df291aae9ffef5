//! Keeping the service's own code in memory.
//!
//! A service that has been idle for days is the first whose code pages the kernel reclaims. At the next
//! launch each of them would be a read from the drive before the first prefetch request.

use std::ffi::c_void;
use std::ops::Range;
use std::{fs, io};

use rustix::mm::{MlockFlags, mlock_with};

/// Locks the pages of this process's program and libraries in memory, each from its next use on. Reads
/// nothing.
///
/// # Errors
/// When /proc cannot be read, or RLIMIT_MEMLOCK does not allow it.
pub fn lock_code() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    for range in maps.lines().filter_map(of_file) {
        // SAFETY: locking changes no contents. If the mapping is gone by now, the call fails or locks another
        // mapping of this process.
        unsafe { mlock_with(range.start as *mut c_void, range.len(), MlockFlags::ONFAULT)? };
    }
    Ok(())
}

/// The addresses of a line of /proc/PID/maps (proc_pid_maps(5)) if it maps a file that is not written.
fn of_file(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (addresses, permissions, path) = (fields.next()?, fields.next()?, fields.nth(3)?);
    if !path.starts_with('/') || !permissions.starts_with("r-") {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_mappings_of_files_are_found() {
        let code = "55a0c000-55a0d000 r-xp 00001000 08:02 173521 /usr/bin/my program";
        assert_eq!(of_file(code), Some(0x55a0_c000..0x55a0_d000));
        for other in [
            "55a0e000-55a0f000 rw-p 00003000 08:02 173521 /usr/bin/program",
            "55a0e000-55a0f000 ---p 00003000 08:02 173521 /usr/lib/libc.so.6",
            "7ffd0000-7ffd1000 rw-p 00000000 00:00 0 [stack]",
            "7ffd2000-7ffd3000 r-xp 00000000 00:00 0 [vdso]",
            "7ffd4000-7ffd5000 r--p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(of_file(other), None, "{other}");
        }
    }

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
