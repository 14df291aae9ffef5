//! The apps that the user was already notified about: a file of his own.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Failure, say, xdg};
use crate::fs::atomic_write;

/// The file, in the user's directory for state.
const FILE: &str = "paralfetch/faster-apps.json";

/// Most bytes of the file that are read.
const MOST_BYTES: u64 = 1 << 20;

/// The ids of the apps, as the file has them: a JSON array.
pub struct NotifiedApps {
    file: PathBuf,
    apps: BTreeSet<String>,
}

impl NotifiedApps {
    /// The apps of the user who runs this program. Of a file that cannot be used nothing is known: then he is notified
    /// again.
    pub fn load() -> Result<Self, Failure> {
        let directory = xdg::state().ok_or_else(|| {
            Failure::from("neither XDG_STATE_HOME nor HOME is an absolute path: set one of them")
        })?;
        Ok(Self::read(&directory.join(FILE)))
    }

    fn read(file: &Path) -> Self {
        let mut text = String::new();
        let read = File::open(file).and_then(|it| it.take(MOST_BYTES).read_to_string(&mut text));
        let apps = match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error.to_string()),
            Ok(_) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        };
        NotifiedApps {
            file: file.to_owned(),
            apps: apps.unwrap_or_else(|why| {
                say(&format!("cannot use {}: {why}", file.display()));
                BTreeSet::new()
            }),
        }
    }

    /// Whether the user was notified about this app.
    pub fn contains(&self, app: &str) -> bool {
        self.apps.contains(app)
    }

    /// Notes that the user was notified about this app, for as long as this program runs also where the file cannot be
    /// written.
    pub fn add(&mut self, app: &str) {
        self.apps.insert(app.to_owned());
        if let Err(error) = self.write() {
            say(&format!("cannot write {}: {error}", self.file.display()));
        }
    }

    fn write(&self) -> std::io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let text = serde_json::to_string_pretty(&self.apps)?;
        let file = atomic_write::new_file(directory)?;
        atomic_write::put(file, text.as_bytes(), &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_are_kept_and_a_damaged_file_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state").join(FILE);
        let mut apps = NotifiedApps::read(&file);
        assert!(!apps.contains("/a\n\"b"));
        apps.add("/a\n\"b");
        apps.add("flatpak:c");
        let apps = NotifiedApps::read(&file);
        assert!(apps.contains("/a\n\"b") && apps.contains("flatpak:c") && !apps.contains("c"));
        std::fs::write(&file, "[\"flatpak:").unwrap();
        let mut apps = NotifiedApps::read(&file);
        assert!(!apps.contains("flatpak:c"));
        apps.add("/d");
        assert!(NotifiedApps::read(&file).contains("/d"));
    }
}
