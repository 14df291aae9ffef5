//! Files of an old version of an app, where an update has put the new one beside it: another package in a store, another
//! directory of a release. They are still there and can be read, so that nothing else says that launches are done with
//! them.
//!
//! A directory is *superseded* by another of the same parent if the launch used no file below it, and at least half of
//! those that earlier launches used below it have a namesake below the other that is new: at the same path but for that
//! one name, and used by no launch before. An app that reads one of two themes by turns has both, since the other is
//! not new.

use std::collections::{HashMap, HashSet};

use super::accessed_file::AccessedFile;
use super::earlier::{Earlier, KnownPages};

/// Directories on the way to a file that are looked at, from the root.
const MOST_DEPTH: usize = 16;

/// New directories that hold a namesake of one file and are told apart: a user can make any number of them.
const MOST_NAMESAKES: usize = 4;

/// A directory, or another path, on a device (`st_dev`), from the root of the file system.
type DevicePath<'a> = (u64, &'a [u8]);

/// Leaves superseded files out, which are otherwise kept for a while. `is_used` says of the first files whether the launch
/// or a helper of it used them; it used none of the others. Returns how many pages earlier launches needed of them.
pub fn leave_out_superseded(
    files: &mut [AccessedFile],
    is_used: &[bool],
    earlier: &Earlier,
) -> u64 {
    let paths: Vec<Option<(u64, Vec<u8>)>> =
        files.iter().map(|file| path_of(file, earlier)).collect();
    let (mut unused, mut used, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (file, path)) in files.iter().zip(&paths).enumerate() {
        let Some((dev, path)) = path else {
            continue;
        };
        let path = (*dev, path.as_slice());
        if !is_used.get(number).is_some_and(|is_used| *is_used) {
            unused.push(path);
            continue;
        }
        used.push(path);
        let known = earlier.known(file.key);
        new.extend((!known.is_some_and(KnownPages::is_certain)).then_some(path));
    }
    let found = superseded(&unused, &used, &new);
    let mut pages = 0;
    for (file, path) in files.iter_mut().zip(&paths) {
        let path = path.as_ref().map(|(dev, path)| (*dev, path.as_slice()));
        if path.is_some_and(|path| found.contains(&path)) {
            pages += file.earlier.len();
            file.device = None;
        }
    }
    pages
}

/// Where a file lies that can be read ahead, if that is known.
fn path_of(file: &AccessedFile, earlier: &Earlier) -> Option<(u64, Vec<u8>)> {
    file.device.as_ref().filter(|_| file.is_file())?;
    let known = || earlier.known(file.key)?.path_of(file.key, &file.facts);
    Some((file.key.dev, file.facts.path.clone().or_else(known)?))
}

/// Which of the files that earlier launches used and this one did not are superseded. `used` are those that it used,
/// `new` those of them that no launch used before.
fn superseded<'a>(
    unused: &[DevicePath<'a>],
    used: &[DevicePath<'_>],
    new: &[DevicePath<'_>],
) -> HashSet<DevicePath<'a>> {
    let mut namesakes: HashMap<(DevicePath<'_>, &[u8]), Vec<&[u8]>> = HashMap::new();
    for &(dev, path) in new {
        for at in directories(path) {
            let same = namesakes.entry(((dev, at.parent), at.rest)).or_default();
            if same.len() < MOST_NAMESAKES && !same.contains(&at.path) {
                same.push(at.path);
            }
        }
    }
    if namesakes.is_empty() {
        return HashSet::new();
    }
    let in_use: HashSet<DevicePath<'_>> = used
        .iter()
        .flat_map(|&(dev, path)| directories(path).map(move |at| (dev, at.path)))
        .collect();
    // By old directory: the files below it, and how many of them have a namesake, by new directory.
    let mut counts: HashMap<DevicePath<'a>, (u64, HashMap<&[u8], u64>)> = HashMap::new();
    for &(dev, path) in unused {
        for at in directories(path) {
            if in_use.contains(&(dev, at.path)) {
                continue;
            }
            let (files, by_new) = counts.entry((dev, at.path)).or_default();
            *files += 1;
            for new in namesakes
                .get(&((dev, at.parent), at.rest))
                .into_iter()
                .flatten()
            {
                *by_new.entry(new).or_default() += 1;
            }
        }
    }
    let is_superseded = |directory: DevicePath<'a>| {
        let counted = counts.get(&directory);
        counted.is_some_and(|(files, by_new)| by_new.values().any(|same| same * 2 >= *files))
    };
    let files = unused.iter().copied();
    files
        .filter(|&(dev, path)| directories(path).any(|at| is_superseded((dev, at.path))))
        .collect()
}

/// A directory on the way to a file.
struct DirectoryOnPath<'a> {
    /// All of its path.
    path: &'a [u8],
    /// Up to its own name.
    parent: &'a [u8],
    /// From behind its name to the file.
    rest: &'a [u8],
}

