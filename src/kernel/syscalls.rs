//! Which system calls look up paths, and in which of their arguments; and which read files.

use libbpf_rs::{MapCore, MapFlags};

use super::abilities::TraceError;
use super::skel::types::{pf_rule, pf_syscall};

/// A row of the table: the call's number, and how it takes its paths or which file it reads.
type Row = (libc::c_long, pf_syscall);

/// Arguments count from 1; 0 is none.
fn call(number: libc::c_long, rule: pf_rule, dirfd: u8, path: u8, flags: u8) -> Row {
    let how = pf_syscall {
        rule: rule.0 as u8,
        path,
        dirfd,
        flags,
        ..Default::default()
    };
    (number, how)
}

/// A call with a second path.
fn two(row: Row, dirfd_2: u8, path_2: u8) -> Row {
    let (number, how) = row;
    let how = pf_syscall {
        path_2,
        dirfd_2,
        ..how
    };
    (number, how)
}

/// The calls that every architecture has.
fn common() -> Vec<Row> {
    use pf_rule as rule;
    let (follow, nofollow, at) = (rule::PF_FOLLOW, rule::PF_NOFOLLOW, rule::PF_AT_FLAGS);
    vec![
        call(libc::SYS_openat, rule::PF_OPEN_FLAGS, 1, 2, 3),
        call(libc::SYS_openat2, rule::PF_OPEN_HOW, 1, 2, 3),
        call(libc::SYS_execve, follow, 0, 1, 0),
        call(libc::SYS_execveat, at, 1, 2, 5),
        call(libc::SYS_newfstatat, at, 1, 2, 4),
        call(libc::SYS_statx, at, 1, 2, 3),
        call(libc::SYS_statfs, follow, 0, 1, 0),
        call(libc::SYS_faccessat, follow, 1, 2, 0),
        call(libc::SYS_faccessat2, at, 1, 2, 4),
        call(libc::SYS_readlinkat, nofollow, 1, 2, 0),
        call(libc::SYS_chdir, rule::PF_CHANGE, 0, 1, 0),
        call(libc::SYS_getdents64, rule::PF_LIST, 0, 0, 0),
        call(libc::SYS_connect, rule::PF_SOCKET, 0, 0, 0),
        call(libc::SYS_bind, rule::PF_SOCKET, 0, 0, 0),
        call(libc::SYS_read, rule::PF_READ_ON, 0, 0, 0),
        call(libc::SYS_readv, rule::PF_READ_ON, 0, 0, 0),
        call(libc::SYS_pread64, rule::PF_READ_AT, 0, 0, 0),
        call(libc::SYS_preadv, rule::PF_READ_AT, 0, 0, 0),
        call(libc::SYS_preadv2, rule::PF_READ_AT, 0, 0, 0),
        call(libc::SYS_inotify_add_watch, follow, 0, 2, 0),
        call(libc::SYS_name_to_handle_at, rule::PF_LINK_FLAGS, 1, 2, 5),
        call(libc::SYS_getxattr, follow, 0, 1, 0),
        call(libc::SYS_lgetxattr, nofollow, 0, 1, 0),
        call(libc::SYS_listxattr, follow, 0, 1, 0),
        call(libc::SYS_llistxattr, nofollow, 0, 1, 0),
        call(libc::SYS_setxattr, follow, 0, 1, 0),
        call(libc::SYS_mkdirat, nofollow, 1, 2, 0),
        call(libc::SYS_mknodat, nofollow, 1, 2, 0),
        call(libc::SYS_unlinkat, nofollow, 1, 2, 0),
        call(libc::SYS_symlinkat, nofollow, 2, 3, 0),
        call(libc::SYS_fchmodat, follow, 1, 2, 0),
        call(libc::SYS_fchownat, at, 1, 2, 5),
        call(libc::SYS_utimensat, at, 1, 2, 4),
        call(libc::SYS_truncate, follow, 0, 1, 0),
        two(call(libc::SYS_linkat, rule::PF_LINK_FLAGS, 1, 2, 5), 3, 4),
        two(call(libc::SYS_renameat2, nofollow, 1, 2, 0), 3, 4),
    ]
}

