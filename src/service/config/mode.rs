//! The mode, which is also changed from the command line and over the bus.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::fs::atomic_write;

use super::{ConfigError, DROP_INS, files, table_of};

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

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Changes the mode for good: writes the drop-in `90-mode.toml` below `dir`, which is
/// `/etc/paralfetch` except in tests. A concurrent reader finds the old mode or the new one. A drop-in of
/// that name that is damaged is replaced.
///
/// # Errors
/// When a later drop-in sets the mode, one of the other files cannot be used, or this one cannot be written.
/// Then nothing has changed.
pub fn set_mode(dir: &Path, mode: Mode) -> Result<(), ConfigError> {
    let path = dir.join(DROP_INS).join(DROP_IN);
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
