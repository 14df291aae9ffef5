//! Hostile launcher rules and command lines: a rules file is an error in one line or rules, and those tell
//! which app any command line is.
//!
//! The input is the rules file up to the first NUL byte, and then the working directory, the executed file
//! and its arguments, each ended by another NUL byte.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use paralfetch::apps::Rules;
use paralfetch::model::Key;

static BUILTIN: LazyLock<Rules> = LazyLock::new(Rules::builtin);

pub fn check(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0);
    let text = parts.next().unwrap_or_default();
    let mut rules = BUILTIN.clone();
    if let Ok(text) = std::str::from_utf8(text)
        && let Err(error) = rules.extend(text)
    {
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let mut words = parts.map(OsStr::from_bytes);
    let cwd = Path::new(words.next().unwrap_or_default());
    let file = Path::new(words.next().unwrap_or_default());
    let argv: Vec<OsString> = words.map(OsString::from).collect();
    let look_up = |name: &OsStr| Some(PathBuf::from("/usr/bin").join(name));
    for found in [
        rules.identify(file, &argv, cwd),
        rules.identify_with(file, &argv, cwd, &look_up),
    ] {
        assert!(found.program.is_absolute());
        if let Key::File(path) = &found.key {
            assert!(path.is_absolute());
        }
        rules.is_launcher(&found.app(0, None));
    }
}
