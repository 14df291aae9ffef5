//! Names of files that a user may be told: those that he could list himself.
//!
//! A launch tree may hold setuid programs, and processes of other users read for an app, too. What they read has names
//! that the app's user need not know.

use std::collections::HashMap;
use std::fs::read_link;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;

use super::local_path::LocalFile;
use super::mounts::MountTable;
use super::node::OpenNode;

/// The names that one user may be told. Root is told all.
pub struct VisibleNames<'a> {
    uid: u32,
    mounts: &'a MountTable,
    /// Directories that were looked at, and whether he may list them and all that lead to them.
    directories: HashMap<PathBuf, bool>,
}

impl<'a> VisibleNames<'a> {
    /// The names that a user may know, by this mount table.
    pub fn new(uid: u32, mounts: &'a MountTable) -> Self {
        VisibleNames {
            uid,
            mounts,
            directories: HashMap::new(),
        }
    }

    /// The path of an open file; `None` if it has none any more, or if he may not know it.
    pub fn path_of(&mut self, file: &OwnedFd) -> Option<PathBuf> {
        let path = read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        // The text may end in " (deleted)", and another mount may cover the file: it counts only if it leads there.
        let found = LocalFile::find(&path, self.mounts).ok()?;
        let node = OpenNode::of(file).ok()?;
        let is_it = (found.node.dev, found.node.ino) == (node.dev, node.ino) && found.path == path;
        (is_it && self.may_know(&path)).then_some(path)
    }

    /// Whether he may know that there is, or was, a file of this name: he may list its directory, and all directories
    /// that lead there. A path with links in it is not told.
    pub fn may_know(&mut self, path: &Path) -> bool {
        if self.uid == 0 {
            return true;
        }
        let Some(directory) = path.parent() else {
            return false;
        };
        if let Some(&known) = self.directories.get(directory) {
            return known;
        }
        let uid = self.uid;
        let found = LocalFile::find_through(directory, self.mounts, |fd| may_list(fd, uid));
        let is_visible =
            found.is_ok_and(|found| found.path == directory && may_list(&found.fd, uid));
        self.directories.insert(directory.to_owned(), is_visible);
        is_visible
    }
}

/// Whether a user may list a directory and reach what is in it: as its owner, or where its group and all others may. His
/// groups are not known here, and the kernel goes by the group's bits for those who are in it, also where they forbid what
/// others may do.
fn may_list(directory: &OwnedFd, uid: u32) -> bool {
    const LIST: u32 = 0o5;
    fstat(directory).is_ok_and(|found| {
        let bits = match found.st_uid == uid {
            true => found.st_mode >> 6,
            false => found.st_mode & found.st_mode >> 3,
        };
        bits & LIST == LIST
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rustix::fs::{Mode, open};

    use super::*;
    use crate::fs::node::O_LOOKUP;

    #[test]
    fn names_below_directories_that_a_user_cannot_list_are_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("top/inner")).unwrap();
        fs::write(path("top/inner/file"), "").unwrap();
        symlink("inner", path("top/link")).unwrap();
        let owner = fs::metadata(dir.path()).unwrap().uid();
        let other = owner + 1;
        let set = |name: &str, mode| fs::set_permissions(path(name), Permissions::from_mode(mode));
        let mounts = MountTable::read().unwrap();
        let file = open(path("top/inner/file"), O_LOOKUP, Mode::empty()).unwrap();
        let told = |uid| VisibleNames::new(uid, &mounts).path_of(&file);
        let expected = Some(fs::canonicalize(path("top/inner/file")).unwrap());
        set("", 0o755).unwrap();
        for (top, inner, is_told) in [
            (0o755, 0o755, true),
            (0o700, 0o755, false),
            // Files can be opened there by those who know their names.
            (0o711, 0o755, false),
            (0o755, 0o711, false),
            (0o755, 0o750, false),
            (0o755, 0o705, false),
        ] {
            set("top", top).unwrap();
            set("top/inner", inner).unwrap();
            let to_other = expected.clone().filter(|_| is_told);
            assert_eq!(told(other), to_other, "{top:o} {inner:o}");
        }
        set("top", 0o700).unwrap();
        for uid in [owner, 0] {
            assert_eq!(told(uid), expected);
        }
        set("top", 0o755).unwrap();
        set("top/inner", 0o755).unwrap();
        let mut names = VisibleNames::new(other, &mounts);
        assert!(names.may_know(&path("top/inner/gone")));
        assert!(
            !names.may_know(&path("top/link/file")),
            "a link leads there"
        );
        assert!(!names.may_know(Path::new("/")));
        fs::remove_file(path("top/inner/file")).unwrap();
        assert_eq!(told(0), None);
    }
}
