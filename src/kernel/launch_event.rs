//! From the bytes of a ring-buffer record to a launch event.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::event::user_dev;
use super::record_bytes;
use super::skel::types::{pf_launch_event, pf_launch_kind};

/// Something that happened to a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchEvent {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// What happened.
    pub kind: LaunchEventKind,
    /// Number of the launch; 0 for [`LaunchEventKind::Large`].
    pub launch: u64,
    /// Process id, in the initial pid namespace.
    pub pid: u32,
    /// Real user id of the process, in the initial user namespace. In a user namespace that another user has made, the
    /// id of that user.
    pub uid: u32,
    /// Root directory of the process: device (`st_dev`) and inode number.
    pub root: (u64, u64),
    /// Number of its mount namespace.
    pub mount_ns: u32,
    /// The path that execve was given, cut off after 127 bytes for [`LaunchEventKind::Large`]. Empty for
    /// [`LaunchEventKind::Ended`].
    pub path: OsString,
    /// The arguments of the program that was executed, the first 4 KiB of them. Empty for other kinds, and if the kernel
    /// could not read them.
    pub arguments: Vec<OsString>,
}

/// What happened to a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchEventKind {
    /// execve was called; it may fail yet.
    Called,
    /// A program was executed.
    Executed,
    /// The launch's last task exited.
    Ended,
    /// A process exited that was in no launch. It and its children had read this many bytes from drives
    /// since it was executed.
    Large(u64),
}

/// Reads a record. `None` if it is not a launch event, which only a mismatch between the compiled BPF
/// object and this program could cause.
pub fn parse(record: &[u8]) -> Option<LaunchEvent> {
    let raw: pf_launch_event = record_bytes::read(record, size_of::<pf_launch_event>())?;
    let kind = match raw.kind {
        kind if kind == pf_launch_kind::PF_LAUNCH_CALLED.0 => LaunchEventKind::Called,
        kind if kind == pf_launch_kind::PF_LAUNCH_EXECUTED.0 => LaunchEventKind::Executed,
        kind if kind == pf_launch_kind::PF_LAUNCH_ENDED.0 => LaunchEventKind::Ended,
        kind if kind == pf_launch_kind::PF_LARGE_READER.0 => LaunchEventKind::Large(raw.value),
        _ => return None,
    };
    let text = record.get(size_of::<pf_launch_event>()..)?;
    let (path, rest) = text.split_at_checked(raw.path_bytes as usize)?;
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    Some(LaunchEvent {
        time_ns: raw.time_ns,
        kind,
        launch: raw.launch,
        pid: raw.pid,
        uid: raw.uid,
        root: (user_dev(raw.root_dev), raw.root_ino),
        mount_ns: raw.mount_ns,
        path: OsStr::from_bytes(path).to_owned(),
        arguments: arguments(rest),
    })
}

/// Arguments that each have a final zero, but for the last one if they were cut off.
fn arguments(bytes: &[u8]) -> Vec<OsString> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let arguments = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let arguments = arguments.split(|&byte| byte == 0);
    arguments
        .map(|argument| OsStr::from_bytes(argument).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: pf_launch_kind, path: &[u8], arguments: &[u8]) -> Option<LaunchEvent> {
        let raw = pf_launch_event {
            time_ns: 7,
            launch: 3,
            value: 9,
            root_ino: 2,
            root_dev: 8 << 20 | 1,
            pid: 4242,
            kind: kind.0,
            path_bytes: path.len() as u32,
            ..Default::default()
        };
        parse(&[record_bytes::write(&raw), path, arguments].concat())
    }

    #[test]
    fn a_launch_event_is_read_from_its_record() {
        let large = pf_launch_kind::PF_LARGE_READER;
        let found = event(large, b"/usr/bin/gimp\0", b"").unwrap();
        assert_eq!(found.kind, LaunchEventKind::Large(9));
        assert_eq!((found.time_ns, found.launch, found.pid), (7, 3, 4242));
        assert_eq!(found.root, (rustix::fs::makedev(8, 1), 2));
        assert_eq!(found.path.to_str(), Some("/usr/bin/gimp"));
        let ended = event(pf_launch_kind::PF_LAUNCH_ENDED, b"", b"").unwrap();
        assert_eq!((ended.kind, ended.path.len()), (LaunchEventKind::Ended, 0));
    }

    #[test]
    fn arguments_follow_the_path() {
        let arguments = |bytes: &[u8]| {
            let executed = pf_launch_kind::PF_LAUNCH_EXECUTED;
            let event = event(executed, b"/usr/bin/python3\0", bytes).unwrap();
            assert_eq!(event.path, "/usr/bin/python3");
            event.arguments
        };
        assert_eq!(arguments(b"python3\0\0a.py\0"), ["python3", "", "a.py"]);
        assert_eq!(arguments(b"python3\0a.p"), ["python3", "a.p"]);
        assert!(arguments(b"").is_empty());
    }

    #[test]
    fn foreign_and_short_records_are_rejected() {
        assert_eq!(event(pf_launch_kind(9), b"", b""), None);
        assert_eq!(parse(&[0; 20]), None);
        let raw = pf_launch_event {
            kind: pf_launch_kind::PF_LAUNCH_CALLED.0,
            path_bytes: 5,
            ..Default::default()
        };
        assert_eq!(parse(&[record_bytes::write(&raw), b"/bin"].concat()), None);
    }
}
