//! Walking a path as the kernel does, a directory at a time.

use super::directories::{ChildNode, Dir, Directories};
use super::need::Need;

/// Most symbolic links that one path may lead through: the kernel's `MAXSYMLINKS`.
const MOST_LINKS: u32 = 40;

/// Walks `path` from `from`; `/` is `root`. Without `follow`, a path ends at a symbolic link in its last
/// place. Adds each step to `needs`, in order. Returns the directory and the name of the file that the path leads to, if it
/// leads to one.
pub fn walk(
    directories: &mut Directories,
    from: &Dir,
    root: &Dir,
    path: &[u8],
    follow: bool,
    needs: &mut Vec<Need>,
) -> Option<(Dir, Vec<u8>)> {
    let mut at = if path.starts_with(b"/") { root } else { from }.clone();
    // The components that are left, the next one last. A trailing slash leaves an empty one, so that the
    // component before it is not the path's last.
    let mut left: Vec<Vec<u8>> = reversed_components(path).collect();
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name.is_empty() || name == b"." {
            continue;
        }
        if name == b".." {
            if at.id != root.id {
                at = directories.parent(&at)?;
            }
            continue;
        }
        let dir = at.id;
        let child = directories.child(&at, &name);
        let found = match &child {
            ChildNode::Mounted(_) | ChildNode::Elsewhere => None,
            ChildNode::Absent => Some(None),
            ChildNode::Directory(below) => Some(Some(below.id.1)),
            ChildNode::Link { ino, .. } | ChildNode::Other(ino) => Some(Some(*ino)),
        };
        if let Some(found) = found {
            let name = name.clone();
            needs.push(Need::LookUp { dir, name, found });
        }
        match child {
            ChildNode::Absent | ChildNode::Elsewhere => return None,
            ChildNode::Other(_) => return left.is_empty().then_some((at, name)),
            ChildNode::Directory(below) | ChildNode::Mounted(below) => at = below,
            ChildNode::Link { .. } if left.is_empty() && !follow => return None,
            ChildNode::Link { ino, target } => {
                needs.push(Need::Link((dir.0, ino)));
                links += 1;
                if links > MOST_LINKS || target.is_empty() {
                    return None;
                }
                if target.starts_with(b"/") {
                    at = root.clone();
                }
                left.extend(reversed_components(&target));
            }
        }
    }
    None
}

