//! Walking a path as the kernel does, a directory at a time.

use std::collections::VecDeque;

/// Most symbolic links that one path may lead through: the kernel's `MAXSYMLINKS`.
const MOST_LINKS: u32 = 40;

/// An inode: its device (`st_dev`) and number.
pub type Id = (u64, u64);

/// What a name in a directory refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildNode<D> {
    /// Nothing.
    Absent,
    /// A directory of the same file system.
    Directory(D),
    /// A directory on which another file system is mounted: the root of that. The covered name stays in
    /// memory as long as the file system is mounted.
    Mounted(D),
    /// A symbolic link.
    Link {
        /// Inode number.
        ino: u64,
        /// Its target.
        target: Vec<u8>,
    },
    /// Anything else with an inode of the same file system.
    Other {
        /// Inode number.
        ino: u64,
    },
    /// Something that must not be examined: it is on a file system that is left out, or cannot be opened.
    Elsewhere,
}

/// A tree of directories to walk through.
pub trait Tree {
    /// A directory in which names can be looked up.
    type Dir: Clone;

    /// The directory's device and inode number.
    fn id(&self, dir: &Self::Dir) -> Id;

    /// What `name`, which is neither `.` nor `..`, refers to in the directory.
    fn child(&mut self, dir: &Self::Dir, name: &[u8]) -> ChildNode<Self::Dir>;

    /// The directory above; `None` if it must not be examined.
    fn parent(&mut self, dir: &Self::Dir) -> Option<Self::Dir>;
}

/// Something that the kernel does to resolve a path and that may read the drive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WalkStep {
    /// Looks a name up in a directory and gets the inode that it finds.
    LookUp {
        /// The directory.
        dir: Id,
        /// One component of a path.
        name: Vec<u8>,
        /// Number of the inode found, on the same device.
        found: Option<u64>,
    },
    /// Reads the target of a symbolic link.
    Link(Id),
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkEnd<D> {
    /// To nothing, or to something that must not be examined.
    Nothing,
    /// To a directory.
    Directory(D),
    /// To something else, by this name in this directory.
    Named {
        /// The directory.
        dir: D,
        /// The last component.
        name: Vec<u8>,
    },
}

/// Walks `path` from `from`; `/` is `root`. Without `follow`, a path ends at a symbolic link in its last
/// place. Calls `visit` for each step in order.
pub fn walk<T: Tree>(
    tree: &mut T,
    from: &T::Dir,
    root: &T::Dir,
    path: &[u8],
    follow: bool,
    visit: &mut dyn FnMut(WalkStep),
) -> WalkEnd<T::Dir> {
    let mut at = if path.starts_with(b"/") { root } else { from }.clone();
    let mut left: VecDeque<Vec<u8>> = components(path).collect();
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                if tree.id(&at) != tree.id(root) {
                    match tree.parent(&at) {
                        Some(parent) => at = parent,
                        None => return WalkEnd::Nothing,
                    }
                }
                continue;
            }
            _ => {}
        }
        let dir = tree.id(&at);
        let child = tree.child(&at, &name);
        let found = match &child {
            ChildNode::Mounted(_) | ChildNode::Elsewhere => None,
            ChildNode::Absent => Some(None),
            ChildNode::Directory(below) => Some(Some(tree.id(below).1)),
            ChildNode::Link { ino, .. } | ChildNode::Other { ino } => Some(Some(*ino)),
        };
        if let Some(found) = found {
            let name = name.clone();
            visit(WalkStep::LookUp { dir, name, found });
        }
        match child {
            ChildNode::Absent | ChildNode::Elsewhere => return WalkEnd::Nothing,
            ChildNode::Directory(below) | ChildNode::Mounted(below) => at = below,
            ChildNode::Other { .. } if left.is_empty() => return WalkEnd::Named { dir: at, name },
            ChildNode::Other { .. } => return WalkEnd::Nothing,
            ChildNode::Link { .. } if left.is_empty() && !follow => {
                return WalkEnd::Named { dir: at, name };
            }
            ChildNode::Link { ino, target } => {
                visit(WalkStep::Link((dir.0, ino)));
                links += 1;
                if links > MOST_LINKS || target.is_empty() {
                    return WalkEnd::Nothing;
                }
                if target.starts_with(b"/") {
                    at = root.clone();
                }
                let mut way: VecDeque<Vec<u8>> = components(&target).collect();
                way.append(&mut left);
                left = way;
            }
        }
    }
    WalkEnd::Directory(at)
}

