//! The calls on the running service, on the thread of its event loop.

use super::apps::{add_times, find, find_or_add, id_of, states};
use super::{Answer, AppState, Control, ControlError, LaunchRecord, Reply, Status};
use crate::policy::{Phase, PhaseRequest};
use crate::service::config::{Mode, set_mode};
use crate::service::event_loop::Service;
use crate::service::history::History;

impl Control for Service {
    fn status(&mut self) -> Status {
        let lost_events = self.parts.kernel.lost();
        let apps = &self.parts.apps;
        let (mut learning, mut disabled) = (0, 0);
        for record in apps.registry.records.values() {
            let phase = record.managed.phase();
            learning += u64::from(matches!(phase, Phase::Learning { .. }));
            disabled += u64::from(matches!(phase, Phase::Disabled { .. }));
        }
        let profile_sizes = apps
            .profiles
            .values()
            .map(|profile| profile.packed.len() as u64);
        let diagnostics = &self.parts.diagnostics;
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.parts.config.mode.to_string(),
            managed: apps.registry.records.len() as u64,
            with_profile: apps.profiles.len() as u64,
            learning,
            disabled,
            resident_bytes: resident_bytes(),
            profiles_bytes: profile_sizes.sum(),
            launches_seen: diagnostics.launches_seen,
            lost_events,
            since_s: diagnostics.since_s,
            abilities: diagnostics.abilities.clone(),
            warnings: diagnostics.warnings.clone(),
        }
    }

    fn apps(&mut self, user: Option<u32>, app: Option<&str>, reply: Reply<Vec<AppState>>) {
        let managed = &self.parts.apps;
        match states(&managed.registry, user, app, |key| {
            managed.profiles.get(key)
        }) {
            Ok(apps) => self.with_history(reply, move |history| match history {
                Some(history) => add_times(apps, history),
                None => Ok(apps),
            }),
            Err(error) => reply(Err(error)),
        }
    }

    fn launches(
        &mut self,
        user: Option<u32>,
        app: Option<&str>,
        limit: u32,
        reply: Reply<Vec<LaunchRecord>>,
    ) {
        let id = match id_of(&self.parts.apps.registry, user, app) {
            Ok(id) => id,
            Err(error) => return reply(Err(error)),
        };
        self.with_history(reply, move |history| {
            let launches =
                history.map(|history| history.launches(user, id.as_deref(), limit as usize));
            launches
                .transpose()
                .map(Option::unwrap_or_default)
                .map_err(ControlError::failed)
        });
    }

    fn ask(&mut self, user: Option<u32>, app: &str, request: PhaseRequest) -> Answer<String> {
        let rules = self.parts.watchlist.catalogue.rules();
        let apps = find_or_add(&mut self.parts.apps.registry, user, app, rules)?;
        self.parts.ask(&apps, request);
        Ok(apps[0].id.clone())
    }

    fn forget(&mut self, user: Option<u32>, app: &str) -> Answer<()> {
        let apps = find(&self.parts.apps.registry, user, app)?;
        self.parts.forget(&apps);
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.parts.config.mode
    }

    fn set_mode(&mut self, mode: Mode) -> Answer<()> {
        let directory = &self.parts.places.config_dir;
        set_mode(directory, mode).map_err(ControlError::failed)?;
        Control::reload(self)
    }

    fn reload(&mut self) -> Answer<()> {
        self.read_config_again().map_err(ControlError::Refused)
    }
}

impl Service {
    /// Has the worker answer a call that needs the history, `None` if there is none. If the worker has
    /// ended, `reply` is dropped.
    fn with_history<T: 'static>(
        &self,
        reply: Reply<T>,
        answer: impl FnOnce(Option<&History>) -> Answer<T> + Send + 'static,
    ) {
        self.parts.worker.jobs.run(move |records| {
            reply(answer(records.history()));
        });
    }
}

/// Resident memory of this process in bytes; 0 if /proc does not tell.
fn resident_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * rustix::param::page_size() as u64)
}
