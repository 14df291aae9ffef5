//! What is looked up to execute a program before anybody sees its paths: its ELF interpreter, which the kernel looks up
//! by itself, and the libraries that this loader maps first of all, some milliseconds into a launch.

use std::collections::{HashSet, VecDeque};

use super::directories::{Dir, Directories};
use super::need::{Id, Need};
use super::walk::walk;
use crate::fs::elf;

/// Most libraries of a launch that are looked up. The largest programs have some hundreds.
const MOST_LIBRARIES: usize = 1024;

/// The libraries that are known to be needed, by their names and the directories that these are looked up in.
#[derive(Default)]
pub struct SeenLibraries(HashSet<(Id, Vec<u8>)>);

/// Adds what executing the program that `path` leads to needs.
///
/// The loader finds a library by a cache of its own, by the directories that programs name, or in the system's directory of
/// libraries. There the loader lies itself; libraries of other directories are left to those who see paths.
pub fn walk_executed(
    directories: &mut Directories,
    path: &[u8],
    from: &Dir,
    root: &Dir,
    seen: &mut SeenLibraries,
    needs: &mut Vec<Need>,
) {
    let program = walk(directories, from, root, path, true, needs);
    let program = program.and_then(|(dir, name)| directories.program(&dir, &name));
    let Some((program, interpreter)) =
        program.and_then(|file| elf::interpreter(&file).map(|path| (file, path)))
    else {
        return;
    };
    let loader = walk(directories, from, root, &interpreter, true, needs);
    let Some((libraries, _)) = loader else {
        return;
    };
    let mut waiting = VecDeque::new();
    let mut add = |names: Vec<Vec<u8>>, waiting: &mut VecDeque<Vec<u8>>| {
        for name in names {
            // One that is named by a path is looked up from elsewhere.
            if !name.contains(&b'/')
                && seen.0.len() < MOST_LIBRARIES
                && seen.0.insert((libraries.id, name.clone()))
            {
                waiting.push_back(name);
            }
        }
    };
    add(elf::needed_libraries(&program), &mut waiting);
    while let Some(name) = waiting.pop_front() {
        let mut steps = Vec::new();
        let library = walk(directories, &libraries, root, &name, true, &mut steps);
        // A name that leads nowhere may never have been looked up here.
        if let Some(file) = library.and_then(|(dir, name)| directories.program(&dir, &name)) {
            needs.append(&mut steps);
            add(elf::needed_libraries(&file), &mut waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fs::elf::tests::program;

    #[test]
    fn the_interpreter_and_the_libraries_beside_it_are_looked_up_once() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("lib");
        fs::create_dir(&lib).unwrap();
        let libraries = ["liba.so.1", "libmissing.so", "/lib/libb.so", "liba.so.1"];
        fs::write(
            root.path().join("app"),
            program(b"/lib/ld.so\0", &libraries),
        )
        .unwrap();
        fs::write(root.path().join("static"), program(b"", &["liba.so.1"])).unwrap();
        fs::write(lib.join("ld.so"), "").unwrap();
        // Libraries that need each other.
        fs::write(lib.join("liba.so.1.2"), program(b"", &["libb.so"])).unwrap();
        symlink("liba.so.1.2", lib.join("liba.so.1")).unwrap();
        fs::write(lib.join("libb.so"), program(b"", &["liba.so.1"])).unwrap();

        let (mut directories, top) = Directories::of_one_fs(root.path());
        let mut seen = SeenLibraries::default();
        let mut names = |path: &[u8]| {
            let mut needs = Vec::new();
            walk_executed(&mut directories, path, &top, &top, &mut seen, &mut needs);
            let name = |need| match need {
                Need::LookUp { name, .. } => String::from_utf8(name).unwrap(),
                Need::Link(_) => "→".to_owned(),
                Need::List(_) => panic!("nothing is listed"),
            };
            needs.into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(b"static"), ["static"]);
        let of_app = [
            "app",
            "lib",
            "ld.so",
            "liba.so.1",
            "→",
            "liba.so.1.2",
            "libb.so",
        ];
        assert_eq!(names(b"app"), of_app);
        assert_eq!(names(b"app"), ["app", "lib", "ld.so"], "seen before");
    }
}
