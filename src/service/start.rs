//! Starting the service.

use std::error::Error;
use std::fmt::Display;

use thiserror::Error;

use super::Places;
use super::announce::Announcements;
use super::catalogue::Catalogue;
use super::config::Config;
use super::control::bus::{Address, serve};
use super::control::{ControlCall, ReportedApps};
use super::diagnostics::Diagnostics;
use super::drive_probes::DriveProbes;
use super::event_loop::Service;
use super::executables::ExecutableFinder;
use super::late_reads::LateReads;
use super::launch_threads::LaunchThreads;
use super::mailbox::{Outbox, mailbox};
use super::managed_apps::ManagedApps;
use super::message::Message;
use super::notify::{NotifyState, notify};
use super::own_process::{raise_priority, release_heap};
use super::packages::Packages;
use super::parts::{MOVED, Parts};
use super::prefetchers::Prefetchers;
use super::rate::Rate;
use super::recorders::Recorders;
use super::records::Records;
use super::registry::Registry;
use super::roots::Roots;
use super::seeds::SeedSearch;
use super::shield::LaunchShield;
use super::state_lock::StateLock;
use super::waits::WaitSwitch;
use super::warm_up::WarmUp;
use super::watchlist::Watchlist;
use super::worker::Worker;
use crate::apps::Rules;
use crate::drive::{ELEVATORS_DIR, Elevators, restore_leftovers};
use crate::fs::app_dirs::AppFileSystems;
use crate::fs::handle::check_paths;
use crate::fs::mounts::MountTable;
use crate::kernel::{Watch, WatchOptions};
use crate::learn::{FaultAroundKnob, keeper_command};
use crate::policy::TuningRules;
use crate::prefetch::raise_open_files;
use crate::process::signals::Inherited;
use crate::profile::Store;

/// Signals that the service understands.
const SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// What could not be had at the start, which the service does without.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    /// The value of a step that may fail. `lost` says what goes without it.
    fn keep<T, E: Display>(&mut self, lost: &str, result: Result<T, E>) -> Option<T> {
        result
            .inspect_err(|error| self.0.push(format!("{lost}: {error}")))
            .ok()
    }
}

/// This system lacks something that the service cannot do without: starting it again changes nothing.
#[derive(Debug, Error)]
#[error("the service cannot work here: {0}")]
pub struct CannotWorkHere(String);

/// Runs the service until a signal asks it to end.
///
/// # Errors
/// Why it cannot start, or go on; [`CannotWorkHere`] if that will not change.
pub fn run(places: &Places, bus: Option<Address>) -> Result<(), Box<dyn Error>> {
    // Before any thread is started: all of them inherit the mask.
    let (inherited, signals) = Inherited::replace(&SIGNALS)?;
    raise_open_files();
    let mut warnings = Warnings::default();
    let (outbox, inbox) = mailbox()?;
    let mut parts = assemble(places, outbox, &mut warnings)?;
    let (announcements, cannot) = Announcements::open(&places.run_dir);
    warnings.0.extend(cannot);
    if let Some(address) = bus {
        let outbox = parts.outbox.clone();
        let post = move |call: ControlCall| {
            outbox.send(Message::Control(Box::new(move |service| call(service))))
        };
        let served = serve(Box::new(post), &address);
        parts.bus = warnings.keep("there is no bus", served);
    }
    let packages = warnings.keep("updates of packages are not heard of", Packages::watch());
    parts.watch_for_launches();
    parts.find_candidates();
    parts.find_seeds(false);
    release_heap();
    // The threads that stay have been started, at the ordinary priority.
    warnings.keep(
        "launches are seen a little late (CAP_SYS_NICE)",
        raise_priority(),
    );
    // Whoever is told that the service is ready finds in the log what it does without.
    for warning in warnings.0 {
        parts.warn(warning);
    }
    notify(NotifyState::Ready);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        apps = parts.apps.registry.records.len(),
        profiles = parts.apps.profiles.len(),
        "ready"
    );
    let mut service = Service::new(parts, inbox, announcements, packages, signals);
    let ended = service.run();
    service.stop();
    inherited.restore()?;
    Ok(ended?)
}

