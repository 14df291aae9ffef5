//! The calls without a running service, answered from the files that it would read when it starts.

use std::path::{Path, PathBuf};

use super::apps::{add_times, find, id_of, logins_are_off, manage, new_record, states};
use super::{Answer, AppState, ControlError, LaunchRecord, ServiceCalls};
use crate::apps::Rules;
use crate::policy::{Observation, PhaseRequest};
use crate::profile::Store;
use crate::service::CONFIG_DIR;
use crate::service::clock::now_s;
use crate::service::config::{Config, Mode, set_mode};
use crate::service::history::{self, History};
use crate::service::registry::Registry;
use crate::service::state_lock::StateLock;

/// The service's files. Each call reads those that it needs.
pub struct ServiceFiles {
    state_dir: PathBuf,
    config_dir: PathBuf,
}

impl ServiceFiles {
    /// The files of a state directory, and the system's configuration.
    pub fn new(state_dir: &Path) -> Self {
        ServiceFiles {
            state_dir: state_dir.to_owned(),
            config_dir: CONFIG_DIR.into(),
        }
    }

    fn config(&self) -> Answer<Config> {
        Config::load(&self.config_dir).map_err(ControlError::failed)
    }

    fn registry(&self) -> Answer<Registry> {
        let (registry, _) = Registry::load(&self.state_dir).map_err(ControlError::failed)?;
        Ok(registry)
    }

    /// `None` if no launch was ever recorded.
    fn history(&self) -> Answer<Option<History>> {
        let path = self.state_dir.join(history::FILE_NAME);
        if !path.exists() {
            return Ok(None);
        }
        let opened = History::open(&path, self.config()?.history);
        let (history, _) = opened.map_err(ControlError::failed)?;
        Ok(Some(history))
    }
}

impl ServiceCalls for ServiceFiles {
    fn apps(&self, user: Option<u32>, app: Option<&str>) -> Answer<Vec<AppState>> {
        let mut apps = states(&self.registry()?, user, app, |_| None)?;
        if !self.config()?.warm_up.reads_logins() {
            logins_are_off(&mut apps);
        }
        match self.history()? {
            Some(history) => add_times(apps, &history),
            None => Ok(apps),
        }
    }

    fn launches(
        &self,
        user: Option<u32>,
        app: Option<&str>,
        limit: u32,
    ) -> Answer<Vec<LaunchRecord>> {
        let id = id_of(&self.registry()?, user, app)?;
        let Some(history) = self.history()? else {
            return Ok(Vec::new());
        };
        let launches = history.launches(user, id.as_deref(), limit as usize);
        launches.map_err(ControlError::failed)
    }

    fn ask(&self, user: Option<u32>, app: &str, request: PhaseRequest) -> Answer<String> {
        // A service that runs would write over what is changed here.
        Store::create(&self.state_dir).map_err(ControlError::failed)?;
        let _lock = StateLock::take(&self.state_dir).map_err(|error| {
            ControlError::Failed(format!(
                "{error}: the service runs and is not reached over the bus; try again, or stop it first"
            ))
        })?;
        let mut registry = self.registry()?;
        let rules = Rules::load(&self.config_dir.join("launchers.d")).0;
        let (found, new) = match find(&registry, user, app) {
            Err(ControlError::Unknown(_)) => (Vec::new(), Some(new_record(app, &rules, None)?)),
            found => (found?, None),
        };
        let apps = manage(&mut registry, user, true, found, new);
        for key in &apps {
            if let Some(record) = registry.records.get_mut(key) {
                // Only the phase matters: the service carries it out when it starts.
                record.managed.next(now_s(), &Observation::Asked(request));
            }
        }
        registry.save().map_err(ControlError::failed)?;
        Ok(apps[0].id.clone())
    }

    fn mode(&self) -> Answer<Mode> {
        Ok(self.config()?.mode)
    }

    fn set_mode(&self, mode: Mode) -> Answer<()> {
        set_mode(&self.config_dir, mode).map_err(ControlError::failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_changed_below_a_service_that_runs() {
        let dir = tempfile::tempdir().unwrap();
        let files = ServiceFiles::new(dir.path());
        let ask = || files.ask(None, "/usr/bin/id", PhaseRequest::Learn);
        let running = StateLock::take(dir.path()).unwrap();
        let refused = ask().unwrap_err().to_string();
        assert!(refused.contains("the service runs"), "{refused}");
        assert!(!dir.path().join("managed.json").exists());
        drop(running);
        assert_eq!(ask().unwrap(), "/usr/bin/id");
    }
}
