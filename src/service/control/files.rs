//! The calls without a running service, answered from the files that it would read when it starts.

use std::path::{Path, PathBuf};

use super::apps::{add_all_times, add_times, find, find_or_add, state_of};
use super::{Answer, AppState, ControlError, LaunchRecord};
use crate::apps::Rules;
use crate::policy::{Observation, PhaseRequest};
use crate::profile::Store;
use crate::service::CONFIG_DIR;
use crate::service::clock::now_s;
use crate::service::config::{Config, Mode, set_mode};
use crate::service::history::{self, History};
use crate::service::registry::Registry;

/// The service's files. Each call reads those that it needs.
pub struct ServiceFiles {
    state_dir: PathBuf,
    config_dir: PathBuf,
}

impl ServiceFiles {
    /// Those of a state directory, and the system's configuration.
    pub fn new(state_dir: &Path) -> Self {
        ServiceFiles {
            state_dir: state_dir.to_owned(),
            config_dir: CONFIG_DIR.into(),
        }
    }

    /// All managed apps.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn apps(&self) -> Answer<Vec<AppState>> {
        let registry = self.registry()?;
        let mut apps: Vec<AppState> = registry
            .iter()
            .map(|record| state_of(record, None))
            .collect();
        if let Some(history) = self.history()? {
            let summaries = history.summaries().map_err(ControlError::failed)?;
            add_all_times(&mut apps, &summaries);
        }
        Ok(apps)
    }

    /// One managed app, as [`super::Control::app`] finds it.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] when it is not managed; when a file cannot be read.
    pub fn app(&self, app: &str) -> Answer<AppState> {
        let mut app = state_of(find(&self.registry()?, app)?, None);
        if let Some(history) = self.history()?
            && let Some(summary) = history.summary(&app.app).map_err(ControlError::failed)?
        {
            add_times(&mut app, &summary);
        }
        Ok(app)
    }

    /// The newest launches of an app, or of all apps, newest first, at most `limit` of them.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] when the app is not managed; when a file cannot be read.
    pub fn launches(&self, app: Option<&str>, limit: u32) -> Answer<Vec<LaunchRecord>> {
        let registry = self.registry()?;
        let id = app.map(|app| find(&registry, app)).transpose()?;
        let id = id.map(|record| record.id.as_str());
        let Some(history) = self.history()? else {
            return Ok(Vec::new());
        };
        let launches = history.launches(id, limit as usize);
        launches.map_err(ControlError::failed)
    }

    /// Learns, prefetches or disables an app once the service runs. Returns the app's id.
    ///
    /// # Errors
    /// As [`super::Control::ask`]; when a file cannot be read or written.
    pub fn ask(&self, app: &str, request: PhaseRequest) -> Answer<String> {
        let mut registry = self.registry()?;
        let rules = Rules::load(&self.config_dir.join("launchers.d")).0;
        let id = find_or_add(&mut registry, app, &rules)?;
        if let Some(record) = registry.get_mut(&id) {
            // Only the phase matters: the service carries it out when it starts.
            record.managed.next(now_s(), &Observation::Asked(request));
        }
        registry.save().map_err(ControlError::failed)?;
        Ok(id)
    }

    /// The mode in which the service will start.
    ///
    /// # Errors
    /// When the configuration is wrong or cannot be read.
    pub fn mode(&self) -> Answer<Mode> {
        Ok(self.config()?.mode)
    }

    /// Sets the mode for good.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_mode(&self, mode: Mode) -> Answer<()> {
        set_mode(&self.config_dir, mode).map_err(ControlError::failed)?;
        Ok(())
    }

    fn config(&self) -> Answer<Config> {
        Config::load(&self.config_dir).map_err(ControlError::failed)
    }

    fn registry(&self) -> Answer<Registry> {
        if !self.state_dir.exists() {
            // No app was ever managed. Otherwise the directory is left alone: reading must not need root.
            Store::create(&self.state_dir).map_err(ControlError::failed)?;
        }
        let (registry, _) = Registry::load(&self.state_dir).map_err(ControlError::failed)?;
        Ok(registry)
    }

    /// `None` if no launch was ever recorded.
    fn history(&self) -> Answer<Option<History>> {
        let path = self.state_dir.join(history::FILE_NAME);
        if !path.exists() {
            return Ok(None);
        }
        let limits = (&self.config()?.history).into();
        let (history, _) = History::open(&path, limits).map_err(ControlError::failed)?;
        Ok(Some(history))
    }
}