/// Reads the service's files, and attaches to the kernel.
fn assemble(
    places: &Places,
    outbox: Outbox,
    warnings: &mut Warnings,
) -> Result<Parts, Box<dyn Error>> {
    // What a killed learning run left changed.
    let restored = restore_leftovers(&places.run_dir);
    warnings
        .0
        .extend(restored.err().map(|error| error.to_string()));
    let config = Config::load(&places.config_dir)?;
    let store = Store::create(&places.state_dir)?;
    let state_lock = StateLock::take(&places.state_dir).map_err(|error| {
        format!("{error}: one service at a time can have it; stop that one first")
    })?;
    // On a read-only file system, say: they are only untidy.
    let removed = store.remove_leftovers();
    warnings
        .0
        .extend(removed.err().map(|error| error.to_string()));
    let (registry, warning) = Registry::load(&places.state_dir)?;
    warnings.0.extend(warning);
    let (records, warning) = Records::open(&places.state_dir, &config.history);
    warnings.0.extend(warning);
    let worker = Worker::start(records, outbox.clone())?;
    let options = WatchOptions {
        early: config.watch.early,
    };
    let kernel = Watch::attach(options).map_err(|error| match error.is_lasting() {
        true => CannotWorkHere(error.to_string()).into(),
        false => Box::<dyn Error>::from(error),
    })?;
    let recorders = warnings.keep("nothing can be learned", kernel.recorders());
    let fault_around = FaultAroundKnob::find(&places.sysfs, &places.run_dir, keeper_command);
    let elevator_dir = places.run_dir.join(ELEVATORS_DIR);
    warnings.keep(
        "elevators cannot be restored",
        restore_leftovers(&elevator_dir),
    );
    let elevators = Elevators::new(places.sysfs.clone(), &places.run_dir, keeper_command);
    let executables = ExecutableFinder::start(outbox.clone())?;
    warnings.keep(
        "files that are replaced will not be found again by their paths: openat2(2) is refused",
        check_paths(),
    );
    let (rules, refused) = Rules::load(&places.config_dir.join("launchers.d"));
    warnings.0.extend(refused);
    let watchlist = Watchlist::new(Catalogue::new(rules, Roots::of_system()?));
    let (mut apps, unusable) = ManagedApps::load(
        registry,
        watchlist.catalogue.rules(),
        store,
        worker.jobs.clone(),
        outbox.clone(),
    )?;
    warnings.0.extend(unusable);
    apps.tunes = config.prefetch.dynamic;
    apps.rules = TuningRules::from(&config.tuning);
    apps.most_learned = config.prefetch.max_learned_launches as u32;
    apps.most_bytes = config.automatic.max_profiles_mib << 20;
    let rest = config.launch.rest();
    let (shield, cannot) = LaunchShield::start(places, config.writes, &outbox);
    warnings.0.extend(cannot);
    let (warm_up, cannot) = WarmUp::new();
    warnings.0.extend(cannot);
    let mut abilities = abilities(&kernel, fault_around.is_some());
    abilities.extend(judge_file_systems(!apps.profiles.is_empty())?);
    Ok(Parts {
        places: places.clone(),
        state_lock,
        reported: ReportedApps::new(&apps.registry, &apps.profiles),
        config,
        diagnostics: Diagnostics::new(abilities),
        kernel,
        executables,
        moved: Rate::new(MOVED.0, MOVED.1),
        waits: WaitSwitch::new(outbox.clone()),
        prefetchers: Prefetchers::new(outbox.clone()),
        recorders: Recorders::new(recorders, outbox.clone()),
        fault_around,
        elevators,
        threads: LaunchThreads::default(),
        late_reads: LateReads::default(),
        apps,
        probes: DriveProbes::new(
            places.state_dir.clone(),
            places.sysfs.clone(),
            rest,
            outbox.clone(),
        ),
        watchlist,
        shield,
        warm_up,
        seed_search: SeedSearch::default(),
        bus: None,
        worker,
        outbox,
    })
}

/// What can be prefetched here, for `status`. With profiles, the administrator may have learned apps that lie
/// elsewhere.
fn judge_file_systems(has_profiles: bool) -> Result<Vec<String>, Box<dyn Error>> {
    let found = AppFileSystems::of_system(&MountTable::read()?);
    let left_out = found.left_out();
    if found.devices().is_empty() && !has_profiles {
        let others = left_out.unwrap_or_default();
        let why = format!("no apps lie on ext4 (ext3, ext2), XFS, btrfs or EROFS; {others}");
        return Err(CannotWorkHere(why).into());
    }
    let supported = found
        .supported()
        .map(|found| format!("apps on {found} are prefetched"));
    let left_out = left_out.map(|found| format!("apps elsewhere are not prefetched ({found})"));
    Ok(supported.into_iter().chain(left_out).collect())
}

fn abilities(watch: &Watch, fault_around: bool) -> Vec<String> {
    let early = match watch.is_early() {
        true => "launches are seen when execve is called",
        false => {
            "launches are seen when execve has succeeded (tracefs is not mounted, or watch.early is off)"
        }
    };
    let faults = match fault_around {
        true => "page faults of a launch that is learned tell which page was used (faultaround)",
        false => {
            "page faults on cached pages are learned as windows of 16 pages (debugfs is not mounted, or kernel \
             lockdown refuses fault_around_bytes)"
        }
    };
    [early, faults].map(str::to_owned).to_vec()
}
