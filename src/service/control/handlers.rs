//! The calls on the running service, on the thread of its event loop.

use std::collections::HashMap;
use std::sync::Arc;

use super::apps::{add_times, find, id_of, logins_are_off, manage, new_record, states};
use super::{
    Answer, AppState, AskedPhase, ControlCall, ControlError, LaunchRecord, ProfileData, Reply,
    ShieldSummary, Status,
};
use crate::apps::desktop;
use crate::model::UserApp;
use crate::policy::likely::Worth;
use crate::policy::{Phase, PhaseRequest};
use crate::profile::{decode, encode};
use crate::service::config::{Mode, set_mode};
use crate::service::event_loop::Service;
use crate::service::history::History;
use crate::service::message::{AskedFor, Message};
use crate::service::own_profile::hide_names;
use crate::service::registry::{Record, Registry};

/// The answer to a call when too many others wait.
const BUSY: &str = "the service is busy with other calls, or waits for a drive that does not answer: try again later";

/// What prefetching saves at each cold launch of the apps of which that is known, in microseconds.
fn saved_each(registry: &Registry) -> HashMap<UserApp, i64> {
    let records = registry.records.values();
    let known = records.filter_map(|record| {
        let saved_us = record.managed.typical_times().saved_us()?;
        Some((record.key.clone(), saved_us))
    });
    known.collect()
}

/// What it has saved in so many prefetched cold launches of each app, in microseconds.
fn saved_in(launches: &[(UserApp, u64)], each_us: &HashMap<UserApp, i64>) -> i64 {
    launches.iter().fold(0, |total_us, (app, launches)| {
        let launches = i64::try_from(*launches).unwrap_or(i64::MAX);
        let saved_us = each_us.get(app).map_or(0, |us| us.saturating_mul(launches));
        total_us.saturating_add(saved_us)
    })
}

impl Service {
    /// Answers a call, or has the worker answer it.
    pub(in crate::service) fn on_call(&mut self, call: ControlCall) {
        match call {
            ControlCall::Status(user, reply) => self.status(user, reply),
            ControlCall::Apps(user, app, reply) => self.apps(user, app.as_deref(), reply),
            ControlCall::Launches(user, app, limit, reply) => {
                self.launches(user, app.as_deref(), limit, reply)
            }
            ControlCall::Profile {
                user,
                is_administrator,
                app,
                reply,
            } => self.profile(user, is_administrator, &app, reply),
            ControlCall::Ask(asked, reply) => self.ask(asked, reply),
            ControlCall::Forget(user, app, reply) => reply.give(self.forget(user, &app)),
            ControlCall::Mode(reply) => reply.give(Ok(self.parts.config().mode)),
            ControlCall::SetMode(mode, reply) => reply.give(self.set_mode(mode)),
            ControlCall::Reload(reply) => reply.give(self.reload()),
        }
    }

    fn status(&mut self, user: Option<u32>, reply: Reply<Status>) {
        let status = self.status_of(user);
        let gains = saved_each(&self.parts.apps().registry);
        self.with_history(reply, move |history| {
            let launches = history.map(|history| history.prefetched_cold(user));
            let launches = launches.transpose().map_err(ControlError::failed)?;
            let anticipated = history.map(|history| history.anticipated(user, None));
            let anticipated = anticipated.transpose().map_err(ControlError::failed)?;
            let (anticipated, anticipated_saved_us) = anticipated.unwrap_or_default();
            Ok(Status {
                saved_us: saved_in(&launches.unwrap_or_default(), &gains),
                anticipated,
                anticipated_saved_us,
                ..status
            })
        });
    }

    fn apps(&mut self, user: Option<u32>, app: Option<&str>, reply: Reply<Vec<AppState>>) {
        let managed = self.parts.apps();
        let reads_logins = self.parts.config().warm_up.reads_logins();
        let apps = states(&managed.registry, user, app, |key| managed.profile(key));
        let apps = apps.map(|mut apps| {
            if !reads_logins {
                logins_are_off(&mut apps);
            }
            apps
        });
        match apps {
            Ok(apps) => self.with_history(reply, move |history| match history {
                Some(history) => add_times(apps, history),
                None => Ok(apps),
            }),
            Err(error) => reply.give(Err(error)),
        }
    }

