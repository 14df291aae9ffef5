//! The user's directories, by the XDG Base Directory Specification.

use std::env;
use std::path::PathBuf;

/// Where the user's own data are.
pub fn data() -> Option<PathBuf> {
    directory("XDG_DATA_HOME", ".local/share")
}

/// Where programs keep for the user what he can do without.
pub fn state() -> Option<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state")
}

/// What the variable names or, without it, this directory below the home directory. Relative paths do not count.
fn directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name| {
        let directory = env::var_os(name).map(PathBuf::from);
        directory.filter(|directory| directory.is_absolute())
    };
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}