/// The older forms, which newer architectures do not have any more.
#[cfg(target_arch = "x86_64")]
fn older() -> Vec<Row> {
    use pf_rule as rule;
    let (follow, nofollow) = (rule::PF_FOLLOW, rule::PF_NOFOLLOW);
    vec![
        call(libc::SYS_open, rule::PF_OPEN_FLAGS, 0, 1, 2),
        call(libc::SYS_creat, follow, 0, 1, 0),
        call(libc::SYS_stat, follow, 0, 1, 0),
        call(libc::SYS_lstat, nofollow, 0, 1, 0),
        call(libc::SYS_access, follow, 0, 1, 0),
        call(libc::SYS_readlink, nofollow, 0, 1, 0),
        call(libc::SYS_getdents, rule::PF_LIST, 0, 0, 0),
        call(libc::SYS_mkdir, nofollow, 0, 1, 0),
        call(libc::SYS_mknod, nofollow, 0, 1, 0),
        call(libc::SYS_rmdir, nofollow, 0, 1, 0),
        call(libc::SYS_unlink, nofollow, 0, 1, 0),
        call(libc::SYS_symlink, nofollow, 0, 2, 0),
        call(libc::SYS_chmod, follow, 0, 1, 0),
        call(libc::SYS_chown, follow, 0, 1, 0),
        call(libc::SYS_lchown, nofollow, 0, 1, 0),
        call(libc::SYS_utime, follow, 0, 1, 0),
        call(libc::SYS_utimes, follow, 0, 1, 0),
        two(call(libc::SYS_link, nofollow, 0, 1, 0), 0, 2),
        two(call(libc::SYS_rename, nofollow, 0, 1, 0), 0, 2),
        two(call(libc::SYS_renameat, nofollow, 1, 2, 0), 3, 4),
    ]
}

#[cfg(target_arch = "aarch64")]
fn older() -> Vec<Row> {
    let nofollow = pf_rule::PF_NOFOLLOW;
    vec![two(call(libc::SYS_renameat, nofollow, 1, 2, 0), 3, 4)]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn older() -> Vec<Row> {
    Vec::new()
}

/// Fills the map that the BPF programs look system calls up in (`bpf/paths.h`).
///
/// # Errors
/// When the map refuses a row.
pub fn fill(map: &impl MapCore) -> Result<(), TraceError> {
    for (number, how) in common().into_iter().chain(older()) {
        // Numbers of system calls are small and positive.
        let key = (number as u32).to_ne_bytes();
        map.update(&key, &bytes(how), MapFlags::ANY)
            .map_err(|error| TraceError::from_bpf("listing the system calls", error))?;
    }
    Ok(())
}

fn bytes(how: pf_syscall) -> [u8; size_of::<pf_syscall>()] {
    [
        how.rule,
        how.path,
        how.dirfd,
        how.flags,
        how.path_2,
        how.dirfd_2,
        0,
        0,
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_call_has_one_row_that_fits_the_map() {
        let mut seen = HashSet::new();
        for (number, how) in common().into_iter().chain(older()) {
            assert!((0..512).contains(&number), "{number}");
            assert!(seen.insert(number), "{number} twice");
            let arguments = [how.path, how.dirfd, how.flags, how.path_2, how.dirfd_2];
            assert!(arguments.iter().all(|&argument| argument <= 5), "{number}");
            let whole = [
                pf_rule::PF_LIST,
                pf_rule::PF_SOCKET,
                pf_rule::PF_READ_ON,
                pf_rule::PF_READ_AT,
            ];
            let takes_none = whole.iter().any(|rule| u32::from(how.rule) == rule.0);
            assert_eq!(how.path == 0, takes_none, "{number}");
        }
    }
}
