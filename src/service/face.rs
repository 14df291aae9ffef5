//! The service as the bus sees it: questions go to the event loop or the worker, and wait for the answer.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::core::Service;
use super::deciding::off_words;
use super::message::{Ask, Message, Reply};
use super::preparing::PATH;
use super::wake::Outbox;
use super::worker::Jobs;
use crate::apps::desktop;
use crate::policy::{GainVerdict, Observation, Phase, PhaseRequest, Plan, Warmth};
use crate::service::bus::{AppState, Backend, BackendError, Event, LaunchRecord, Mode, Status};
use crate::service::config::{self, set_mode};
use crate::service::history::{HistorySummary, Launch};
use crate::service::registry::{Added, Record};

/// How long an answer may take. The event loop answers in well under a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bus's way in. The loop's end and the worker's may be used by one thread at a time.
pub struct Face {
    outbox: Mutex<Outbox<Message>>,
    jobs: Mutex<Jobs>,
}

impl Face {
    /// A way in.
    pub fn new(outbox: Outbox<Message>, jobs: Jobs) -> Self {
        Face {
            outbox: Mutex::new(outbox),
            jobs: Mutex::new(jobs),
        }
    }

    fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, BackendError> {
        let (reply, answer) = sync_channel(1);
        let outbox = self.outbox.lock().map_err(stopping)?.clone();
        if !outbox.send(Message::Ask(ask(reply))) {
            return Err(stopping(()));
        }
        answer.recv_timeout(PATIENCE).map_err(no_answer)
    }

    /// Asks the history; `None` if there is none.
    fn history<T: Send + 'static>(
        &self,
        ask: impl FnOnce(
            &crate::service::history::History,
        ) -> Result<T, crate::service::history::HistoryError>
        + Send
        + 'static,
    ) -> Result<Option<T>, BackendError> {
        let (reply, answer) = sync_channel(1);
        let jobs = self.jobs.lock().map_err(stopping)?.clone();
        let sent = jobs.run(move |records| {
            let answer = records.history().map(ask).transpose();
            // The one who asked may have given up.
            let _ = reply.send(answer);
        });
        if !sent {
            return Err(stopping(()));
        }
        let found = answer.recv_timeout(PATIENCE).map_err(no_answer)?;
        found.map_err(|error| BackendError::Failed(error.to_string()))
    }
}

fn stopping<T>(_: T) -> BackendError {
    BackendError::Failed("the service is stopping".to_owned())
}

fn no_answer(error: RecvTimeoutError) -> BackendError {
    match error {
        RecvTimeoutError::Timeout => BackendError::Failed(format!(
            "the service has not answered within {} s",
            PATIENCE.as_secs()
        )),
        RecvTimeoutError::Disconnected => stopping(()),
    }
}

impl Backend for Face {
    fn status(&self) -> Result<Status, BackendError> {
        self.ask(Ask::Status)
    }

    fn apps(&self) -> Result<Vec<AppState>, BackendError> {
        let mut apps = self.ask(Ask::Apps)?;
        let summaries = self.history(|history| history.summaries())?;
        for summary in summaries.unwrap_or_default() {
            let app = apps.iter_mut().find(|state| state.app == summary.app);
            if let Some(app) = app {
                add_times(app, &summary);
            }
        }
        Ok(apps)
    }

    fn app(&self, app: &str) -> Result<AppState, BackendError> {
        let apps = self.apps()?;
        pick(apps, app)
    }

    fn launches(&self, app: Option<&str>, limit: u32) -> Result<Vec<LaunchRecord>, BackendError> {
        let id = match app {
            Some(app) => Some(pick(self.ask(Ask::Apps)?, app)?.app),
            None => None,
        };
        let found = self.history(move |history| history.launches(id.as_deref(), limit as usize))?;
        Ok(found.unwrap_or_default().iter().map(record_of).collect())
    }

    fn ask(&self, app: &str, request: PhaseRequest) -> Result<String, BackendError> {
        self.ask(|reply| Ask::App(app.to_owned(), request, reply))?
    }

    fn forget(&self, app: &str) -> Result<(), BackendError> {
        self.ask(|reply| Ask::Forget(app.to_owned(), reply))?
    }

    fn mode(&self) -> Result<Mode, BackendError> {
        self.ask(Ask::Mode)
    }

