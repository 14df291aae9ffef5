//! Paging out file pages that programs have mapped, which dropping the caches does not free.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::makedev;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

/// Most ranges of one call (UIO_MAXIOV of the kernel).
const MOST_RANGES: usize = 1024;

/// Asks every process to give up the pages of files on these devices (`st_dev`) that it has mapped and
/// not changed: they are unmapped, and read again when they are used (process_madvise(2) with
/// MADV_PAGEOUT, Linux 5.10). The kernel skips pages that more than one process has mapped.
/// Returns the number of bytes that were asked for.
///
/// Processes that end meanwhile, or that may not be examined, keep their pages.
///
/// # Errors
/// When /proc cannot be read.
pub fn page_out_mapped(devices: &[u64]) -> io::Result<u64> {
    let own = getpid().as_raw_nonzero().get();
    let mut asked = 0;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|&pid| pid != own).and_then(Pid::from_raw) {
            asked += page_out(pid, devices).unwrap_or(0);
        }
    }
    Ok(asked)
}

fn page_out(pid: Pid, devices: &[u64]) -> io::Result<u64> {
    // Opened before the ranges are read, so that it is this process even if its id is reused.
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let smaps = fs::read(format!("/proc/{}/smaps", pid.as_raw_nonzero()))?;
    let ranges = unchanged(&String::from_utf8_lossy(&smaps), devices);
    let mut asked = 0;
    for ranges in ranges.chunks(MOST_RANGES) {
        asked += advise(process.as_fd(), ranges)?;
    }
    Ok(asked)
}

/// Mappings of files on these devices that the process cannot have changed, in the contents of
/// /proc/PID/smaps. Those with pages of the process's own among them would go to the swap, and locked
/// ones are refused.
fn unchanged(smaps: &str, devices: &[u64]) -> Vec<Range<u64>> {
    let mappings = FileMapping::all_in(smaps).into_iter();
    mappings
        .filter(|mapping| mapping.read_only && !mapping.own_or_locked)
        .filter(|mapping| devices.contains(&mapping.dev))
        .map(|mapping| mapping.addresses)
        .collect()
}

/// Whether the line says that some of the mapping is anonymous or locked memory.
fn says_own_or_locked(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    matches!(fields.next(), Some("Anonymous:" | "Locked:")) && fields.next() != Some("0")
}

/// A mapping in /proc/PID/smaps (proc_pid_smaps(5)).
pub struct FileMapping {
    /// Addresses of the mapping.
    pub addresses: Range<u64>,
    /// Whether it maps a file that can be read and not written through it.
    pub read_only: bool,
    /// Whether it is code.
    pub executable: bool,
    /// Whether some of its pages are the process's own, changed before it became read-only, or are locked.
    pub own_or_locked: bool,
    dev: u64,
}

impl FileMapping {
    /// All mappings of a process, in the contents of its smaps.
    pub fn all_in(smaps: &str) -> Vec<Self> {
        let mut mappings: Vec<FileMapping> = Vec::new();
        for line in smaps.lines() {
            if let Some(mapping) = FileMapping::parse(line) {
                mappings.push(mapping);
            } else if let Some(last) = mappings.last_mut() {
                last.own_or_locked |= says_own_or_locked(line);
            }
        }
        mappings
    }

    /// `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE [PATH]`; `None` for other lines.
    fn parse(line: &str) -> Option<Self> {
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        let inode: u64 = fields.next()?.parse().ok()?;
        Some(FileMapping {
            addresses: hex(start)?..hex(end)?,
            read_only: inode != 0 && permissions.starts_with("r-"),
            executable: permissions.contains('x'),
            own_or_locked: false,
            dev: makedev(hex(major)? as u32, hex(minor)? as u32),
        })
    }
}

/// Asks for the pages of one process; returns their size in bytes.
fn advise(process: BorrowedFd<'_>, ranges: &[Range<u64>]) -> io::Result<u64> {
    let vector: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(range.start as usize),
            iov_len: (range.end - range.start) as usize,
        })
        .collect();
    // SAFETY: the vector has the given length. Its addresses are the other process's; the advice changes
    // nothing that a program can read, here or there.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            vector.as_ptr(),
            vector.len(),
            libc::MADV_PAGEOUT,
            0,
        )
    };
    u64::try_from(advised).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
559b9c000000-559b9c00c000 r--p 00000000 08:02 131 /usr/bin/app
Size:                 48 kB
Anonymous:             0 kB
Locked:                0 kB
VmFlags: rd mr mw me sd
559b9c00c000-559b9c010000 r--p 0000c000 08:02 131 /usr/bin/app
Anonymous:             4 kB
Locked:                0 kB
559b9c010000-559b9c020000 rw-p 00010000 08:02 131 /usr/bin/app
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 103:1a 77 /lib/a name.so
Anonymous:             0 kB
Locked:             1024 kB
7f1000000000-7f1000100000 r-xp 00002000 103:1a 78 /lib/7f00-1 r--p.so (deleted)
Anonymous:             0 kB
Locked:                0 kB
7f2000000000-7f2000001000 r--p 00000000 00:00 0 [vvar]
Anonymous:             0 kB
7f3000000000-7f3000001000 r--s 00000000 00:2a 9 /tmp/x
Anonymous:             0 kB
7f4000000000-7f4000001000 ---p 00003000 08:02 132 /usr/lib/libc.so.6
Anonymous:             0 kB
";

    #[test]
    fn only_unchanged_pages_of_the_devices_are_given_up() {
        let devices = [makedev(8, 2), makedev(0x103, 0x1a)];
        assert_eq!(
            unchanged(SMAPS, &devices),
            [
                0x559b_9c00_0000..0x559b_9c00_c000,
                0x7f10_0000_0000..0x7f10_0010_0000
            ]
        );
        assert_eq!(unchanged(SMAPS, &[]), []);
        assert_eq!(unchanged("", &devices), []);
        assert_eq!(unchanged("nonsense\n-\na-b\n1-2 r 0 zz 1\n", &devices), []);
    }
}
