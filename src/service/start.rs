//! Starting and stopping.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use super::catalogue::{Catalogue, Home};
use super::core::{Service, ServiceState};
use super::learners::Learners;
use super::notify::Notifier;
use super::packages::Packages;
use super::priority::raise;
use super::records::Records;
use super::reschedule::now_s;
use super::resident::keep_code;
use super::trim::give_back;
use super::waits::Waits;
use super::wake::mailbox;
use super::worker::Worker;
use super::{Places, daily};
use crate::apps::Rules;
use crate::drive::restore_leftovers;
use crate::fs::handle::check_paths;
use crate::fs::mounts::MountTable;
use crate::kernel::ExecGate;
use crate::kernel::{Storage, TraceError};
use crate::kernel::{Watch, WatchOptions};
use crate::policy::{Managed, Observation};
use crate::prefetch::raise_open_files;
use crate::process::signals::{self, Inherited};
use crate::profile::{Store, full_path};
use crate::service::announce;
use crate::service::cached_profile::CachedProfile;
use crate::service::config::Config;
use crate::service::control::ControlCall;
use crate::service::control::bus::{Address, serve};
use crate::service::exec_gate::Holding;
use crate::service::message::Message;
use crate::service::pending_execs::PendingExecs;
use crate::service::registry::{Added, Marks, Record, Registry};

/// The service cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The kernel's events cannot be had.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] crate::service::config::ConfigError),
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] crate::profile::StoreError),
    /// The registry cannot be read.
    #[error(transparent)]
    Registry(#[from] crate::service::registry::RegistryError),
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Signals that the service understands.
const SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Runs the service until a signal asks it to end.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub fn run(places: &Places, bus: Option<Address>) -> Result<(), ServiceError> {
    // Before any thread is started: all of them inherit the mask.
    let signals = signals::signal_fd(&SIGNALS)?;
    let inherited = Inherited::replace(&SIGNALS)?;
    raise_open_files();
    let notifier = Notifier::from_environment()?;
    let mut warnings = Vec::new();
    // What a killed learning run left changed.
    if let Err(error) = restore_leftovers(&places.run_dir) {
        warnings.push(error.to_string());
    }
    let config = Config::load(&places.config_dir)?;
    let store = Store::create(&places.state_dir)?;
    if let Err(error) = store.remove_leftovers() {
        // A read-only file system, say: it is only untidy.
        warnings.push(error.to_string());
    }
    let (mut registry, warning) = Registry::load(&places.state_dir)?;
    warnings.extend(warning);
    let (records, warning) = Records::open(&places.state_dir, &config.history);
    warnings.extend(warning);
    let worker = Worker::start(records)?;
    let (outbox, inbox) = mailbox()?;

    let mut storage = Storage::new();
    let options = WatchOptions {
        early: config.watch.early,
    };
    let watch = Watch::attach(&mut storage, options)?;
    let gate = ExecGate::new()
        .inspect_err(|error| warnings.push(format!("launches are learned a little late: {error}")))
        .ok();
    if let Err(error) = check_paths() {
        warnings.push(format!(
            "files that are replaced will not be found again by their paths: openat2(2) is refused \
             ({error})"
        ));
    }
    let loaded = Rules::load(&places.config_dir.join("launchers.d"));
    warnings.extend(loaded.refused.iter().map(ToString::to_string));
    let catalogue = Catalogue::new(loaded.rules, Home::look()?);
    let (ready, unusable) = read_profiles(&store)?;
    warnings.extend(unusable);
    for (id, ready) in &ready {
        manage(&mut registry, id, ready);
    }
    learn_what_is_lost(&mut registry, &ready);
    let (socket, file) = announcements(&places.run_dir, &mut warnings);

    let bus = bus.and_then(|address| {
        let outbox = outbox.clone();
        let post = move |call: ControlCall| {
            outbox.send(Message::Control(Box::new(move |service| call(service))))
        };
        serve(Box::new(post), address)
            .inspect_err(|error| warnings.push(format!("there is no bus: {error}")))
            .ok()
    });
    let packages = Packages::watch()
        .inspect_err(|error| {
            warnings.push(format!("updates of packages are not heard of: {error}"));
        })
        .ok();
    let abilities = abilities(&watch, gate.is_some());
    let mut service = Service {
        places: places.clone(),
        config,
        watch,
        registry,
        store,
        catalogue,
        ready,
        active: HashMap::new(),
        holding: Holding::new(gate),
        learners: Learners::default(),
        socket,
        file,
        bus,
        worker,
        inbox,
        outbox,
        packages,
        signals,
        state: ServiceState {
            since_s: now_s(),
            launches_seen: 0,
            abilities,
            warnings: Vec::new(),
            calls: PendingExecs::default(),
            large: HashMap::new(),
            daily: Instant::now() + daily::INTERVAL,
            alive: notifier
                .interval()
                .map(|interval| Instant::now() + interval),
            random: now_s() ^ u64::from(std::process::id()) << 32 | 1,
            waits: Waits::Off,
            can_learn: true,
        },
        notifier,
    };
    for warning in warnings {
        service.warn(warning);
    }
    service.watch_for_launches();
    service.find_candidates();
    give_back();
    service.notifier.say("READY=1");
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        apps = service.registry.len(),
        profiles = service.ready.len(),
        "ready"
    );
    if let Err(error) = keep_code() {
        service.warn(format!(
            "its own code may be read from the drive again: {error}"
        ));
    }
    // All threads that last are there by now.
    if let Err(error) = raise() {
        service.warn(format!(
            "launches are seen a little late: {error} (CAP_SYS_NICE)"
        ));
    }
    let ended = service.run();
    service.notifier.say("STOPPING=1");
    service.stop();
    inherited.restore()?;
    Ok(ended?)
}