/// The directories of an absolute path but for the root, from the first down.
fn directories(path: &[u8]) -> impl Iterator<Item = DirectoryOnPath<'_>> {
    let slashes = (0..path.len()).filter(move |&at| path[at] == b'/');
    let ends = slashes.clone().skip(1);
    slashes
        .zip(ends)
        .take(MOST_DEPTH)
        .map(move |(start, end)| DirectoryOnPath {
            path: &path[..end],
            parent: &path[..start],
            rest: &path[end..],
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths<'a>(texts: &[&'a str]) -> Vec<DevicePath<'a>> {
        texts.iter().map(|text| (1, text.as_bytes())).collect()
    }

    /// The superseded files, after a launch that used `new` for the first time and `old` as before.
    fn found<'a>(unused: &[&'a str], old: &[&str], new: &[&str]) -> Vec<&'a str> {
        let used = [paths(old), paths(new)].concat();
        let found = superseded(&paths(unused), &used, &paths(new));
        let is_found = |text: &&&str| found.contains(&(1, text.as_bytes()));
        unused.iter().filter(is_found).copied().collect()
    }

    #[test]
    fn a_new_version_in_a_directory_of_its_own_supersedes_the_old_one() {
        let old = [
            "/opt/app-1/app",
            "/opt/app-1/lib/liba.so.1.4",
            "/opt/app-1/data/x",
        ];
        let new = [
            "/opt/app-2/app",
            "/opt/app-2/lib/liba.so.1.5",
            "/opt/app-2/data/x",
        ];
        assert_eq!(found(&old, &["/usr/lib/libc.so.6"], &new), old);
        // Several packages of a store, each in its own directory.
        let old = [
            "/nix/store/1-app-1/bin/app",
            "/nix/store/9-lib-1/lib/libb.so",
        ];
        let new = [
            "/nix/store/2-app-2/bin/app",
            "/nix/store/8-lib-1/lib/libb.so",
        ];
        assert_eq!(found(&old, &[], &new), old);
    }

    #[test]
    fn what_is_in_use_or_has_no_new_namesake_stays() {
        let old = ["/opt/app-1/app", "/opt/app-1/data/x"];
        let new = ["/opt/app-2/app", "/opt/app-2/data/x"];
        // Something of the old version is still used.
        assert!(found(&old, &["/opt/app-1/licence"], &new).is_empty());
        // The new version was used before, too: they take turns.
        assert!(found(&old, &new, &[]).is_empty());
        // Another directory with other files.
        assert!(found(&old, &[], &["/opt/other/file", "/opt/other/data/y"]).is_empty());
        // Of three files, only the one that every Python package has.
        let plugin = ["/lib/foo/__init__.py", "/lib/foo/core.py", "/lib/foo/io.py"];
        assert!(found(&plugin, &[], &["/lib/bar/__init__.py"]).is_empty());
        // The namesake is elsewhere: more than one name differs, or the file's own does.
        assert!(
            found(
                &["/a/b/file"],
                &[],
                &["/x/y/file", "/a/b/c/file", "/a/b2/file2"]
            )
            .is_empty()
        );
        // Files in the root have no directory that could be superseded.
        assert!(found(&["/file"], &[], &["/file2"]).is_empty());
    }

    #[test]
    fn directories_of_two_devices_have_nothing_to_do_with_each_other() {
        let old: [DevicePath<'_>; 1] = [(1, b"/opt/app-1/app")];
        let new: [DevicePath<'_>; 1] = [(2, b"/opt/app-2/app")];
        assert!(superseded(&old, &new, &new).is_empty());
    }

    #[test]
    fn a_directory_that_was_renamed_at_any_depth_is_found() {
        let deep = |names: usize, last: &str| format!("{}/{last}/file", "/d".repeat(names));
        let is_found = |names| {
            let (old, new) = (deep(names, "1"), deep(names, "2"));
            !found(&[&old], &[], &[&new]).is_empty()
        };
        assert!((0..MOST_DEPTH).all(is_found));
        assert!(!is_found(MOST_DEPTH), "a bound");
    }

    proptest! {
        /// Only files that were not used are superseded, only if something new was used, and never below a
        /// directory of which anything else is used.
        #[test]
        fn what_is_superseded_was_not_used_and_has_something_new_beside_it(
            files in prop::collection::vec((prop::collection::vec(0..3u8, 2..5), 0..3u8), 0..30),
        ) {
            let texts: Vec<(String, u8)> = files
                .iter()
                .map(|(names, kind)| {
                    (names.iter().map(|name| format!("/{name}")).collect(), *kind)
                })
                .collect();
            let of_kind = |kind: u8| -> Vec<&str> {
                let of_kind = texts.iter().filter(|(_, of)| *of == kind);
                of_kind.map(|(text, _)| text.as_str()).collect()
            };
            let [old, new] = [of_kind(1), of_kind(2)];
            // A path is of one kind.
            let is_used = |text: &&str| !old.contains(text) && !new.contains(text);
            let unused: Vec<&str> = of_kind(0).into_iter().filter(is_used).collect();
            let found = found(&unused, &old, &new);
            prop_assert!(!new.is_empty() || found.is_empty());
            let directory = |file: &str| file.rsplit_once('/').map(|(directory, _)| directory.to_owned());
            for file in found {
                let mut used = old.iter().chain(&new);
                prop_assert!(used.all(|other| directory(other) != directory(file)));
            }
        }
    }
}