    fn launches(
        &mut self,
        user: Option<u32>,
        app: Option<&str>,
        limit: u32,
        reply: Reply<Vec<LaunchRecord>>,
    ) {
        let id = match id_of(&self.parts.apps().registry, user, app) {
            Ok(id) => id,
            Err(error) => return reply.give(Err(error)),
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

    fn profile(
        &mut self,
        user: Option<u32>,
        is_administrator: bool,
        app: &str,
        reply: Reply<ProfileData>,
    ) {
        let managed = self.parts.apps();
        let found = match find(&managed.registry, user, app) {
            Ok(found) => found,
            Err(error) => return reply.give(Err(error)),
        };
        let packed = found.into_iter().find_map(|key| {
            let packed = Arc::clone(&managed.profiles.get(&key)?.packed);
            Some((key, packed))
        });
        let Some((key, packed)) = packed else {
            let why = format!("there is no profile of {app} yet: launch it once or twice");
            return reply.give(Err(ControlError::Unknown(why)));
        };
        if let Err(busy) = self.check_worker() {
            return reply.give(Err(busy));
        }
        // Directories are looked at.
        self.parts.jobs().run(move || {
            reply.give(profile_data(key, &packed, is_administrator).map_err(ControlError::Failed));
        });
    }

    fn ask(&mut self, asked: AskedPhase, reply: Reply<String>) {
        match find(&self.parts.apps().registry, asked.user, &asked.app) {
            Ok(found) => reply.give(self.ask_about(&asked, found, None)),
            Err(ControlError::Unknown(_)) if self.parts.jobs().are_many() => {
                reply.give(Err(ControlError::Failed(BUSY.to_owned())));
            }
            Err(ControlError::Unknown(_)) => {
                // To find the app, files are opened.
                let rules = self.parts.rules().clone();
                let outbox = self.parts.outbox().clone();
                self.parts.jobs().run(move || {
                    let asks = asked.user.filter(|_| !asked.is_administrator);
                    let new = new_record(&asked.app, &rules, asks);
                    outbox.send(Message::AskedFor(Box::new(AskedFor { new, asked, reply })));
                });
            }
            Err(error) => reply.give(Err(error)),
        }
    }

    fn forget(&mut self, user: Option<u32>, app: &str) -> Answer<()> {
        self.check_worker()?;
        let apps = find(&self.parts.apps().registry, user, app)?;
        self.launches.forget(&apps);
        self.parts.forget(&apps);
        Ok(())
    }

    fn set_mode(&mut self, mode: Mode) -> Answer<()> {
        set_mode(self.parts.config_dir(), mode).map_err(ControlError::failed)?;
        self.reload()
    }

    fn reload(&mut self) -> Answer<()> {
        self.parts
            .read_config_again()
            .map_err(ControlError::Refused)
    }

    /// The state of the service, with the numbers of this user's apps or of all. The history is left out.
    fn status_of(&self, user: Option<u32>) -> Status {
        let is_theirs = |uid: u32| user.is_none_or(|user| user == uid);
        let (mut managed, mut learning, mut disabled) = (0, 0, 0);
        let mut read_before = Worth::default();
        let records = self.parts.apps().registry.records.values();
        for record in records.filter(|record| is_theirs(record.key.uid)) {
            let phase = record.managed.phase();
            managed += 1;
            read_before = record
                .read_before
                .worth()
                .with(read_before.used_bytes, read_before.wasted_bytes);
            learning += u64::from(matches!(phase, Phase::Learning { .. }));
            disabled += u64::from(matches!(phase, Phase::Disabled { .. }));
        }
        let (mut with_profile, mut profiles_bytes) = (0, 0);
        for (_, profile) in self
            .parts
            .apps()
            .profiles
            .iter()
            .filter(|(key, _)| is_theirs(key.uid))
        {
            with_profile += 1;
            profiles_bytes += profile.packed.len() as u64;
        }
        let diagnostics = self.parts.diagnostics();
        let seen = diagnostics.launches_seen.iter();
        let warnings = match user {
            None => diagnostics.warnings(),
            Some(_) => Vec::new(),
        };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.parts.config().mode.to_string(),
            managed,
            with_profile,
            learning,
            disabled,
            resident_bytes: resident_bytes(),
            profiles_bytes,
            launches_seen: seen
                .filter(|(uid, _)| is_theirs(**uid))
                .map(|(_, seen)| seen)
                .sum(),
            read_before_used_bytes: read_before.used_bytes,
            read_before_unused_bytes: read_before.wasted_bytes,
            lost_events: self.parts.lost_events(),
            excess_execs: self.parts.excess_execs(),
            since_s: diagnostics.since_s,
            shield: ShieldSummary::new(self.parts.shield_status(), user),
            abilities: diagnostics.abilities.clone(),
            warnings,
            ..Status::default()
        }
    }

    /// Answers a call that asks for an app which had to be looked for.
    pub(in crate::service) fn answer(&mut self, AskedFor { new, asked, reply }: AskedFor) {
        reply.give(new.and_then(|new| self.ask_about(&asked, Vec::new(), Some(new))));
    }

    /// Learns, prefetches or disables the apps of a name: those `found`, or a `new` one. Returns its id.
    fn ask_about(
        &mut self,
        asked: &AskedPhase,
        found: Vec<UserApp>,
        new: Option<Record>,
    ) -> Answer<String> {
        let (user, is_administrator) = (asked.user, asked.is_administrator);
        let is_full = user.is_some_and(|uid| self.parts.is_full(uid));
        if new.is_some() && is_full && !is_administrator {
            let why = "as many apps are managed as may be (automatic.max_apps): `paralfetch forget` one, or have \
                       the administrator enable this one";
            return Err(ControlError::Refused(why.to_owned()));
        }
        let is_starter = |key: &UserApp| self.parts.is_starter(&key.id);
        if asked.request != PhaseRequest::Disable
            && let Some(key) = found.iter().find(|key| is_starter(key))
        {
            let why = format!("{}: {}", key.id, desktop::STARTS_OTHERS);
            return Err(ControlError::Refused(why));
        }
        let registry = self.parts.registry_mut();
        let apps = manage(registry, user, is_administrator, found, new);
        self.parts.set_phase(&apps, asked.request);
        Ok(apps[0].id.clone())
    }

    /// Whether the worker can be given what a call asks for.
    fn check_worker(&self) -> Answer<()> {
        match self.parts.jobs().are_many() {
            true => Err(ControlError::Failed(BUSY.to_owned())),
            false => Ok(()),
        }
    }

    /// Has the worker answer a call that needs the history, `None` if there is none, whatever its other jobs wait for. If the
    /// worker has ended, `reply` is dropped.
    fn with_history<T: Send + 'static>(
        &self,
        reply: Reply<T>,
        answer: impl FnOnce(Option<&History>) -> Answer<T> + Send + 'static,
    ) {
        if self.parts.jobs().are_many_on_written() {
            return reply.give(Err(ControlError::Failed(BUSY.to_owned())));
        }
        self.parts.jobs().run_on_written(move |records| {
            reply.give(answer(records.history()));
        });
    }
}

