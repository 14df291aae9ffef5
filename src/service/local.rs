//! The calls of the bus without a running service: on the files that it would read when it starts.

use std::path::Path;

use super::face::{add_times, config_mode, find_record, mode_of, pick, record_of, state_of};
use super::reschedule::now_s;
use super::{CONFIG_DIR, Places};
use crate::apps::Rules;
use crate::drive::Sysfs;
use crate::policy::{Observation, PhaseRequest};
use crate::profile::Store;
use crate::service::announce;
use crate::service::bus::{AppState, Backend, BackendError, LaunchRecord, Mode, Status};
use crate::service::config::{Config, set_mode};
use crate::service::history::{self, History};
use crate::service::registry::Registry;

/// The service's files.
pub struct Local {
    places: Places,
}

impl Local {
    /// Those of a state directory, and the system's configuration.
    pub fn new(state_dir: &Path) -> Self {
        Local {
            places: Places {
                state_dir: state_dir.to_owned(),
                config_dir: CONFIG_DIR.into(),
                run_dir: announce::DIRECTORY.into(),
                sysfs: Sysfs::default(),
            },
        }
    }

    fn config(&self) -> Result<Config, BackendError> {
        Config::load(&self.places.config_dir).map_err(failed)
    }

    fn registry(&self) -> Result<Registry, BackendError> {
        if !self.places.state_dir.exists() {
            // Nothing was ever managed, and whoever only reads need not be root.
            Store::create(&self.places.state_dir).map_err(failed)?;
        }
        let (registry, _) = Registry::load(&self.places.state_dir).map_err(failed)?;
        Ok(registry)
    }

    fn history(&self) -> Result<Option<History>, BackendError> {
        let path = self.places.state_dir.join(history::FILE_NAME);
        if !path.exists() {
            return Ok(None);
        }
        let config = self.config()?.history;
        let limits = history::HistoryLimits {
            max_launches: config.max_launches,
            max_days: config.max_days,
        };
        let (history, _) = History::open(&path, limits).map_err(failed)?;
        Ok(Some(history))
    }
}

fn failed(error: impl std::fmt::Display) -> BackendError {
    BackendError::Failed(error.to_string())
}

impl Backend for Local {
    fn status(&self) -> Result<Status, BackendError> {
        let registry = self.registry()?;
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.mode()?.to_string(),
            managed: registry.len() as u64,
            warnings: vec![
                "the service is not running: launches are neither seen nor prefetched \
                 (systemctl start paralfetch)"
                    .to_owned(),
            ],
            ..Status::default()
        })
    }

    fn apps(&self) -> Result<Vec<AppState>, BackendError> {
        let mut apps: Vec<AppState> = self.registry()?.iter().map(state_of).collect();
        if let Some(history) = self.history()? {
            for summary in history.summaries().map_err(failed)? {
                if let Some(app) = apps.iter_mut().find(|app| app.app == summary.app) {
                    add_times(app, &summary);
                }
            }
        }
        Ok(apps)
    }

    fn app(&self, app: &str) -> Result<AppState, BackendError> {
        pick(self.apps()?, app)
    }

    fn launches(&self, app: Option<&str>, limit: u32) -> Result<Vec<LaunchRecord>, BackendError> {
        let id = app.map(|app| self.app(app)).transpose()?.map(|app| app.app);
        let Some(history) = self.history()? else {
            return Ok(Vec::new());
        };
        let launches = history
            .launches(id.as_deref(), limit as usize)
            .map_err(failed)?;
        Ok(launches.iter().map(record_of).collect())
    }

    fn ask(&self, app: &str, request: PhaseRequest) -> Result<String, BackendError> {
        let mut registry = self.registry()?;
        let id = match pick(registry.iter().map(state_of).collect(), app) {
            Ok(known) => known.app,
            Err(BackendError::Unknown(_)) => {
                let rules = Rules::load(&self.places.config_dir.join("launchers.d")).rules;
                let record = find_record(app, &rules)?;
                let id = record.id.clone();
                registry.insert(record);
                id
            }
            Err(error) => return Err(error),
        };
        if let Some(record) = registry.get_mut(&id) {
            // There is nobody to carry out a decision; the phase is what the next start goes by.
            record.managed.next(now_s(), &Observation::Asked(request));
        }
        registry.save().map_err(failed)?;
        Ok(id)
    }

    fn forget(&self, app: &str) -> Result<(), BackendError> {
        let mut registry = self.registry()?;
        let id = pick(registry.iter().map(state_of).collect(), app)?.app;
        if let Some(app) = registry.get(&id).and_then(|record| record.app.clone()) {
            Store::open(&self.places.state_dir)
                .and_then(|store| store.remove(app.key()))
                .map_err(failed)?;
        }
        registry.remove(&id);
        registry.save().map_err(failed)?;
        if let Some(mut history) = self.history()? {
            history.forget(&id).map_err(failed)?;
        }
        Ok(())
    }

    fn mode(&self) -> Result<Mode, BackendError> {
        Ok(mode_of(self.config()?.mode))
    }

    fn set_mode(&self, mode: Mode) -> Result<(), BackendError> {
        set_mode(&self.places.config_dir, config_mode(mode)).map_err(failed)?;
        Ok(())
    }

    fn reload(&self) -> Result<(), BackendError> {
        Err(BackendError::Refused(
            "the service is not running (systemctl start paralfetch)".to_owned(),
        ))
    }
}
