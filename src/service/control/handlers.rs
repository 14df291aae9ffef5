//! The calls on the running service, on the thread of its event loop.

use super::apps::{add_all_times, add_times, find, find_or_add, record_of, state_of};
use super::types::{AppState, LaunchRecord, LaunchSignal, Status};
use super::{Answer, Control, ControlError, Reply};
use crate::policy::{Observation, Phase, PhaseRequest};
use crate::service::config::{Mode, set_mode};
use crate::service::core::Service;
use crate::service::history::{History, HistoryError};
use crate::service::message::Message;

impl Control for Service<'_> {
    fn status(&mut self) -> Answer<Status> {
        let (mut learning, mut disabled) = (0, 0);
        for record in self.registry.iter() {
            let phase = record.managed.phase();
            learning += u64::from(matches!(phase, Phase::Learning { .. }));
            disabled += u64::from(matches!(phase, Phase::Disabled { .. }));
        }
        let profiles = self.ready.values();
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.config.mode.to_string(),
            managed: self.registry.len() as u64,
            with_profile: self.ready.len() as u64,
            learning,
            disabled,
            resident_bytes: resident_bytes(),
            profiles_bytes: profiles.map(|profile| profile.packed.len() as u64).sum(),
            launches_seen: self.state.launches_seen,
            lost_events: self.watch.lost(),
            since_s: self.state.since_s,
            abilities: self.state.abilities.clone(),
            warnings: self.state.warnings.clone(),
        })
    }

    fn apps(&mut self, reply: Reply<Vec<AppState>>) {
        let records = self.registry.iter();
        let mut apps: Vec<AppState> = records
            .map(|record| state_of(record, self.ready.get(&record.id)))
            .collect();
        self.with_history(reply, move |history| {
            if let Some(history) = history {
                add_all_times(&mut apps, &history.summaries()?);
            }
            Ok(apps)
        });
    }

    fn app(&mut self, app: &str, reply: Reply<AppState>) {
        let mut app = match find(&self.registry, app) {
            Ok(record) => state_of(record, self.ready.get(&record.id)),
            Err(error) => return reply(Err(error)),
        };
        self.with_history(reply, move |history| {
            let summary = history
                .map(|history| history.summary(&app.app))
                .transpose()?;
            if let Some(summary) = summary.flatten() {
                add_times(&mut app, &summary);
            }
            Ok(app)
        });
    }

    fn launches(&mut self, app: Option<&str>, limit: u32, reply: Reply<Vec<LaunchRecord>>) {
        let id = match app.map(|app| find(&self.registry, app)).transpose() {
            Ok(record) => record.map(|record| record.id.clone()),
            Err(error) => return reply(Err(error)),
        };
        self.with_history(reply, move |history| {
            let launches = match history {
                Some(history) => history.launches(id.as_deref(), limit as usize)?,
                None => Vec::new(),
            };
            Ok(launches.iter().map(record_of).collect())
        });
    }

    fn ask(&mut self, app: &str, request: PhaseRequest) -> Answer<String> {
        let id = find_or_add(&mut self.registry, app, self.catalogue.rules())?;
        self.decide(&id, &Observation::Asked(request));
        let record = self.registry.get(&id);
        let is_prefetched =
            record.is_some_and(|record| record.managed.phase() == Phase::Prefetching);
        if is_prefetched && !self.ready.contains_key(&id) {
            // The profile was dropped when the app was switched off.
            self.load_again();
        }
        self.watch_for_launches();
        self.save();
        Ok(id)
    }

    fn forget(&mut self, app: &str) -> Answer<()> {
        let id = find(&self.registry, app)?.id.clone();
        let profile = self.ready.remove(&id).map(|profile| profile.app);
        self.registry.remove(&id);
        self.watch_for_launches();
        self.save();
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        self.worker.run(move |records| {
            let removed = profile.map_or(Ok(false), |app| store.remove(app.key()));
            if let Err(error) = removed {
                outbox.send(Message::Warning(error.to_string()));
            }
            if let Err(error) = records.forget(&id) {
                outbox.send(Message::Warning(error.to_string()));
            }
        });
        Ok(())
    }

    fn mode(&mut self) -> Mode {
        self.config.mode
    }

    fn set_mode(&mut self, mode: Mode) -> Answer<()> {
        set_mode(&self.places.config_dir, mode).map_err(ControlError::failed)?;
        Control::reload(self)
    }

    fn reload(&mut self) -> Answer<()> {
        self.read_config_again().map_err(ControlError::Refused)
    }
}

impl Service<'_> {
    /// Tells everybody who listens on the bus of a launch.
    pub(in crate::service) fn emit(&self, signal: LaunchSignal) {
        if let Some(bus) = &self.bus {
            bus.emit(signal);
        }
    }

    /// Has the worker answer a call that needs the history, `None` if there is none. If the worker has
    /// ended, `reply` is dropped.
    fn with_history<T: 'static>(
        &self,
        reply: Reply<T>,
        answer: impl FnOnce(Option<&History>) -> Result<T, HistoryError> + Send + 'static,
    ) {
        self.worker.run(move |records| {
            reply(answer(records.history()).map_err(ControlError::failed));
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