    fn set_mode(&self, mode: Mode) -> Result<(), BackendError> {
        self.ask(|reply| Ask::SetMode(mode, reply))?
    }

    fn reload(&self) -> Result<(), BackendError> {
        self.ask(Ask::Reload)?
    }
}

/// The app that is meant: by its id, the last component of its path, or its title.
pub(super) fn pick(apps: Vec<AppState>, name: &str) -> Result<AppState, BackendError> {
    let base = |app: &AppState| app.app.rsplit('/').next() == Some(name);
    let titled = |app: &AppState| app.name.eq_ignore_ascii_case(name);
    let is_id = |app: &AppState| app.app == name;
    let ways: [&dyn Fn(&AppState) -> bool; 3] = [&is_id, &base, &titled];
    for fits in ways {
        let mut found: Vec<&AppState> = apps.iter().filter(|app| fits(app)).collect();
        match found.len() {
            0 => {}
            1 => return Ok(found.remove(0).clone()),
            _ => {
                let ids: Vec<&str> = found.iter().map(|app| app.app.as_str()).collect();
                return Err(BackendError::Refused(format!(
                    "{name} may be any of {}; give the whole path",
                    ids.join(", ")
                )));
            }
        }
    }
    Err(BackendError::Unknown(format!(
        "{name} is not managed (`paralfetch list` shows what is, `paralfetch enable` adds to it)"
    )))
}

/// Figures of the history.
pub(super) fn add_times(app: &mut AppState, summary: &HistorySummary) {
    let waiting = |typical: &Option<crate::service::history::Typical>| {
        typical.as_ref().map_or(0, |typical| typical.waiting_us)
    };
    app.cold_with_us = waiting(&summary.with);
    app.cold_without_us = waiting(&summary.without);
    app.duration_us = summary
        .with
        .as_ref()
        .or(summary.without.as_ref())
        .map_or(0, |typical| typical.duration_us);
    if let Some(gain) = summary.waiting_gain {
        app.gain_percent = (gain * 100.0).round() as i32;
    }
}

/// A line of the history as it travels over the bus.
pub(super) fn record_of(launch: &Launch) -> LaunchRecord {
    LaunchRecord {
        time_s: launch.time_s,
        app: launch.app.clone(),
        kind: launch.kind.to_string(),
        warmth: match launch.warmth {
            Some(Warmth::Cold) => "cold",
            Some(Warmth::Partly) => "partly",
            Some(Warmth::Warm) => "warm",
            None => "",
        }
        .to_owned(),
        duration_us: Some(launch.duration_us),
        waiting_us: Some(launch.waiting_us),
        read_bytes: Some(launch.read_bytes),
        own_readaheads: Some(launch.own_readaheads),
        switches: launch.switches,
        entries: launch.entries,
        until_first_us: launch.until_first_us,
        note: launch.note.clone().unwrap_or_default(),
    }
}

/// What the bus tells of a launch that began.
pub(super) fn begun(app: &str, pid: u32, plan: Plan) -> Event {
    Event::Begun {
        app: app.to_owned(),
        pid,
        plan,
    }
}

/// A managed app, as far as the registry knows it.
pub(super) fn state_of(record: &Record) -> AppState {
    let (phase, why) = match record.managed.phase() {
        Phase::Learning { .. } => ("learning", String::new()),
        Phase::Prefetching => ("prefetching", String::new()),
        Phase::Disabled { off, .. } => ("disabled", off_words(off)),
    };
    let gain = match record.managed.verdict() {
        GainVerdict::Helps {
            with_us,
            without_us,
        }
        | GainVerdict::DoesNotHelp {
            with_us,
            without_us,
        } if without_us > 0 => (100 - with_us as i128 * 100 / i128::from(without_us)) as i32,
        _ => AppState::GAIN_UNKNOWN,
    };
    AppState {
        app: record.id.clone(),
        name: record.title.clone(),
        phase: phase.to_owned(),
        why,
        added_by: record.added.word().to_owned(),
        launches: record.launches,
        last_s: record.last_s.last().copied().unwrap_or(0),
        prefetched: record.prefetched,
        gain_percent: gain,
        ..AppState::default()
    }
}

