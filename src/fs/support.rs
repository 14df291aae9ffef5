//! Which file systems can be prefetched.

use serde::{Deserialize, Serialize};

/// What a file system's type means for prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Support {
    /// ext2, ext3 and ext4: metadata and data.
    Ext4,
    /// Made up by the kernel: nothing is read from a drive.
    Pseudo,
    /// Lives in memory.
    Memory,
    /// Read over a network or from a host.
    Network,
    /// Served by a user-space process.
    Fuse,
    /// Shows the files of other file systems, which count themselves.
    Stacked,
    /// On a drive, but of a kind that is not supported yet.
    NotYet,
}

impl Support {
    /// Judges a file system by its type as mountinfo names it, such as `ext4` or `fuse.sshfs`.
    pub fn of(fs_type: &str) -> Self {
        match fs_type {
            "ext2" | "ext3" | "ext4" => Support::Ext4,
            "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" | "rootfs" => Support::Memory,
            "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "afs" | "9p" | "virtiofs" | "coda"
            | "orangefs" | "lustre" | "vboxsf" => Support::Network,
            "overlay" | "ecryptfs" | "aufs" => Support::Stacked,
            "autofs" | "bdev" | "binder" | "binfmt_misc" | "bpf" | "cgroup" | "cgroup2"
            | "configfs" | "debugfs" | "devpts" | "efivarfs" | "fusectl" | "mqueue" | "nsfs"
            | "pipefs" | "proc" | "pstore" | "resctrl" | "rpc_pipefs" | "securityfs"
            | "selinuxfs" | "smackfs" | "sockfs" | "sysfs" | "tracefs" => Support::Pseudo,
            "fuse" | "fuseblk" => Support::Fuse,
            other if other.starts_with("fuse.") || other.starts_with("fuseblk.") => Support::Fuse,
            _ => Support::NotYet,
        }
    }

    /// Whether looking names up in a file system of this type, as mountinfo names it, asks nobody outside
    /// of this kernel. Others may lie in its directories, so it has to be walked through also when its
    /// own files are left out.
    pub fn can_be_walked(fs_type: &str) -> bool {
        let kind = Support::of(fs_type);
        matches!(kind, Support::Ext4 | Support::Memory)
            || matches!(fs_type, "squashfs" | "erofs" | "xfs" | "f2fs")
    }

    /// Why files of such file systems are left out, in words that follow the type's name; `None` if
    /// they are not.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Support::Ext4 => None,
            Support::Pseudo => Some("is a pseudo file system: nothing is read from a drive"),
            Support::Memory => Some("lives in memory: nothing is read from a drive"),
            Support::Network => Some("is a network or shared file system: left alone"),
            Support::Fuse => Some("is served by a user-space process: left alone"),
            Support::Stacked => Some("shows files of other file systems, which count themselves"),
            Support::NotYet => Some("is not supported yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_judged_by_name() {
        for (fs_type, expected) in [
            ("ext4", Support::Ext4),
            ("ext2", Support::Ext4),
            ("proc", Support::Pseudo),
            ("tmpfs", Support::Memory),
            ("nfs4", Support::Network),
            ("fuse.sshfs", Support::Fuse),
            ("fusectl", Support::Pseudo),
            ("overlay", Support::Stacked),
            ("btrfs", Support::NotYet),
            ("", Support::NotYet),
        ] {
            assert_eq!(Support::of(fs_type), expected, "{fs_type}");
        }
    }

    #[test]
    fn file_systems_that_others_serve_are_not_walked_through() {
        for (fs_type, expected) in [
            ("ext4", true),
            ("tmpfs", true),
            ("squashfs", true),
            ("fuse.sshfs", false),
            ("overlay", false),
            ("nfs", false),
            ("proc", false),
            ("autofs", false),
            ("unheard-of", false),
        ] {
            assert_eq!(Support::can_be_walked(fs_type), expected, "{fs_type}");
        }
    }

    #[test]
    fn only_supported_types_need_no_reason() {
        assert_eq!(Support::of("ext3").reason(), None);
        assert!(
            Support::of("xfs")
                .reason()
                .is_some_and(|words| words.contains("not supported"))
        );
    }
}