/// The parts between slashes. A trailing slash leaves an empty one, so that the part before it is not the
/// last.
fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.split(|&byte| byte == b'/').map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A tree of inode numbers on device 1; mounted file systems are on device 2.
    #[derive(Default)]
    struct Toy {
        names: HashMap<(u64, &'static str), ChildNode<Id>>,
        parents: HashMap<u64, Id>,
    }

    impl Tree for Toy {
        type Dir = Id;

        fn id(&self, dir: &Id) -> Id {
            *dir
        }

        fn child(&mut self, dir: &Id, name: &[u8]) -> ChildNode<Id> {
            let name = std::str::from_utf8(name).unwrap_or("?");
            self.names
                .iter()
                .find(|((ino, known), _)| *ino == dir.1 && *known == name)
                .map_or(ChildNode::Absent, |(_, child)| child.clone())
        }

        fn parent(&mut self, dir: &Id) -> Option<Id> {
            self.parents.get(&dir.1).copied()
        }
    }

    const ROOT: Id = (1, 2);

    /// /usr/lib/x.so, /lib → usr/lib, /loop → loop, /mnt (another file system), /abs → /usr
    fn toy() -> Toy {
        let link = |ino, target: &str| ChildNode::Link {
            ino,
            target: target.as_bytes().to_vec(),
        };
        let mut toy = Toy::default();
        toy.names.extend([
            ((2, "usr"), ChildNode::Directory((1, 10))),
            ((10, "lib"), ChildNode::Directory((1, 11))),
            ((11, "x.so"), ChildNode::Other { ino: 12 }),
            ((2, "lib"), link(13, "usr/lib")),
            ((2, "loop"), link(14, "loop")),
            ((2, "abs"), link(15, "/usr")),
            ((2, "mnt"), ChildNode::Mounted((2, 2))),
            ((2, "net"), ChildNode::Elsewhere),
        ]);
        toy.parents.extend([(10, ROOT), (11, (1, 10))]);
        toy
    }

    fn steps(path: &str, follow: bool) -> (Vec<String>, WalkEnd<Id>) {
        let mut visited = Vec::new();
        let end = walk(
            &mut toy(),
            &ROOT,
            &ROOT,
            path.as_bytes(),
            follow,
            &mut |step| {
                visited.push(match step {
                    WalkStep::LookUp { dir, name, found } => format!(
                        "{}/{} {}",
                        dir.1,
                        String::from_utf8(name).unwrap(),
                        found.map_or("-".to_owned(), |ino| ino.to_string())
                    ),
                    WalkStep::Link((_, ino)) => format!("link {ino}"),
                });
            },
        );
        (visited, end)
    }

    fn named(dir: Id, name: &str) -> WalkEnd<Id> {
        WalkEnd::Named {
            dir,
            name: name.as_bytes().to_vec(),
        }
    }

    #[test]
    fn each_component_is_looked_up_in_its_directory() {
        let (visited, end) = steps("/usr//./lib/x.so", true);
        assert_eq!(visited, ["2/usr 10", "10/lib 11", "11/x.so 12"]);
        assert_eq!(end, named((1, 11), "x.so"));
    }

    #[test]
    fn links_are_read_and_followed() {
        let (visited, end) = steps("/lib/x.so", true);
        let expected = ["2/lib 13", "link 13", "2/usr 10", "10/lib 11", "11/x.so 12"];
        assert_eq!(visited, expected);
        assert_eq!(end, named((1, 11), "x.so"));
        let (visited, _) = steps("usr/lib/../../abs/lib", true);
        assert_eq!(
            visited[2..],
            ["2/abs 15", "link 15", "2/usr 10", "10/lib 11"]
        );
    }

    #[test]
    fn a_link_in_the_last_place_is_followed_on_request_or_before_a_slash() {
        assert_eq!(steps("/lib", false).0, ["2/lib 13"]);
        assert_eq!(steps("/lib", false).1, named(ROOT, "lib"));
        assert_eq!(steps("/lib/", false).1, WalkEnd::Directory((1, 11)));
        assert_eq!(steps("/lib", true).1, WalkEnd::Directory((1, 11)));
    }

    #[test]
    fn a_missing_name_is_looked_up_and_ends_the_walk() {
        assert_eq!(
            steps("/usr/bin/x", true),
            (
                vec!["2/usr 10".to_owned(), "10/bin -".to_owned()],
                WalkEnd::Nothing
            )
        );
        let (visited, end) = steps("/usr/lib/x.so/more", true);
        assert_eq!((visited.len(), end), (3, WalkEnd::Nothing));
    }

    #[test]
    fn circles_of_links_end() {
        let (visited, end) = steps("/loop", true);
        assert_eq!(end, WalkEnd::Nothing);
        assert_eq!(visited.len(), 2 * (MOST_LINKS as usize + 1));
    }

    #[test]
    fn mount_points_are_not_looked_up_and_left_out_file_systems_not_entered() {
        assert_eq!(
            steps("/mnt/x", true),
            (vec!["2/x -".to_owned()], WalkEnd::Nothing)
        );
        assert_eq!(steps("/net/x", true), (vec![], WalkEnd::Nothing));
    }

    #[test]
    fn above_the_root_is_the_root() {
        assert_eq!(steps("../../usr", true).1, WalkEnd::Directory((1, 10)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_path_that_ends(path in prop::collection::vec(any::<u8>(), 0..200), follow: bool) {
            let mut count = 0;
            walk(&mut toy(), &ROOT, &ROOT, &path, follow, &mut |_| count += 1);
            prop_assert!(count <= 2 * (path.len() + MOST_LINKS as usize + 1));
        }
    }
}
