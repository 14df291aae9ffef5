//! The shield: launches and waiting tasks do not wait for background writes.
//!
//! What is done is decided by [`crate::policy::ShieldState`]; `docs/writes.md` describes the measures. Here a thread
//! turns commands, looks at the system and the kernel's reports of pressure into events, and carries the actions out
//! on the kernel's knobs, under a guard of its own: whatever happens to this process, they are restored. While there
//! is no reason for anything, the thread sleeps and nothing is looked at.

mod abilities;
mod apply;
mod core;
mod describe;
mod groups;
mod kernel_world;
mod ledger;
mod mailbox;
mod memory;
mod pressure;
mod status;
mod thread;
mod writers;

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::Duration;

pub use abilities::{MeasureAbility, abilities};
pub use status::{MOST_ENDED, MeasureReport, ShieldStatus};

use self::core::ShieldCore;
use crate::drive::{KnobError, Knobs, Sysfs};
use crate::fs::mounts::MountTable;
use crate::policy::ShieldSettings;
use groups::Groups;
use kernel_world::KernelWorld;
use mailbox::{CommandSender, ShieldCommand, commands};
use pressure::PressureTrigger;
use thread::SharedStatus;

/// Name of the thread, as `ps -L` and traces show it.
pub const SHIELD_THREAD: &str = "pf-shield";

/// How long [`Shield::stop`] waits for the thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// The shield could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ShieldError {
    /// Another process has it, or its knobs cannot be used.
    #[error("the shield cannot have its knobs: {0}")]
    Knobs(#[from] KnobError),
    /// The system refused a thread or a descriptor, or /proc cannot be read.
    #[error("cannot start the shield: {0}")]
    System(#[from] io::Error),
}

/// What the shield needs.
pub struct ShieldOptions {
    /// The directory of its knobs' guard: `shield` below the run directory.
    pub guard_dir: PathBuf,
    /// The command that runs [`crate::drive::keep`] for that directory, with a limit above the longest measure, which
    /// is a minute. Without one, the knobs of a killed process are restored at the next start only. It is started
    /// before anything is changed, and runs as long as the shield.
    pub keeper: Option<Command>,
    /// What the administrator allows.
    pub settings: ShieldSettings,
    /// Where drives are described.
    pub sysfs: Sysfs,
}

/// The running shield: a thread, and a mailbox that never makes the caller wait. Dropping it ends all measures, as
/// [`Shield::stop`] does.
pub struct Shield {
    /// `None`: it is switched off.
    running: Option<RunningShield>,
    status: SharedStatus,
}

struct RunningShield {
    commands: CommandSender,
    /// Disconnected once the thread has ended.
    ended: Receiver<()>,
}

impl Shield {
    /// Starts its thread, after restoring what a crashed shield left changed. Nothing is changed until a launch, a
    /// waiting task or pressure gives a reason. If it is switched off, nothing is started, and all commands are
    /// ignored.
    ///
    /// # Errors
    /// When another process holds the guard, its directory cannot be used, or there is no thread.
    pub fn start(options: ShieldOptions) -> Result<Shield, ShieldError> {
        let settings = options.settings;
        let status = SharedStatus::new(Mutex::new(ShieldStatus {
            enabled: settings.enabled,
            ..ShieldStatus::default()
        }));
        let keeper = options.keeper.filter(|_| settings.enabled);
        let knobs = Knobs::acquire(&options.guard_dir, keeper)?;
        if !settings.enabled {
            return Ok(Shield {
                running: None,
                status,
            });
        }
        let groups = Groups::new(MountTable::read()?);
        // Where the kernel reports no pressure, launches and waiting tasks are the reasons.
        let pressure = settings
            .pressure
            .then(PressureTrigger::new)
            .and_then(Result::ok);
        let (commands, receiver) = commands()?;
        let (alive, ended) = sync_channel(0);
        let mut core = ShieldCore::new(KernelWorld::new(options.sysfs, knobs, groups), settings);
        let shared = Arc::clone(&status);
        Builder::new()
            .name(SHIELD_THREAD.to_owned())
            .spawn(move || {
                thread::run(&mut core, &receiver, pressure, &shared);
                // The guard ends before the others hear of it.
                drop(core);
                drop(alive);
            })?;
        let running = Some(RunningShield { commands, ended });
        Ok(Shield { running, status })
    }

    /// A launch begins: `launch` is the caller's number for it, `root` its first process, of user `uid`; `device`
    /// is the device of the app's file system, as the kernel's dev_t (major << 20 | minor). Returns at once. False:
    /// the launch is not shielded, because too much is queued or the shield is switched off.
    pub fn launch_begins(&self, launch: u64, uid: u32, root: i32, device: u32) -> bool {
        self.send(ShieldCommand::LaunchBegins {
            launch,
            uid,
            root,
            device,
        })
    }

    /// The launch of this number is over. Returns at once. False: too much is queued, and the measures end by their
    /// bound; or the shield is switched off.
    pub fn launch_ends(&self, launch: u64) -> bool {
        self.send(ShieldCommand::LaunchEnds { launch })
    }

    /// A thread `tid` of the process `pid`, of user `uid`, waits for a write on `device` (the kernel's dev_t) that
    /// nobody was in a hurry for. Returns at once. False: too much is queued, or the shield is switched off.
    pub fn foreground_waits(&self, pid: i32, tid: i32, uid: u32, device: u32) -> bool {
        self.send(ShieldCommand::Waits {
            pid,
            tid,
            uid,
            device,
        })
    }

    /// What is done and was done.
    pub fn status(&self) -> ShieldStatus {
        let status = self.status.lock();
        status
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    /// Ends all measures and the thread. Waits no longer than two seconds: a drive may block the thread, and then the
    /// keeper restores the knobs once this process has ended.
    pub fn stop(self) {}

    fn send(&self, command: ShieldCommand) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.commands.send(command))
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        if let Some(RunningShield { commands, ended }) = self.running.take() {
            // The thread stops when nobody can send commands any more, even if this one finds no room.
            commands.send(ShieldCommand::Stop);
            drop(commands);
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}
