//! The paths that a launch looks up: plain data, and the reader of their records.

use std::mem::offset_of;

use super::event::user_dev;
use super::skel::learn::types::{pf_inode, pf_path, pf_use};

/// Names an inode for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Device of its file system, in the encoding of `st_dev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Inode generation.
    pub generation: u32,
}

/// What was done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It was looked up, whether something was found or not. With `follow`, a symbolic link in its last
    /// place was followed.
    LookUp {
        /// Whether a symbolic link in the last place was followed.
        follow: bool,
    },
    /// It was looked up to execute what it names, which the kernel did.
    Execute,
    /// The directory [`PathUse::from`] was read; the path is empty.
    List,
    /// The directory [`PathUse::from`] became the working directory, by a path that is not known; the
    /// path is empty.
    Enter,
}

/// The first use of a path by the launch tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// When the system call returned, CLOCK_MONOTONIC in nanoseconds.
    pub time_ns: u64,
    /// The directory that the path starts from; for absolute paths the task's root.
    pub from: Inode,
    /// Number of the mount that it was reached through, as /proc/PID/mountinfo shows it.
    pub from_mount: u32,
    /// Root directory of the task: what `/` means to it.
    pub root: Inode,
    /// Number of the mount that the root was reached through.
    pub root_mount: u32,
    /// Number of the task's mount namespace, as /proc/PID/ns/mnt shows it.
    pub mount_ns: u32,
    /// The task's process, which may be gone by now; 0 if it is in our mount namespace.
    pub pid: u32,
    /// The path as the task gave it; arbitrary bytes but zero.
    pub path: Vec<u8>,
    /// What was done with it.
    pub how: Use,
}

/// Reads a record that says to be a path. `None` if it is too short to be one.
pub(super) fn parse(record: &[u8]) -> Option<PathUse> {
    const HEADER: usize = offset_of!(pf_path, path);
    let (header, text) = record.split_at_checked(HEADER)?;
    let mut raw = pf_path::default();
    // SAFETY: `raw` is plain integers, of which the header's bytes are the first, and any bytes are a
    // value of theirs.
    unsafe {
        std::ptr::copy_nonoverlapping(header.as_ptr(), (&raw mut raw).cast::<u8>(), HEADER);
    }
    let path = text.get(..usize::try_from(raw.length).ok()?)?.to_vec();
    let how = match u32::from(raw.r#use) {
        value if value == pf_use::PF_LOOK_UP.0 => Use::LookUp {
            follow: raw.nofollow == 0,
        },
        value if value == pf_use::PF_EXECUTED.0 => Use::Execute,
        value if value == pf_use::PF_LISTED.0 => Use::List,
        value if value == pf_use::PF_ENTERED.0 => Use::Enter,
        _ => return None,
    };
    Some(PathUse {
        time_ns: raw.time_ns,
        from: inode(&raw.from),
        from_mount: raw.from_mount,
        root: inode(&raw.root),
        root_mount: raw.root_mount,
        mount_ns: raw.mount_ns,
        pid: raw.pid,
        path,
        how,
    })
}

fn inode(raw: &pf_inode) -> Inode {
    Inode {
        dev: user_dev(raw.dev),
        ino: raw.ino,
        generation: raw.generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record that the BPF programs write for a path.
    fn record(raw: &pf_path, text: &[u8]) -> Vec<u8> {
        let header = offset_of!(pf_path, path);
        // SAFETY: any initialised plain struct can be seen as bytes.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const *raw).cast::<u8>(), header) };
        [bytes, text].concat()
    }

    fn raw(text: &[u8]) -> pf_path {
        pf_path {
            time_ns: 5,
            r#use: pf_use::PF_LOOK_UP.0 as u8,
            nofollow: 1,
            length: text.len() as u64,
            from: pf_inode {
                ino: 12,
                dev: 7 << 20 | 3,
                generation: 9,
            },
            ..Default::default()
        }
    }

    #[test]
    fn a_path_is_read_from_its_record() {
        let path = parse(&record(&raw(b"usr/lib"), b"usr/lib")).unwrap();
        assert_eq!(path.path, b"usr/lib");
        assert_eq!(path.how, Use::LookUp { follow: false });
        let from = Inode {
            dev: rustix::fs::makedev(7, 3),
            ino: 12,
            generation: 9,
        };
        assert_eq!((path.time_ns, path.from), (5, from));
    }

    #[test]
    fn short_and_foreign_records_are_no_paths() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0; 60]), None);
        assert_eq!(parse(&record(&raw(b"usr/lib"), b"usr")), None);
        let mut unknown = raw(b"");
        unknown.r#use = 200;
        assert_eq!(parse(&record(&unknown, b"")), None);
    }
}
