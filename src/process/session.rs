//! Variables of the desktop session that sudo was called from. sudo itself passes on few of them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

/// Variables that name the desktop session and the language.
const SESSION: [&str; 14] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_SESSION_TYPE",
    "XDG_SESSION_ID",
    "XDG_CURRENT_DESKTOP",
    "XDG_SESSION_DESKTOP",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "DESKTOP_SESSION",
    "XMODIFIERS",
    "GTK_IM_MODULE",
    "QT_IM_MODULE",
    "LANG",
];

/// How far above us the user's own process may be: sudo runs one or two of its own in between.
const GENERATIONS: usize = 8;

/// An environment is not larger than this, in bytes; a user could write more into theirs.
const LARGEST: usize = 1 << 20;

/// The session's variables, from the nearest process above us that is `uid`'s own. Empty if there is
/// none, as under a service. They are that user's to choose, and for a process of that user only.
pub(super) fn variables(uid: u32) -> Vec<(OsString, OsString)> {
    let mut pid = rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid().unsigned_abs());
    for _ in 0..GENERATIONS {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            break;
        };
        if number(&status, "Uid:") == Some(uid) {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            return session_of(&environ);
        }
        let Some(parent) = number(&status, "PPid:") else {
            break;
        };
        pid = parent;
    }
    Vec::new()
}

/// The real user id of a process; `None` if it has ended.
pub fn real_uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    number(&status, "Uid:")
}

/// The first number in a line of /proc/PID/status: for user ids the real one.
fn number(status: &str, field: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The session's variables in the contents of /proc/PID/environ.
fn session_of(environ: &[u8]) -> Vec<(OsString, OsString)> {
    environ[..environ.len().min(LARGEST)]
        .split(|&byte| byte == 0)
        .filter_map(|variable| {
            let equals = variable.iter().position(|&byte| byte == b'=')?;
            let name = std::str::from_utf8(&variable[..equals]).ok()?;
            let value = OsString::from_vec(variable[equals + 1..].to_vec());
            SESSION.contains(&name).then(|| (name.into(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sessions_variables_are_taken() {
        let environ =
            b"PATH=/evil\0WAYLAND_DISPLAY=wayland-0\0LD_PRELOAD=x\0LANG=a=b\0nonsense\0\0=x\0";
        let expected = [("WAYLAND_DISPLAY", "wayland-0"), ("LANG", "a=b")];
        assert_eq!(
            session_of(environ),
            expected.map(|(n, v)| (n.into(), v.into()))
        );
        assert_eq!(session_of(b""), []);
        // No process above us is this user's.
        assert_eq!(variables(u32::MAX - 1), []);
    }

    #[test]
    fn status_lines_are_read() {
        let status = "Name:\tsh\nPPid:\t42\nUid:\t1000\t0\t0\t0\n";
        let found = ["Uid:", "PPid:", "Gid:"].map(|field| number(status, field));
        assert_eq!(found, [Some(1000), Some(42), None]);
    }
}
