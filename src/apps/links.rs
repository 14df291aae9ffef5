//! Symbolic links among the commands, by the program that they lead to.
//!
//! Most links are another name of the same app: `gimp` of `gimp-2.10`, `x-www-browser` of a browser. But some programs are
//! another app by each name that they are executed by, as busybox and the uutils are: there the name is a part of what the
//! app is, and no link stands for another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::launchers::Rules;
use super::lookup::{base_name, link_chain};

/// Where the administrator chooses among programs that serve alike: whatever leads through here is a name of what it
/// leads to.
const ALTERNATIVES: &str = "/etc/alternatives";

/// Links to one program, of names that have nothing in common with its own, from which on it is taken for several apps.
const MANY_NAMES: usize = 3;

/// First letters that two names of one app have in common, such as `gimp` and `gimp-2.10`.
const COMMON_LETTERS: usize = 3;

/// A link among the commands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandLink {
    path: PathBuf,
    /// Whether it says nothing about the program that this is one of its names: it is one of the alternatives, or looks
    /// like the program's own.
    is_plain: bool,
}

/// The links in the directories of commands.
#[derive(Clone, Debug, Default)]
pub struct CommandLinks {
    /// By the path, without links, of the file that they lead to.
    by_file: HashMap<PathBuf, Vec<CommandLink>>,
}

impl CommandLinks {
    /// The links in the directories of `path`, separated by colons. `find` says where a link ends, if that may be looked up. Opens
    /// no file. What cannot be read has no links.
    pub fn read(path: &OsStr, find: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let mut links = CommandLinks::default();
        let directories = path.as_bytes().split(|&byte| byte == b':');
        for directory in directories.filter(|directory| directory.starts_with(b"/")) {
            links.add(Path::new(OsStr::from_bytes(directory)), &find);
        }
        links
    }

    fn add(&mut self, directory: &Path, find: impl Fn(&Path) -> Option<PathBuf>) {
        let Ok(listed) = fs::read_dir(directory) else {
            return;
        };
        let is_link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        for entry in listed.flatten().filter(is_link) {
            let path = entry.path();
            let Some(file) = find(&path) else {
                continue;
            };
            // Each link of it has been followed already.
            let chain = link_chain(&path);
            let is_alternative = chain.iter().any(|link| link.starts_with(ALTERNATIVES));
            let own = base_name(file.as_os_str());
            let is_plain = is_alternative || look_alike(&entry.file_name(), own);
            let links = self.by_file.entry(file).or_default();
            links.push(CommandLink { path, is_plain });
        }
    }

    /// The links that are names of the program at this path, which has no links in it: none if it is several apps.
    pub fn names_of(&self, file: &Path, rules: &Rules) -> Vec<PathBuf> {
        if self.is_many_apps(file, rules) {
            return Vec::new();
        }
        let links = self.by_file.get(file).into_iter().flatten();
        links.map(|link| link.path.clone()).collect()
    }

    /// Whether the program at this path, which has no links in it, is another app by each of its names.
    pub fn is_many_apps(&self, file: &Path, rules: &Rules) -> bool {
        let links = self.by_file.get(file).into_iter().flatten();
        let foreign = links.filter(|link| !link.is_plain);
        // Where /bin is a link to /usr/bin, a link is found in both.
        let names: HashSet<_> = foreign.map(|link| link.path.file_name()).collect();
        rules.is_multi_call(base_name(file.as_os_str())) || names.len() >= MANY_NAMES
    }
}

/// Whether both begin alike.
fn look_alike(a: &OsStr, b: &OsStr) -> bool {
    let letters = a.as_bytes().iter().zip(b.as_bytes());
    let common = letters.take_while(|(a, b)| a == b).count();
    common >= COMMON_LETTERS.min(a.len()).min(b.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_names_of_a_program_unless_it_is_many_apps() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let at = |name: &str| root.join(name);
        for directory in ["bin", "lib", "sbin"] {
            fs::create_dir(at(directory)).unwrap();
        }
        for program in ["bin/gimp-2.10", "lib/many", "lib/busybox", "lib/two"] {
            fs::write(at(program), "").unwrap();
        }
        for (target, link) in [
            ("gimp-2.10", "bin/gimp"),
            ("../bin/gimp", "sbin/picture-editor"),
            ("../lib/many", "bin/red"),
            ("../lib/many", "bin/green"),
            ("../lib/many", "bin/blue"),
            ("../lib/many", "bin/many-more"),
            ("../lib/busybox", "bin/vi"),
            ("../lib/two", "bin/first"),
            ("../lib/two", "bin/second"),
            ("nowhere", "bin/dangling"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        // As /bin in many systems.
        symlink("bin", at("again")).unwrap();
        let path = format!(
            "relative:{0}/bin:{0}/none:{0}/sbin:{0}/again",
            root.display()
        );
        let links = CommandLinks::read(OsStr::new(&path), |link| fs::canonicalize(link).ok());
        let names = |file: &str| {
            let mut names = links.names_of(&at(file), &Rules::builtin());
            names.sort();
            names
        };
        assert_eq!(
            names("bin/gimp-2.10"),
            [at("again/gimp"), at("bin/gimp"), at("sbin/picture-editor")]
        );
        let two = ["again/first", "again/second", "bin/first", "bin/second"];
        assert_eq!(names("lib/two"), two.map(at));
        assert!(names("bin/gimp").is_empty(), "it is a link itself");
        for many in ["lib/many", "lib/busybox"] {
            assert!(names(many).is_empty(), "{many}");
            assert!(links.is_many_apps(&at(many), &Rules::builtin()), "{many}");
        }
    }

    #[test]
    fn names_look_alike_that_begin_alike() {
        for (a, b, alike) in [
            ("gimp", "gimp-2.10", true),
            ("vi", "vim.basic", true),
            ("soffice", "libreoffice", false),
            ("ls", "coreutils", false),
        ] {
            assert_eq!(look_alike(OsStr::new(a), OsStr::new(b)), alike, "{a} {b}");
        }
    }
}
