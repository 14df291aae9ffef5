//! The directory that a service of the laboratory works in: its state and its configuration.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use paralfetch::drive::{MeasuredDrive, MeasuredDrives, Sysfs, drives_of, identities};
use paralfetch::fs::mounts::MountTable;
use paralfetch::model::{App, DriveClass, DriveCosts};
use paralfetch::policy::PhaseRequest;
use paralfetch::profile::Store;
use paralfetch::service::Places;
use paralfetch::service::control::{ServiceCalls, ServiceFiles};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// Manages enabled apps only and prefetches each of their launches: a withheld launch would look like a
/// failed prefetch. Drives are not measured between launches, which would be by chance: the service knows before the first
/// launch what the drive can do. Nothing is read before launches. The debug log says when a launch can be learned.
const CONFIGURATION: &str = "mode = \"manual\"\nlog.level = \"debug\"\n[prefetch]\nwithhold = false\nprobe = false\n\
     [warm_up]\nenabled = false\n";

/// The argument of `lab service`, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Serve {
    /// The directory of a [`State`].
    pub(super) dir: PathBuf,
    /// Device that the image is on, and its class.
    pub(super) drive: (u64, DriveClass),
}

impl Serve {
    /// Runs the service until a signal asks it to end.
    ///
    /// # Errors
    /// When the service cannot start, or fails.
    pub fn run(self) -> Result<()> {
        let (dev, class) = self.drive;
        let places = Places {
            // No other machine's profiles.
            profiles_dir: self.dir.join("profiles"),
            state_dir: state_dir(&self.dir),
            config_dir: self.dir.join("etc"),
            run_dir: self.dir.join("run"),
            sysfs: Sysfs::default().knowing(dev, class),
            leaves_own_commands: false,
        };
        paralfetch::cli::serve(&places, None).map_err(|error| anyhow!("the service: {error}"))
    }
}

pub(super) fn state_dir(dir: &Path) -> PathBuf {
    dir.join("state")
}

/// A new service's directory: an empty state directory and the configuration.
pub struct State(TempDir);

impl State {
    /// Creates the directory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("lab-service-").tempdir();
        let dir = dir.context("cannot make a directory for the service")?;
        let etc = dir.path().join("etc");
        fs::create_dir(&etc)?;
        fs::write(etc.join("config.toml"), CONFIGURATION)?;
        let state = State(dir);
        state.store()?;
        Ok(state)
    }

    /// The service's profiles.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn store(&self) -> Result<Store> {
        Ok(Store::create(&state_dir(self.0.path()))?)
    }

    /// Has the service know what reads from the drive of a file system (`st_dev`) cost, as if it had measured it.
    ///
    /// # Errors
    /// When the file system has no drive that can be found again, or the file cannot be written.
    pub fn keep_costs(&self, dev: u64, costs: DriveCosts) -> Result<()> {
        let (sysfs, mounts) = (Sysfs::default(), MountTable::read()?);
        let drives = drives_of([dev], &sysfs, &mounts);
        let (drive, _) = drives.first().context("the image is on no drive")?;
        let mut measured = MeasuredDrives::default();
        let is_kept = measured.keep(MeasuredDrive {
            identities: identities(&sysfs, drive.dev, &mounts),
            measured: jiff::Timestamp::now().as_second().unsigned_abs(),
            costs,
        });
        ensure!(is_kept, "the image's drive has no identity");
        Ok(measured.save(&state_dir(self.0.path()))?)
    }

    /// Enables an app, as `paralfetch enable` does.
    ///
    /// # Errors
    /// When the app does not exist.
    pub fn enable(&self, app: &App) -> Result<()> {
        let id = id_of(app)?;
        let asked = self.files().ask(None, &id, PhaseRequest::Prefetch);
        asked.map_err(|error| anyhow!("cannot enable {id}: {error}"))?;
        Ok(())
    }

    /// The directory's path.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The service's files, as `paralfetch stats` and `enable` use them.
    pub(super) fn files(&self) -> ServiceFiles {
        ServiceFiles::new(&state_dir(self.0.path()))
    }
}

/// The name under which the service manages an app.
pub(super) fn id_of(app: &App) -> Result<String> {
    String::from_utf8(app.id()).context("the app's path is not UTF-8")
}

#[cfg(test)]
mod tests {
    use paralfetch::service::config::Config;

    use super::*;

    #[test]
    fn the_configuration_is_valid() {
        let state = State::new().unwrap();
        let config = Config::load(&state.0.path().join("etc")).unwrap();
        assert!(!config.prefetch.withhold && !config.prefetch.probe && config.prefetch.dynamic);
        assert!(!config.warm_up.enabled);
    }
}