/// The parts between slashes, the last one first.
fn reversed_components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.rsplit(|&byte| byte == b'/').map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;
    use crate::fs::mounts::MountTable;
    use crate::fs::node::O_LOOKUP;

    /// usr/lib/x.so, lib → usr/lib, loop → loop, abs → /usr
    fn tree() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        fs::write(root.path().join("usr/lib/x.so"), "").unwrap();
        for (target, link) in [("usr/lib", "lib"), ("loop", "loop"), ("/usr", "abs")] {
            symlink(target, root.path().join(link)).unwrap();
        }
        root
    }

    /// Walks `path` from `root`, as if the file systems of these directories were ext4 and no others were
    /// mounted.
    fn walk_from(root: &Path, known: &[&Path], path: &[u8], follow: bool) -> Vec<Need> {
        walk_as(
            rustix::process::geteuid().as_raw(),
            root,
            known,
            path,
            follow,
        )
    }

    /// The needs of a launch of this user.
    fn walk_as(uid: u32, root: &Path, known: &[&Path], path: &[u8], follow: bool) -> Vec<Need> {
        let mounts = known.iter().map(|directory| {
            let dev = fs::metadata(directory).unwrap().dev();
            let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
            format!("20 1 {major}:{minor} / / rw - ext4 /dev/x rw\n")
        });
        let mounts = MountTable::parse(mounts.collect::<String>().as_bytes());
        let mut directories = Directories::new(mounts, Vec::new(), true, uid);
        let root = rustix::fs::open(root, O_LOOKUP, rustix::fs::Mode::empty()).unwrap();
        let root = directories.opened(root).unwrap();
        let mut needs = Vec::new();
        walk(&mut directories, &root, &root, path, follow, &mut needs);
        needs
    }

    /// The steps of a walk through [`tree`], by the paths of what is looked up or read.
    fn steps(path: &str, follow: bool) -> Vec<String> {
        let tree = tree();
        let root = tree.path();
        let all = ["", "usr", "usr/lib", "usr/lib/x.so", "lib", "loop", "abs"];
        let place = |wanted: u64| {
            let ino = |path: &&&str| root.join(path).symlink_metadata().unwrap().ino();
            all.iter().find(|path| ino(path) == wanted).unwrap()
        };
        let step = |need| match need {
            Need::LookUp { dir, name, found } => {
                let path = format!("{}/{}", place(dir.1), String::from_utf8(name).unwrap());
                match found {
                    Some(ino) => assert_eq!(*place(ino), path.trim_start_matches('/')),
                    None => return format!("no {path}"),
                }
                path
            }
            Need::Link(id) => format!("read {}", place(id.1)),
            Need::List(id) => format!("list {}", place(id.1)),
        };
        let needs = walk_from(root, &[root], path.as_bytes(), follow);
        needs.into_iter().map(step).collect()
    }

    #[test]
    fn each_component_is_looked_up_in_its_directory() {
        let library = ["/usr", "usr/lib", "usr/lib/x.so"];
        let through_link = ["/lib", "read lib", "/usr", "usr/lib", "usr/lib/x.so"];
        let up_and_down = ["/usr", "usr/lib", "/abs", "read abs", "/usr", "usr/lib"];
        for (path, follow, expected) in [
            ("/usr//./lib/x.so", true, &library[..]),
            ("/lib/x.so", true, &through_link),
            ("usr/lib/../../abs/lib", true, &up_and_down),
            // A link in the last place is followed on request, or before a slash.
            ("/lib", false, &["/lib"]),
            ("/lib/", false, &through_link[..4]),
            ("/lib", true, &through_link[..4]),
            // A missing name is looked up and ends the walk, as does a file in the middle.
            ("/usr/bin/x", true, &["/usr", "no usr/bin"]),
            ("/usr/lib/x.so/more", true, &library),
            // Above the root is the root.
            ("../../usr", true, &["/usr"]),
        ] {
            assert_eq!(steps(path, follow), expected, "{path} {follow}");
        }
        let circle = steps("/loop", true).len();
        assert_eq!(circle, 2 * (MOST_LINKS as usize + 1));
    }

    #[test]
    fn a_walk_ends_where_the_user_cannot_look_names_up() {
        let tree = tree();
        let root = tree.path();
        let other_user = rustix::process::geteuid().as_raw() + 1;
        let steps = |uid, mode, path: &[u8]| {
            for (directory, mode) in [("", 0o755), ("usr", mode)] {
                let permissions = fs::Permissions::from_mode(mode);
                fs::set_permissions(root.join(directory), permissions).unwrap();
            }
            walk_as(uid, root, &[root], path, true).len()
        };
        let own = other_user - 1;
        for (uid, mode, of_file, of_absent) in [
            (own, 0o700, 3, 2),
            (other_user, 0o711, 3, 2),
            // Whether there is such a name is no business of this user's, nor where it leads to.
            (other_user, 0o700, 1, 1),
            (other_user, 0o710, 1, 1),
            (other_user, 0o744, 1, 1),
        ] {
            let found = steps(uid, mode, b"usr/lib/x.so");
            let absent = steps(uid, mode, b"usr/absent");
            let above = steps(uid, mode, b"usr/../usr");
            let expected = (of_file, of_absent, if of_file == 3 { 2 } else { 1 });
            assert_eq!((found, absent, above), expected, "{uid} {mode:o}");
        }
    }

    #[test]
    fn mount_points_are_not_looked_up_and_left_out_file_systems_not_entered() {
        let (root, mounted) = (Path::new("/"), Path::new("/proc"));
        let needs = walk_from(root, &[root, mounted], b"/proc/no-such-name", true);
        let dir = fs::metadata(mounted).unwrap();
        let missing = Need::LookUp {
            dir: (dir.dev(), dir.ino()),
            name: b"no-such-name".to_vec(),
            found: None,
        };
        assert_eq!(needs, [missing]);
        assert_eq!(walk_from(root, &[root], b"/proc/no-such-name", true), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_path_that_ends(path in prop::collection::vec(any::<u8>(), 0..200), follow: bool) {
            let tree = tree();
            let needs = walk_from(tree.path(), &[tree.path()], &path, follow);
            prop_assert!(needs.len() <= 2 * (path.len() + MOST_LINKS as usize + 1));
        }
    }
}
