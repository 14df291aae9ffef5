//! The kernel's `mountinfo` format (proc(5)), as plain data.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::makedev;

use super::kind::FsKind;

/// One mount of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of the mount.
    pub id: u32,
    /// Number of the mount that it is mounted on.
    pub parent: u32,
    /// The file system's device, in the user-space encoding (`st_dev`).
    pub dev: u64,
    /// Which directory of the file system is mounted: `/` or, for a bind mount, one below it.
    pub root: Vec<u8>,
    /// Where it is mounted, as seen from the reader's root directory.
    pub mount_point: PathBuf,
    /// Type, such as `ext4` or `fuse.sshfs`.
    pub fs_type: String,
    /// The source that was mounted: for file systems on drives, the path of a device node.
    pub source: Vec<u8>,
}

impl Mount {
    /// The kind of its file system; `None` if that is not served.
    pub fn kind(&self) -> Option<FsKind> {
        FsKind::of(&self.fs_type)
    }
}

/// Parses the text of a `mountinfo` file. Returns its mounts in the file's order; malformed lines are skipped.
pub fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter_map(parse_line).collect()
}

/// `ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [OPTIONAL…] - TYPE SOURCE SUPER_OPTIONS`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let mut device = fields.next()?.splitn(2, |&byte| byte == b':');
    let dev = makedev(number(device.next()?)?, number(device.next()?)?);
    let root = unescape(fields.next()?);
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    if !root.starts_with(b"/") || !mount_point.is_absolute() {
        return None;
    }
    fields.next()?;
    fields.by_ref().find(|field| field == b"-")?;
    let fs_type = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    // A source may be the empty string.
    let source = unescape(fields.next()?);
    Some(Mount {
        id,
        parent,
        dev,
        root,
        mount_point,
        fs_type,
        source,
    })
}

fn number(digits: &[u8]) -> Option<u32> {
    // `u32::from_str` would also accept a sign.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Resolves the kernel's escapes, a backslash and three octal digits. Other bytes are kept.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after_first @ ..] = rest {
        if let [
            b'\\',
            a @ b'0'..=b'3',
            b @ b'0'..=b'7',
            c @ b'0'..=b'7',
            after @ ..,
        ] = rest
        {
            bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            bytes.push(*first);
            rest = after_first;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_with_optional_fields_escapes_large_numbers_and_empty_sources() {
        for optional in ["", "shared:1 ", "shared:1 master:2 propagate_from:3 "] {
            let text = format!(r"36 35 259:1048575 /sub /\040\377\400\9\ rw {optional}- ext3  rw");
            let expected = Mount {
                id: 36,
                parent: 35,
                dev: makedev(259, 1_048_575),
                root: b"/sub".to_vec(),
                mount_point: OsString::from_vec(b"/ \xff\\400\\9\\".to_vec()).into(),
                fs_type: "ext3".to_owned(),
                source: Vec::new(),
            };
            assert_eq!(parse_mountinfo(text.as_bytes()), [expected]);
        }
    }

    #[test]
    fn malformed_lines_are_skipped_and_the_others_kept() {
        let good = "22 27 0:21 / /proc rw - proc proc rw";
        for bad in [
            "nonsense",
            "22 27 0:21 / /proc rw proc proc rw",
            "22 27 021 / /proc rw - proc proc rw",
            "22 27 0:+21 / /proc rw - proc proc rw",
            "22 99999999999 0:21 / /proc rw - proc proc rw",
            "22 27 0:21 / proc rw - proc proc rw",
            "22 27 0:21 net:[4] /run rw",
            "22 27 0:21 / /proc rw -",
            "22 27 0:21 / /proc rw - proc",
        ] {
            let mounts = parse_mountinfo(format!("{good}\n{bad}\n{good}").as_bytes());
            assert_eq!(mounts.len(), 2, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn near_misses_are_parsed_or_skipped(line in r"[0-9:]{0,4} 1 [0-9]{0,12}:[0-9]{0,3} /[\\0-9]{0,5} /[\\0-9]{0,6} rw( -)? ?ext4 ?x?") {
            prop_assert!(parse_mountinfo(line.as_bytes()).len() <= 1);
        }

        #[test]
        fn escaping_is_undone(path in proptest::collection::vec(1u8.., 0..40)) {
            let mut escaped = b"7 1 8:1 / /".to_vec();
            for byte in &path {
                match byte {
                    b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                        escaped.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                    }
                    _ => escaped.push(*byte),
                }
            }
            escaped.extend_from_slice(b" rw - ext4 /dev/sda1 rw");
            let mounts = parse_mountinfo(&escaped);
            prop_assert_eq!(&mounts[0].mount_point.as_os_str().as_bytes()[1..], &path[..]);
        }
    }
}
