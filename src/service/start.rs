//! Starting the service.

use std::io;

use super::Places;
use super::announce::Announcements;
use super::catalogue::Catalogue;
use super::config::Config;
use super::control::ControlCall;
use super::control::bus::{Address, serve};
use super::diagnostics::Diagnostics;
use super::event_loop::Service;
use super::exec_gate::MarkedExecutables;
use super::heap::release_heap;
use super::mailbox::mailbox;
use super::managed_apps::ManagedApps;
use super::message::Message;
use super::mlock::lock_code;
use super::notify::{NotifyState, notify};
use super::packages::Packages;
use super::parts::Parts;
use super::priority::raise;
use super::records::Records;
use super::registry::Registry;
use super::roots::Roots;
use super::watchlist::Watchlist;
use super::worker::Worker;
use crate::apps::Rules;
use crate::drive::restore_leftovers;
use crate::fs::handle::check_paths;
use crate::kernel::{ExecGate, TraceError, Watch, WatchOptions};
use crate::prefetch::raise_open_files;
use crate::process::signals::Inherited;
use crate::profile::Store;

/// The service cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The kernel's events cannot be received.
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
/// Why it cannot start, or go on.
pub fn run(places: &Places, bus: Option<Address>) -> Result<(), ServiceError> {
    // Before any thread is started: all of them inherit the mask.
    let (inherited, signals) = Inherited::replace(&SIGNALS)?;
    raise_open_files();
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
    let (registry, warning) = Registry::load(&places.state_dir)?;
    warnings.extend(warning);
    let (records, warning) = Records::open(&places.state_dir, &config.history);
    warnings.extend(warning);
    let worker = Worker::start(records)?;
    let (outbox, inbox) = mailbox()?;

    let options = WatchOptions {
        early: config.watch.early,
    };
    let watch = Watch::attach(options)?;
    if let Err(why) = watch.recorders() {
        warnings.push(format!("nothing can be learned: {why}"));
    }
    let gate = ExecGate::new()
        .inspect_err(|error| warnings.push(format!("launches are learned a little late: {error}")))
        .ok();
    if let Err(error) = check_paths() {
        warnings.push(format!(
            "files that are replaced will not be found again by their paths: openat2(2) is refused \
             ({error})"
        ));
    }
    let (rules, refused) = Rules::load(&places.config_dir.join("launchers.d"));
    warnings.extend(refused);
    let watchlist = Watchlist::new(Catalogue::new(rules, Roots::of_system()?));
    let (apps, unusable) = ManagedApps::load(
        registry,
        watchlist.catalogue().rules(),
        store,
        places.state_dir.clone(),
        worker.jobs(),
        outbox.clone(),
    )?;
    warnings.extend(unusable);
    let (announcements, cannot) = Announcements::open(&places.run_dir);
    warnings.extend(cannot);
    let bus = bus.and_then(|address| {
        let outbox = outbox.clone();
        let post = move |call: ControlCall| {
            outbox.send(Message::Control(Box::new(move |service| call(service))))
        };
        serve(Box::new(post), &address)
            .inspect_err(|error| warnings.push(format!("there is no bus: {error}")))
            .ok()
    });
    let packages = Packages::watch()
        .inspect_err(|error| {
            warnings.push(format!("updates of packages are not heard of: {error}"));
        })
        .ok();
    let mut diagnostics = Diagnostics::new(abilities(&watch, gate.is_some()));
    for warning in warnings {
        diagnostics.warn(warning);
    }
    let gate = MarkedExecutables::new(gate);
    let mut parts = Parts::new(
        places.clone(),
        config,
        watch,
        gate,
        apps,
        watchlist,
        diagnostics,
        bus,
        worker,
        outbox,
    );
    parts.watch_for_launches();
    parts.find_candidates();
    release_heap();
    let mut service = Service::new(parts, inbox, announcements, packages, signals);
    notify(NotifyState::Ready);
    let apps = service.parts().apps();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        apps = apps.registry().iter().len(),
        profiles = apps.profiles().count(),
        "ready"
    );
    if let Err(error) = lock_code() {
        let warning = format!("its own code may be read from the drive again: {error}");
        service.parts_mut().warn(warning);
    }
    // The threads that stay have been started, at the ordinary priority.
    if let Err(error) = raise() {
        let warning = format!("launches are seen a little late: {error} (CAP_SYS_NICE)");
        service.parts_mut().warn(warning);
    }
    let ended = service.run();
    notify(NotifyState::Stopping);
    service.stop();
    inherited.restore()?;
    Ok(ended?)
}

fn abilities(watch: &Watch, gate: bool) -> Vec<String> {
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
