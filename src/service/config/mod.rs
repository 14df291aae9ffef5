//! What the administrator may set: `/etc/paralfetch/config.toml`, and drop-ins beside it.
//!
//! Every value has a default, so that no file need exist. The drop-ins, `config.toml.d/*.toml`, are
//! read in the order of their names; a value in a later file takes the place of the same value in an
//! earlier one, and nothing else. Every file must be right by itself: an unknown key or a value out of
//! its range is an error that names file and line, even where a later file would replace it.

mod values;
mod warm_up;
mod writes;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::fs::atomic_write;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::LaunchLimits;

pub use values::{
    AutomaticConfig, HistoryConfig, LaunchConfig, LogConfig, LogLevel, Mode, PrefetchConfig,
    TuningConfig, WatchConfig,
};
pub use warm_up::WarmUpConfig;
pub use writes::WritesConfig;

/// Longest file that is read, in bytes. A file with every value and its explanation takes a twentieth of this.
pub const MAX_FILE_BYTES: usize = 64 << 10;

/// The main file, in the configuration's directory.
const MAIN: &str = "config.toml";
/// The directory of drop-ins, beside it.
const DROP_INS: &str = "config.toml.d";
/// The drop-in that [`set_mode`] writes.
const MODE: &str = "90-mode.toml";

/// Why the configuration cannot be used, or not changed: one line that names the file.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct ConfigError {
    /// The line that is wrong, counted from 1; `None` if it is not a single line.
    pub line: Option<usize>,
    text: String,
}

impl ConfigError {
    fn new(text: String) -> Self {
        ConfigError { line: None, text }
    }

    fn io(action: &str, path: &Path, cause: &io::Error) -> Self {
        ConfigError::new(format!("cannot {action} {}: {cause}", path.display()))
    }
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
    /// What is read ahead before launches.
    pub warm_up: WarmUpConfig,
    /// How schedules are tuned.
    pub tuning: TuningConfig,
    /// What may be done so that launches do not wait for other programs' writes.
    pub writes: WritesConfig,
    /// Which programs automatic mode takes on.
    pub automatic: AutomaticConfig,
    /// How much is remembered of launches.
    pub history: HistoryConfig,
    /// What is logged.
    pub log: LogConfig,
}

impl Config {
    /// The values of the files in `dir`, which is `/etc/paralfetch` except in tests; defaults for
    /// values that no file sets. Fails at the first file with which something is wrong.
    pub fn load(dir: &Path) -> Result<Config, ConfigError> {
        let mut merged = Table::new();
        for path in files(dir)? {
            merge(&mut merged, table_of(&path)?);
        }
        finish(dir, merged)
    }

    /// The values of one file with these contents; `path` is for error messages.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
        finish(path, table(path, bytes)?)
    }
}

/// The main file and the drop-ins, in the order in which they are read. Hidden files are leftovers of
/// editors.
fn files(dir: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let drop_ins = dir.join(DROP_INS);
    let mut paths = Vec::new();
    let mut list = || -> io::Result<()> {
        for entry in fs::read_dir(&drop_ins)? {
            let name = entry?.file_name();
            if name.as_bytes().ends_with(b".toml") && !name.as_bytes().starts_with(b".") {
                paths.push(drop_ins.join(name));
            }
        }
        Ok(())
    };
    match list() {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            return Err(ConfigError::io("read", &drop_ins, &cause));
        }
        _ => paths.sort(),
    }
    paths.insert(0, dir.join(MAIN));
    Ok(paths)
}

/// The values that a file sets, all of which are right by themselves; none if there is no file.
fn table_of(path: &Path) -> Result<Table, ConfigError> {
    match root_owned::read(path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => table(path, &bytes),
        Ok(None) => Ok(Table::new()),
        Err(NotRootOwned::Untrusted(why)) => Err(ConfigError::new(format!(
            "{} is not to be trusted: {why}; it must be a regular file of root that only root may write",
            path.display()
        ))),
        Err(NotRootOwned::Io(cause)) => Err(ConfigError::io("read", path, &cause)),
    }
}

/// The table in a configuration file with these contents.
fn table(path: &Path, bytes: &[u8]) -> Result<Table, ConfigError> {
    let name = path.display();
    if bytes.len() > MAX_FILE_BYTES {
        return Err(ConfigError::new(format!(
            "{name} is longer than {} KiB: remove what does not belong there",
            MAX_FILE_BYTES >> 10
        )));
    }
    let invalid = |offset: usize, what: &str| {
        let line = 1 + bytes.iter().take(offset).filter(|&&b| b == b'\n').count();
        ConfigError {
            line: Some(line),
            text: format!("{name}, line {line}: {what}"),
        }
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| invalid(error.valid_up_to(), "the text is not UTF-8"))?;
    let parsed = toml::from_str::<Config>(text).and_then(|_| toml::from_str(text));
    parsed.map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        invalid(offset, &error.message().replace('\n', ", "))
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
    let together = |what: &str| {
        let path = path.display();
        ConfigError::new(format!("the values in {path} do not go together: {what}"))
    };
    let config: Config = values
        .try_into()
        .map_err(|error: toml::de::Error| together(error.message()))?;
    let limits = LaunchLimits::from(&config.launch);
    if limits.window >= limits.timeout {
        return Err(together(&format!(
            "launch.quiet_window_ms is {} ms and must be shorter than launch.timeout_s, which is {} s",
            config.launch.quiet_window_ms, config.launch.timeout_s
        )));
    }
    Ok(config)
}

/// Changes the mode for good: writes the drop-in `90-mode.toml` below `dir`, which is
/// `/etc/paralfetch` except in tests. A concurrent reader finds the old mode or the new one. A drop-in of
/// that name that is damaged is replaced.
///
/// # Errors
/// When a later drop-in sets the mode, one of the other files cannot be used, or this one cannot be written.
/// Then nothing has changed.
pub fn set_mode(dir: &Path, mode: Mode) -> Result<(), ConfigError> {
    let path = dir.join(DROP_INS).join(MODE);
    for other in files(dir)?.into_iter().filter(|other| *other != path) {
        let sets_mode = table_of(&other)?.contains_key("mode");
        if sets_mode && other > path {
            let other = other.display();
            return Err(ConfigError::new(format!(
                "{other} sets the mode: change it there, or remove it there"
            )));
        }
    }
    write(&path, mode).map_err(|cause| ConfigError::io("write", &path, &cause))
}

fn write(path: &Path, mode: Mode) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    // One that is there keeps the mode that the administrator has given it.
    match fs::DirBuilder::new().mode(0o755).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let file = atomic_write::new_file(dir)?;
    // The configuration holds no secret.
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    let text = format!("# Written by `paralfetch mode`.\nmode = \"{mode}\"\n");
    atomic_write::put(file, text.as_bytes(), path)
}

#[cfg(test)]
mod tests;