/// A packed profile for its user, or for the administrator.
fn profile_data(
    key: UserApp,
    packed: &[u8],
    is_administrator: bool,
) -> Result<ProfileData, String> {
    let mut profile = decode(packed).map_err(|error| error.to_string())?;
    if !is_administrator {
        hide_names(&mut profile, key.uid)?;
    }
    let pf = encode(&profile).map_err(|error| error.to_string())?;
    Ok(ProfileData::new(key, &profile, pf))
}

/// Resident memory of this process in bytes; 0 if /proc does not tell.
fn resident_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_that_of_each_apps_launches_and_may_be_a_loss() {
        let app = |name: &str| UserApp::new(1000, name);
        let each_us = HashMap::from([(app("/a"), 300), (app("/b"), -50), (app("/c"), i64::MAX)]);
        let saved = |launches: &[(&str, u64)]| {
            let launches = launches.iter().map(|&(name, count)| (app(name), count));
            saved_in(&launches.collect::<Vec<_>>(), &each_us)
        };
        assert_eq!(saved(&[("/a", 3), ("/b", 2), ("/unknown", 9)]), 800);
        assert_eq!(saved(&[("/b", 1)]), -50);
        assert_eq!(saved(&[("/c", u64::MAX), ("/a", 1)]), i64::MAX);
        assert_eq!(saved_in(&[(UserApp::new(0, "/a"), 1)], &each_us), 0);
    }
}
