//! Making the parts at the start of the service.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;

use super::Parts;
use crate::apps::Rules;
use crate::drive::{ELEVATORS_DIR, Elevators, restore_leftovers};
use crate::fs::app_dirs::AppFileSystems;
use crate::fs::handle::check_paths;
use crate::fs::mounts::MountTable;
use crate::kernel::{Watch, WatchOptions};
use crate::learn::{FaultAroundKnob, keeper_command};
use crate::profile::Store;
use crate::service::Places;
use crate::service::catalogue::Catalogue;
use crate::service::config::Config;
use crate::service::control::ReportedApps;
use crate::service::diagnostics::Diagnostics;
use crate::service::drive_probes::DriveProbes;
use crate::service::executables::ExecutableFinder;
use crate::service::late_reads::LateReads;
use crate::service::launch_threads::LaunchThreads;
use crate::service::login::Seats;
use crate::service::mailbox::Outbox;
use crate::service::managed_apps::ManagedApps;
use crate::service::own_commands::OwnCommands;
use crate::service::prefetchers::Prefetchers;
use crate::service::program_switch::ProgramSwitches;
use crate::service::rate::Rate;
use crate::service::recorders::Recorders;
use crate::service::records::Records;
use crate::service::registry::Registry;
use crate::service::roots::Roots;
use crate::service::seeds::SeedSearch;
use crate::service::shield::LaunchShield;
use crate::service::state_lock::StateLock;
use crate::service::warm_up::WarmUp;
use crate::service::watchlist::Watchlist;
use crate::service::worker::Worker;
use crate::shield::People;

/// How often executables are found again because a user's launches have found others: at once, and the interval for long.
const MOVED: (u32, Duration) = (2, Duration::from_secs(30));

/// What could not be had at the start, which the service does without.
#[derive(Default)]
pub struct Warnings(pub Vec<String>);

impl Warnings {
    /// The value of a step that may fail. `lost` says what goes without it.
    pub fn keep<T, E: Display>(&mut self, lost: &str, result: Result<T, E>) -> Option<T> {
        result
            .inspect_err(|error| self.0.push(format!("{lost}: {error}")))
            .ok()
    }
}

/// This system lacks something that the service cannot do without: starting it again changes nothing.
#[derive(Debug, Error)]
#[error("the service cannot work here: {0}")]
pub struct CannotWorkHere(String);

/// Reads the service's files, and attaches to the kernel.
///
/// # Errors
/// Why the service cannot start; [`CannotWorkHere`] if that will not change.
pub fn assemble(
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
    let mut kernel = Watch::attach(options).map_err(|error| match error.is_lasting() {
        true => CannotWorkHere(error.to_string()).into(),
        false => Box::<dyn Error>::from(error),
    })?;
    let own_commands = OwnCommands::of_this_program(places.leaves_own_commands);
    let mounts = warnings.keep("launches are looked for in /proc first", MountTable::read());
    let known = mounts.and_then(|mounts| own_commands.known_to_kernel(&mounts));
    if let Some(program) = known {
        kernel.leave_own_commands(program);
    }
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
    let catalogue = Catalogue::new(rules, Roots::of_system()?);
    let (mut apps, unusable) = ManagedApps::load(
        registry,
        catalogue.rules(),
        store,
        worker.jobs().clone(),
        outbox.clone(),
    )?;
    warnings.0.extend(unusable);
    apps.configure(&config);
    let rest = config.launch.rest();
    let (shield, cannot) = LaunchShield::start(places, config.writes, &outbox);
    warnings.0.extend(cannot);
    let (warm_up, cannot) = WarmUp::new();
    warnings.0.extend(cannot);
    let mut abilities = abilities(&kernel, fault_around.is_some());
    abilities.extend(judge_file_systems(!apps.profiles.is_empty())?);
    Ok(Parts {
        places: places.clone(),
        _state_lock: state_lock,
        own_commands,
        kernel_leaves_own_commands: known.is_some(),
        had_launches: false,
        excess_execs: 0,
        reported: ReportedApps::new(&apps.registry, &apps.profiles),
        config,
        diagnostics: Diagnostics::new(abilities),
        kernel,
        executables,
        moved: Rate::new(MOVED.0, MOVED.1),
        programs: ProgramSwitches::new(&outbox),
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
        catalogue,
        watchlist: Watchlist::new(),
        shield,
        warm_up,
        seats: Seats::new(People::default()),
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
        let why =
            format!("no apps lie on ext4 (ext3, ext2), XFS, btrfs, EROFS or squashfs; {others}");
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
