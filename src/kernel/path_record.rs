//! Reads the records of looked-up paths.

use std::mem::offset_of;

use super::event::user_dev;
use super::record_bytes;
use super::skel::types::{pf_inode, pf_path, pf_use};
use crate::model::{InodeId, PathUse, Use};

/// Reads the record of a path. `None` if it is too short.
pub(super) fn parse(record: &[u8]) -> Option<PathUse> {
    const HEADER: usize = offset_of!(pf_path, path);
    let raw: pf_path = record_bytes::read(record, HEADER)?;
    let path = record[HEADER..]
        .get(..usize::try_from(raw.length).ok()?)?
        .to_vec();
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

fn inode(raw: &pf_inode) -> InodeId {
    InodeId {
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
        let header = &record_bytes::write(raw)[..offset_of!(pf_path, path)];
        [header, text].concat()
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
        let from = InodeId {
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
