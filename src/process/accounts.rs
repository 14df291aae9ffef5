//! The user database, through the C library, which alone knows where accounts are kept.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Largest buffer tried for one account, in bytes.
const LARGEST: usize = 1 << 20;

/// Most groups asked for: the kernel's NGROUPS_MAX.
const MOST_GROUPS: usize = 65_536;

/// One line of passwd(5).
pub(super) struct Account {
    pub name: CString,
    pub gid: u32,
    pub home: OsString,
    pub shell: OsString,
}

/// The account of `uid`; `None` if there is none.
pub(super) fn account(uid: u32) -> io::Result<Option<Account>> {
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        let mut found = std::ptr::null_mut();
        // SAFETY: a passwd is integers and pointers, for which zero is a value.
        let mut record: libc::passwd = unsafe { std::mem::zeroed() };
        // SAFETY: every pointer is to a live local, and the length is the buffer's own.
        let error = unsafe {
            libc::getpwuid_r(
                uid,
                &mut record,
                buffer.as_mut_ptr(),
                buffer.len(),
                &mut found,
            )
        };
        match error {
            0 if found.is_null() => return Ok(None),
            0 => {
                return Ok(Some(Account {
                    name: text(record.pw_name).into(),
                    gid: record.pw_gid,
                    home: OsStr::from_bytes(text(record.pw_dir).to_bytes()).into(),
                    shell: OsStr::from_bytes(text(record.pw_shell).to_bytes()).into(),
                }));
            }
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < LARGEST => buffer.resize(buffer.len() * 2, 0),
            // What getpwuid_r(3) lists as further ways to say "not found".
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// A string of a record just filled in by getpwuid_r.
fn text<'a>(string: *const libc::c_char) -> &'a CStr {
    if string.is_null() {
        return c"";
    }
    // SAFETY: getpwuid_r has set it to a NUL-terminated string in the caller's buffer, which the
    // caller keeps until it has copied the string.
    unsafe { CStr::from_ptr(string) }
}

/// All groups of the user `name`, `gid` included.
pub(super) fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: `name` is NUL-terminated, and `count` says how many ids `groups` has room for.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        // On success and on failure alike `count` becomes the number of groups there are.
        let count = usize::try_from(count).unwrap_or(0);
        if result >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= MOST_GROUPS {
            return Err(io::Error::other("the user is in too many groups"));
        }
        groups.resize(count.max(groups.len() * 2).min(MOST_GROUPS), 0);
    }
}
