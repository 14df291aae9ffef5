//! Rules files that the administrator adds.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::Rules;
use crate::apps::read::{ReadError, check_trusted, read_trusted};

/// Where the administrator's rules files are.
pub const LAUNCHERS_DIR: &str = "/etc/paralfetch/launchers.d";

/// Largest rules file, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Most rules files.
const MAX_FILES: usize = 64;

/// Why rules are left out.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The directory, and with it all files in it.
    #[error("cannot use the launcher rules in {}: {cause}", .dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        cause: ReadError,
    },
    /// A file cannot be read or is not to be trusted.
    #[error("cannot use launcher rules {}: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: ReadError,
    },
    /// A file's contents are no rules.
    #[error("launcher rules {} are wrong and left out: {why}", .path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where and what.
        why: String,
    },
    /// There are more files than are read.
    #[error(
        "{} has {found} rules files; only the first {MAX_FILES} are used: put them together",
        .dir.display()
    )]
    TooMany {
        /// The directory.
        dir: PathBuf,
        /// Number of files.
        found: usize,
    },
}

/// What [`Rules::load`] found.
#[derive(Debug)]
pub struct LoadedRules {
    /// The built-in rules with those of all files that can be used.
    pub rules: Rules,
    /// What cannot be used; for the log.
    pub refused: Vec<RulesError>,
}

impl Rules {
    /// The built-in rules, extended by the files `*.toml` of `dir` ([`LAUNCHERS_DIR`]) in the order of
    /// their names. Directory and files must be root's or this user's own and writable by nobody else.
    /// A file that cannot be used does not keep the others from it. A missing directory is an empty one.
    pub fn load(dir: &Path) -> LoadedRules {
        let mut loaded = LoadedRules {
            rules: Rules::builtin(),
            refused: Vec::new(),
        };
        if let Err(cause) = loaded.add_all(dir) {
            let dir = dir.into();
            loaded.refused.push(RulesError::Directory { dir, cause });
        }
        loaded
    }
}

impl LoadedRules {
    fn add_all(&mut self, dir: &Path) -> Result<(), ReadError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = match rustix::fs::open(dir, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        check_trusted(&rustix::fs::fstat(&open)?)?;
        let names = names(dir).map_err(ReadError::Io)?;
        if names.len() > MAX_FILES {
            self.refused.push(RulesError::TooMany {
                dir: dir.into(),
                found: names.len(),
            });
        }
        for name in names.iter().take(MAX_FILES) {
            let path = dir.join(name);
            let added = match read_trusted(&open, Path::new(name), MAX_BYTES) {
                Ok(bytes) => self
                    .add(&bytes)
                    .map_err(|why| RulesError::Wrong { path, why }),
                Err(cause) => Err(RulesError::File { path, cause }),
            };
            self.refused.extend(added.err());
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = bytes.iter().take(error.valid_up_to());
            let line = before.filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: not UTF-8")
        })?;
        self.rules.extend(text)
    }
}

/// Names of the rules files, sorted.
fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let bytes = name.as_bytes();
        if bytes.ends_with(b".toml") && !bytes.starts_with(b".") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn knows(loaded: &LoadedRules, base: &str) -> bool {
        loaded.rules.launcher(OsStr::new(base)).is_some()
    }

    fn told(loaded: &LoadedRules) -> Vec<String> {
        loaded.refused.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_are_read_in_order_and_a_bad_one_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(dir.path().join(name), text).unwrap();
        write("10.toml", b"[launcher.a]\nfiles = ['a-one']");
        write("20.toml", b"[launcher.a]\nfiles = ['a-two']");
        write("30.toml", b"[launcher.b\n");
        write("40.toml", b"[launcher.c]\nfiles = ['c']");
        write("50.toml", b"# \xff");
        write("60.toml", &vec![b'#'; MAX_BYTES + 1]);
        write("other.conf", b"[launcher.d]\nfiles = ['d']");
        write(".hidden.toml", b"[launcher.e]\nfiles = ['e']");
        symlink("10.toml", dir.path().join("70.toml")).unwrap();
        let fifo = dir.path().join("80.toml");
        rustix::fs::mkfifoat(rustix::fs::CWD, fifo, Mode::RUSR).unwrap();

        let loaded = Rules::load(dir.path());
        for (base, known) in [
            ("a-one", false),
            ("a-two", true),
            ("c", true),
            ("d", false),
            ("e", false),
            ("python3", true),
        ] {
            assert_eq!(knows(&loaded, base), known, "{base}");
        }
        let told = told(&loaded);
        let expected = ["30.toml", "50.toml", "60.toml", "70.toml", "80.toml"];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, name) in told.iter().zip(expected) {
            assert!(told.contains(name) && told.lines().count() == 1, "{told}");
        }
    }

    #[test]
    fn what_others_may_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.toml");
        fs::write(&path, "[launcher.a]\nfiles = ['a']").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let loaded = Rules::load(dir.path());
        assert!(!knows(&loaded, "a"));
        assert!(told(&loaded)[0].contains("others may write it"));

        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(knows(&Rules::load(dir.path()), "a"));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let loaded = Rules::load(dir.path());
        assert!(!knows(&loaded, "a"));
        assert!(matches!(
            loaded.refused[..],
            [RulesError::Directory {
                cause: ReadError::Untrusted(_),
                ..
            }]
        ));
    }

    #[test]
    fn too_many_files_are_told_of() {
        let dir = tempfile::tempdir().unwrap();
        for number in 100..=164 {
            let text = format!("[launcher.l{number}]\nfiles = ['l{number}']");
            fs::write(dir.path().join(format!("{number}.toml")), text).unwrap();
        }
        let loaded = Rules::load(dir.path());
        assert!(knows(&loaded, "l163") && !knows(&loaded, "l164"));
        assert!(matches!(
            loaded.refused[..],
            [RulesError::TooMany { found: 65, .. }]
        ));
    }

    #[test]
    fn a_missing_directory_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let loaded = Rules::load(&dir.path().join("none"));
        assert!(loaded.refused.is_empty() && knows(&loaded, "flatpak"));
    }
}
