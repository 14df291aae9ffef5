//! What the administrator may set: `/etc/paralfetch/config.toml`, and drop-ins beside it.
//!
//! Every value has a default, so that no file need exist. The drop-ins, `config.toml.d/*.toml`, are
//! read in the order of their names; a value in a later file takes the place of the same value in an
//! earlier one, and nothing else. Every file must be right by itself: an unknown key or a value out of
//! its range is an error that names file and line, even where a later file would replace it.

mod log;
mod mode;
mod range;
mod values;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::LaunchLimits;

pub use log::LogLevel;
pub use mode::{Mode, NotAMode, set_mode};
pub use values::{
    AutomaticConfig, HistoryConfig, LaunchConfig, LogConfig, PrefetchConfig, WatchConfig,
};

/// Where the configuration is.
pub const DEFAULT_DIR: &str = "/etc/paralfetch";

/// Longest file that is read, in bytes. A file with every value and its explanation takes a twentieth of this.
pub const MAX_FILE_BYTES: usize = 64 << 10;

/// The main file, in the configuration's directory.
const MAIN: &str = "config.toml";
/// The directory of drop-ins, beside it.
const DROP_INS: &str = "config.toml.d";
/// How the names of drop-ins end.
const SUFFIX: &[u8] = b".toml";

/// Why the configuration cannot be used, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or directory cannot be read or written.
    #[error("cannot {action} {}: {cause}", .path.display())]
    Io {
        /// What was tried: "read" or "write".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Another user may have made or changed the file.
    #[error(
        "{} is not to be trusted: {why}; it must be a regular file of root that only root may write",
        .path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file is too long.
    #[error("{} is longer than {} KiB: remove what does not belong there", .path.display(), MAX_FILE_BYTES >> 10)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML, or has an unknown key, or a value out of its range.
    #[error("{}, line {line}: {what}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there, and what would be right.
        what: String,
    },
    /// Each value is right, but not all of them together.
    #[error("the values in {} do not go together: {what}", .path.display())]
    Together {
        /// The directory of the files, or the only file.
        path: PathBuf,
        /// Which do not, and what would be right.
        what: String,
    },
    /// The mode was not changed, because a drop-in sets it that comes later.
    #[error("{} sets the mode: change it there, or remove it there", .path.display())]
    Overruled {
        /// The drop-in.
        path: PathBuf,
    },
}

/// All values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whose launches are managed.
    pub mode: Mode,
    /// When a launch is over.
    pub launch: LaunchConfig,
    /// How launches are seen.
    pub watch: WatchConfig,
    /// How launches are prefetched.
    pub prefetch: PrefetchConfig,
    /// Which programs automatic mode takes on.
    pub automatic: AutomaticConfig,
    /// How much is remembered of launches.
    pub history: HistoryConfig,
    /// What is logged.
    pub log: LogConfig,
}

impl Config {
    /// The values of the files in `dir`, which is `/etc/paralfetch` except in tests; defaults for
    /// values that no file sets.
    ///
    /// # Errors
    /// [`ConfigError`], for the first file with which something is wrong.
    pub fn load(dir: &Path) -> Result<Config, ConfigError> {
        let mut merged = Table::new();
        for path in std::iter::once(dir.join(MAIN)).chain(drop_ins(dir)?) {
            if let Some(bytes) = read(&path)? {
                merge(&mut merged, table(&path, &bytes)?);
            }
        }
        finish(dir, merged)
    }

    /// The values of one file with these contents; `path` is for error messages.
    ///
    /// # Errors
    /// [`ConfigError::TooLong`], [`ConfigError::Invalid`], [`ConfigError::Together`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
        finish(path, table(path, bytes)?)
    }
}

/// The drop-ins, in the order in which they are read.
fn drop_ins(dir: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let dir = dir.join(DROP_INS);
    let failed = |cause| io_error("read", &dir, cause);
    let entries = match fs::read_dir(&dir) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if is_drop_in(&name) {
            paths.push(dir.join(name));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether a file of this name is read. Hidden files are leftovers of editors.
fn is_drop_in(name: &OsStr) -> bool {
    name.as_bytes().ends_with(SUFFIX) && !name.as_bytes().starts_with(b".")
}

/// The contents of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    root_owned::read(path, MAX_FILE_BYTES).map_err(|refused| match refused {
        NotRootOwned::Untrusted(why) => ConfigError::Untrusted {
            path: path.into(),
            why,
        },
        NotRootOwned::Io(cause) => io_error("read", path, cause),
    })
}

/// The values that a file sets, all of which are right by themselves.
fn table(path: &Path, bytes: &[u8]) -> Result<Table, ConfigError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(ConfigError::TooLong { path: path.into() });
    }
    let invalid = |offset: usize, what: String| ConfigError::Invalid {
        path: path.into(),
        line: 1 + bytes.iter().take(offset).filter(|&&b| b == b'\n').count(),
        what,
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| invalid(error.valid_up_to(), "the text is not UTF-8".to_owned()))?;
    let parsed = toml::from_str::<Config>(text).and_then(|_| toml::from_str(text));
    parsed.map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        invalid(offset, error.message().replace('\n', ", "))
    })
}

/// Puts the values of a later file over those of the earlier ones.
fn merge(earlier: &mut Table, later: Table) {
    for (key, value) in later {
        match (earlier.get_mut(&key), value) {
            (Some(Value::Table(section)), Value::Table(values)) => merge(section, values),
            (_, value) => {
                earlier.insert(key, value);
            }
        }
    }
}

/// The configuration with these values, whose files are at `path`.
fn finish(path: &Path, values: Table) -> Result<Config, ConfigError> {
    let together = |what| ConfigError::Together {
        path: path.into(),
        what,
    };
    let config: Config = values
        .try_into()
        .map_err(|error: toml::de::Error| together(error.message().to_owned()))?;
    let limits = LaunchLimits::from(&config.launch);
    if limits.window >= limits.timeout {
        return Err(together(format!(
            "launch.quiet_window_ms is {} ms and must be shorter than launch.timeout_s, which is {} s",
            config.launch.quiet_window_ms, config.launch.timeout_s
        )));
    }
    Ok(config)
}

fn io_error(action: &'static str, path: &Path, cause: io::Error) -> ConfigError {
    ConfigError::Io {
        action,
        path: path.into(),
        cause,
    }
}

#[cfg(test)]
mod tests;
