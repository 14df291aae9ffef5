//! The mode, which is also changed from the command line and over the bus.

use std::fmt;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{ConfigError, DROP_INS, MAIN, drop_ins, io_error, read, table};

/// The drop-in that [`set_mode`] writes.
const DROP_IN: &str = "90-mode.toml";

/// Whose launches are managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Only the apps that the user named.
    Manual,
    /// These, every app with a .desktop entry, and programs whose launches turn out to be worth it.
    #[default]
    Automatic,
}

/// A text that names no [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mode is \"manual\" or \"automatic\"")]
pub struct NotAMode;

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Manual => "manual",
            Mode::Automatic => "automatic",
        })
    }
}

impl FromStr for Mode {
    type Err = NotAMode;

    fn from_str(word: &str) -> Result<Mode, NotAMode> {
        match word {
            "manual" => Ok(Mode::Manual),
            "automatic" => Ok(Mode::Automatic),
            _ => Err(NotAMode),
        }
    }
}

/// Changes the mode for good: writes the drop-in `90-mode.toml` below `dir`, which is
/// `/etc/paralfetch` except in tests. A concurrent reader finds the old mode or the new one.
/// Returns the drop-in's path. A drop-in of that name that is damaged is replaced.
///
/// # Errors
/// [`ConfigError::Overruled`] if a later drop-in sets the mode, another [`ConfigError`] if one of the
/// other files cannot be used, or this one not written. Then nothing has changed.
pub fn set_mode(dir: &Path, mode: Mode) -> Result<PathBuf, ConfigError> {
    let path = dir.join(DROP_INS).join(DROP_IN);
    let others = drop_ins(dir)?.into_iter().filter(|other| *other != path);
    for other in std::iter::once(dir.join(MAIN)).chain(others) {
        let Some(bytes) = read(&other)? else { continue };
        let sets_mode = table(&other, &bytes)?.contains_key("mode");
        if sets_mode && other > path {
            return Err(ConfigError::Overruled { path: other });
        }
    }
    write(&path, mode).map_err(|cause| io_error("write", &path, cause))?;
    Ok(path)
}

fn write(path: &Path, mode: Mode) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    match DirBuilder::new().mode(0o755).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // A temporary name that does not end like a drop-in's, in case a crash leaves it behind.
    let mut file = tempfile::Builder::new()
        .prefix(".mode-")
        .suffix(".tmp")
        .tempfile_in(dir)?;
    writeln!(file, "# Written by `paralfetch mode`.\nmode = \"{mode}\"")?;
    // The configuration holds no secret.
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The rename is durable once the directory has been written.
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn modes_have_one_name_each() {
        for mode in [Mode::Manual, Mode::Automatic] {
            let name = mode.to_string();
            assert_eq!(name.parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), name);
        }
        assert_eq!("Manual".parse::<Mode>(), Err(NotAMode));
    }

    #[test]
    fn the_mode_is_changed_for_good_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("paralfetch");
        let path = set_mode(&dir, Mode::Manual).expect("written");
        assert_eq!(path, dir.join("config.toml.d/90-mode.toml"));
        let permissions = fs::metadata(&path).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, 0o644);
        fs::write(
            dir.join(MAIN),
            "mode = \"automatic\"\n[launch]\ntimeout_s = 20\n",
        )
        .unwrap();
        let config = Config::load(&dir).expect("right");
        assert_eq!((config.mode, config.launch.timeout_s), (Mode::Manual, 20));
        set_mode(&dir, Mode::Automatic).expect("written again");
        let config = Config::load(&dir).expect("right");
        assert_eq!(
            (config.mode, config.launch.timeout_s),
            (Mode::Automatic, 20)
        );
        let left = fs::read_dir(dir.join(DROP_INS)).unwrap().count();
        assert_eq!(left, 1, "a temporary file was left behind");
    }

    #[test]
    fn what_would_not_take_effect_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = set_mode(dir.path(), Mode::Manual).unwrap();
        let before = fs::read(&path).unwrap();
        let later = path.with_file_name("95-site.toml");

        fs::write(&later, "mode = \"manual\"\n").unwrap();
        let error = set_mode(dir.path(), Mode::Automatic).unwrap_err();
        assert!(
            matches!(&error, ConfigError::Overruled { path } if *path == later),
            "{error}"
        );
        fs::write(&later, "mood = 1\n").unwrap();
        let error = set_mode(dir.path(), Mode::Automatic).unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);

        fs::write(&later, "[log]\nlevel = \"debug\"\n").unwrap();
        fs::write(&path, "damaged").unwrap();
        set_mode(dir.path(), Mode::Automatic).expect("replaced");
        assert_eq!(Config::load(dir.path()).unwrap().mode, Mode::Automatic);
    }
}
