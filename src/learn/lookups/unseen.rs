//! Files that the launch used though no path was walked to them: its first paths may be looked up before anybody sees them,
//! some are lost, and on an overlay, which is not walked, the files are those of its layers. Whoever opened such a file looked
//! its name up, but for those that the launch was given open: a few blocks too many.

use std::collections::HashSet;

use super::directories::{Dir, Directories};
use super::need::{Id, Need};
use super::walk::walk;
use crate::model::{Access, By, InodeId};

/// What the walks of seen paths met.
#[derive(Default)]
pub struct Met {
    /// Directories in which names were looked up.
    directories: HashSet<Id>,
    /// Inodes that names led to.
    inodes: HashSet<Id>,
}

impl Met {
    /// What the steps of walks met.
    pub fn by<'a>(needs: impl IntoIterator<Item = &'a Need>) -> Self {
        let mut met = Met::default();
        for need in needs {
            if let Need::LookUp { dir, found, .. } = need {
                met.directories.insert(*dir);
                met.inodes.extend(found.map(|ino| (dir.0, ino)));
            }
        }
        met
    }

    /// The files of the launch's own tasks that no path led to, with the time of their first use (CLOCK_MONOTONIC in
    /// nanoseconds), in order. `accesses` are in time order.
    pub fn unseen_files(&self, accesses: &[Access]) -> Vec<(u64, InodeId)> {
        let mut seen = HashSet::new();
        accesses
            .iter()
            .filter(|access| access.by == By::Tree && access.ino != 0)
            .filter(|access| !self.inodes.contains(&(access.dev, access.ino)))
            .filter(|access| seen.insert(access.inode()))
            .map(|access| (access.time_ns, access.inode()))
            .collect()
    }

    /// The last steps to a file, from the first directory that was met. Those above are left out, and all but the last
    /// one if none was met: the launch may have come through a mount of a directory further down. Nothing if `path`,
    /// from `root`, does not lead to the file.
    pub fn steps(
        &self,
        directories: &mut Directories,
        root: &Dir,
        path: &[u8],
        file: Id,
    ) -> Vec<Need> {
        let mut needs = Vec::new();
        walk(directories, root, root, path, false, &mut needs);
        match needs.last() {
            Some(Need::LookUp { dir, found, .. })
                if found.map(|ino| (dir.0, ino)) == Some(file) => {}
            _ => return Vec::new(),
        }
        let is_met = |need: &Need| matches!(need, Need::LookUp { dir, .. } if self.directories.contains(dir));
        let first = needs.iter().position(is_met).unwrap_or(needs.len() - 1);
        needs.split_off(first)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::model::Source;

    fn access(time_ns: u64, ino: u64, by: By) -> Access {
        Access {
            time_ns,
            dev: 8,
            ino,
            generation: 1,
            start: 0,
            len: 1,
            source: Source::Read,
            by,
        }
    }

    #[test]
    fn only_the_launchs_own_files_without_a_path_are_unseen() {
        let look_up = |found| Need::LookUp {
            dir: (8, 2),
            name: b"x".to_vec(),
            found,
        };
        let met = Met::by(&[look_up(Some(10)), look_up(None), Need::List((8, 11))]);
        let accesses = [
            access(1, 10, By::Tree),
            access(2, 0, By::Tree),
            access(3, 11, By::Helper),
            access(4, 11, By::Tree),
            access(5, 12, By::Other),
            access(6, 13, By::Tree),
            access(7, 11, By::Tree),
        ];
        let unseen = met.unseen_files(&accesses);
        let numbers = unseen.iter().map(|&(time_ns, file)| (time_ns, file.ino));
        assert_eq!(numbers.collect::<Vec<_>>(), [(4, 11), (6, 13)]);
    }

    #[test]
    fn steps_begin_in_the_first_directory_that_was_met() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("usr/lib")).unwrap();
        let file = tree.path().join("usr/lib/x.so");
        fs::write(&file, "").unwrap();
        let dev = tree.path().metadata().unwrap().dev();
        let inode = |path: &str| tree.path().join(path).metadata().unwrap().ino();
        let (mut directories, root) = Directories::of_one_fs(tree.path());
        let mut names = |met: &[&str], path: &[u8], ino| {
            let met = Met {
                directories: met.iter().map(|path| (dev, inode(path))).collect(),
                inodes: HashSet::new(),
            };
            let name = |need| match need {
                Need::LookUp { name, .. } => String::from_utf8(name).unwrap(),
                other => panic!("{other:?}"),
            };
            let steps = met.steps(&mut directories, &root, path, (dev, ino));
            steps.into_iter().map(name).collect::<Vec<_>>()
        };
        let (path, ino) = (b"/usr/lib/x.so", inode("usr/lib/x.so"));
        assert_eq!(names(&[""], path, ino), ["usr", "lib", "x.so"]);
        assert_eq!(names(&["usr", "usr/lib"], path, ino), ["lib", "x.so"]);
        assert_eq!(names(&["usr/lib"], path, ino), ["x.so"]);
        assert_eq!(names(&[], path, ino), ["x.so"]);
        assert!(names(&[""], path, ino + 1).is_empty(), "another file");
        assert!(names(&[""], b"/usr/lib/y.so", ino).is_empty(), "no file");
    }
}