impl Service<'_> {
    pub(super) fn on_ask(&mut self, ask: Ask) {
        // Whoever asked may have given up.
        match ask {
            Ask::Status(reply) => drop(reply.send(self.status())),
            Ask::Apps(reply) => drop(reply.send(self.apps())),
            Ask::App(app, request, reply) => drop(reply.send(self.ask_app(&app, request))),
            Ask::Forget(app, reply) => drop(reply.send(self.forget(&app))),
            Ask::Mode(reply) => drop(reply.send(mode_of(self.config.mode))),
            Ask::SetMode(mode, reply) => drop(reply.send(self.change_mode(mode))),
            Ask::Reload(reply) => drop(reply.send(self.reload().map_err(BackendError::Refused))),
        }
    }

    fn status(&self) -> Status {
        let phases = self.registry.iter().map(|record| record.managed.phase());
        let (mut learning, mut disabled) = (0, 0);
        for phase in phases {
            learning += u64::from(matches!(phase, Phase::Learning { .. }));
            disabled += u64::from(matches!(phase, Phase::Disabled { .. }));
        }
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode_of(self.config.mode).to_string(),
            managed: self.registry.len() as u64,
            with_profile: self.ready.len() as u64,
            learning,
            disabled,
            resident_bytes: resident_bytes(),
            profiles_bytes: self
                .ready
                .values()
                .map(|ready| ready.packed.len() as u64)
                .sum(),
            launches_seen: self.state.launches_seen,
            lost_events: self.watch.lost(),
            since_s: self.state.since_s,
            abilities: self.state.abilities.clone(),
            warnings: self.state.warnings.clone(),
        }
    }

    fn apps(&self) -> Vec<AppState> {
        let state = |record: &Record| {
            let mut state = state_of(record);
            if let Some(ready) = self.ready.get(&record.id) {
                state.profile_bytes = ready.packed.len() as u64;
                state.entries = ready.entries;
            }
            state
        };
        self.registry.iter().map(state).collect()
    }

    fn ask_app(&mut self, app: &str, request: PhaseRequest) -> Result<String, BackendError> {
        let id = match pick(self.apps(), app) {
            Ok(known) => known.app,
            Err(BackendError::Unknown(_)) => {
                let record = find_record(app, self.catalogue.rules())?;
                let id = record.id.clone();
                self.registry.insert(record);
                id
            }
            Err(error) => return Err(error),
        };
        self.decide(&id, &Observation::Asked(request));
        let record = self.registry.get(&id);
        let is_wanted = record.is_some_and(|record| record.managed.phase() == Phase::Prefetching);
        if is_wanted && !self.ready.contains_key(&id) {
            // It was dropped when the app was switched off.
            self.load_again();
        }
        self.watch_for_launches();
        self.save();
        Ok(id)
    }

    fn forget(&mut self, app: &str) -> Result<(), BackendError> {
        let id = pick(self.apps(), app)?.app;
        let profile = self.ready.remove(&id).map(|ready| ready.app);
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

    fn change_mode(&mut self, mode: Mode) -> Result<(), BackendError> {
        set_mode(&self.places.config_dir, config_mode(mode))
            .map_err(|error| BackendError::Failed(error.to_string()))?;
        self.reload().map_err(BackendError::Refused)
    }
}

/// The app that a user names, not managed so far.
pub(super) fn find_record(app: &str, rules: &crate::apps::Rules) -> Result<Record, BackendError> {
    use std::ffi::OsStr;
    let path = OsStr::new(PATH);
    let entries = desktop::entries(&desktop::system_directories(), rules, path);
    let found = desktop::find_app(OsStr::new(app), &entries, rules, path)
        .map_err(|error| BackendError::Unknown(error.to_string()))?;
    let id = found
        .identity
        .key
        .as_os_str()
        .to_str()
        .ok_or_else(|| BackendError::Refused(format!("{app}: its path is no text")))?;
    let marks = super::catalogue::marks(&found.identity.key, &found.identity.program, &found.names);
    Ok(Record::new(
        id.to_owned(),
        found.name.clone(),
        Added::User,
        marks,
    ))
}

pub(super) fn mode_of(mode: config::Mode) -> Mode {
    match mode {
        config::Mode::Manual => Mode::Manual,
        config::Mode::Automatic => Mode::Automatic,
    }
}

pub(super) fn config_mode(mode: Mode) -> config::Mode {
    match mode {
        Mode::Manual => config::Mode::Manual,
        Mode::Automatic => config::Mode::Automatic,
    }
}

/// Resident memory of this process, in bytes; 0 if /proc does not tell.
fn resident_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * rustix::param::page_size() as u64)
}