impl Service<'_> {
    /// Writes what is known, and lets go of everything: programs that wait at their execve go on.
    fn stop(mut self) {
        self.holding.end();
        let launches: Vec<u64> = self.active.keys().copied().collect();
        for launch in launches {
            self.cancel(launch);
        }
        self.save();
        // Signals that are queued are still sent.
        self.bus = None;
        self.worker.finish();
    }
}

/// Makes all profiles ready, by app; and says which cannot be used.
pub(super) fn read_profiles(
    store: &Store,
) -> Result<(HashMap<String, CachedProfile>, Vec<String>), ServiceError> {
    let mounts = MountTable::read()?;
    let (mut ready, mut warnings) = (HashMap::new(), Vec::new());
    for stored in store.list()? {
        let made = stored
            .profile
            .map_err(|error| error.to_string())
            .and_then(|profile| {
                CachedProfile::new(&profile, &mounts).map_err(|error| error.to_string())
            });
        match made {
            Ok(made) => match String::from_utf8(full_path(&made.app)) {
                Ok(id) => drop(ready.insert(id, made)),
                Err(_) => warnings.push(format!(
                    "{}: the path of its app is no text, and it is left alone",
                    stored.file_name.display()
                )),
            },
            Err(why) => warnings.push(why),
        }
    }
    Ok((ready, warnings))
}

/// An app that the user has learned by hand is managed from then on.
pub(super) fn manage(registry: &mut Registry, id: &str, ready: &CachedProfile) {
    if registry.get(id).is_some() {
        return;
    }
    let name = id.rsplit('/').next().unwrap_or(id).to_owned();
    let marks = Marks {
        names: vec![name.clone()],
        argument: None,
    };
    let mut record = Record::new(id.to_owned(), name, Added::User, marks);
    record.managed = Managed::with_profile(ready.class, &ready.history);
    registry.insert(record);
}

/// Apps whose profiles are gone or cannot be used are learned again.
fn learn_what_is_lost(registry: &mut Registry, ready: &HashMap<String, CachedProfile>) {
    let lost: Vec<String> = registry
        .iter()
        .filter(|record| record.managed.tuning().is_some() && !ready.contains_key(&record.id))
        .map(|record| record.id.clone())
        .collect();
    for id in lost {
        if let Some(record) = registry.get_mut(&id) {
            record.managed.next(now_s(), &Observation::NoProfile);
        }
    }
}

/// The ways to announce launches: handed over by systemd, or made.
fn announcements(
    dir: &Path,
    warnings: &mut Vec<String>,
) -> (Option<announce::Socket>, Option<announce::FetchAppFile>) {
    let passed = announce::passed().unwrap_or_else(|error| {
        warnings.push(error.to_string());
        Vec::new()
    });
    let inherited = passed.into_iter().next().map(|passed| passed.fd);
    let socket = match inherited {
        Some(fd) => announce::Socket::inherited(fd),
        None => announce::Socket::bind(dir),
    };
    let mut usable = |error: announce::AnnounceError| {
        warnings.push(format!("launches cannot be announced: {error}"));
    };
    let socket = socket.map_err(&mut usable).ok();
    let file = announce::FetchAppFile::make(dir).map_err(&mut usable).ok();
    (socket, file)
}

fn abilities(watch: &Watch<'_>, gate: bool) -> Vec<String> {
    let early = if watch.is_early() {
        "launches are seen when execve is called"
    } else {
        "launches are seen when execve has succeeded (tracefs is not mounted, or watch.early is off)"
    };
    let held = if gate {
        "launches that are to be learned wait until tracing is attached (fanotify)"
    } else {
        "launches are learned from a moment after their start (fanotify cannot be had)"
    };
    vec![early.to_owned(), held.to_owned()]
}
