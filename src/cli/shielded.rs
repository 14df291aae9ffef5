//! The shield of a launch that `run` starts: other programs' writes are kept out of its way.
//!
//! A thread does all of it, beside the app: neither its start nor its exit status depends on it. Where the service
//! runs, its shield has the system's knobs, and this one leaves them to it.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::say;
use crate::drive::{KnobError, Sysfs};
use crate::kernel::kernel_dev;
use crate::learn::{RUN_DIR, keeper_command};
use crate::model::{App, LaunchLimits};
use crate::policy::ShieldSettings;
use crate::process::{Clocks, EndDetector, LaunchLook, ReadSample, process_threads, thread_states};
use crate::service::config::{Config, WritesConfig};
use crate::service::{CONFIG_DIR, guard_dir};
use crate::shield::{MeasureReport, Shield, ShieldError, ShieldOptions};

/// The number of the only launch.
const LAUNCH: u64 = 1;

/// How often the launch is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long to wait for the thread when the app has ended. It restores settings in milliseconds, unless a drive blocks
/// it; the keeper restores them then.
const END: Duration = Duration::from_secs(5);

/// The shield of a launch. Dropping it ends it.
pub struct ShieldedRun {
    /// Sent to, or dropped: the app has ended.
    end: Option<SyncSender<()>>,
    done: Receiver<Vec<MeasureReport>>,
}

impl ShieldedRun {
    /// Has a thread shield the launch of this app, whose process is `root`. Does not wait for it. `None` if there is
    /// nothing to be done, or no thread.
    pub fn start(app: &App, root: Pid) -> Option<ShieldedRun> {
        if !rustix::process::geteuid().is_root() || app.dev == 0 {
            return None;
        }
        let (end, ended) = sync_channel(1);
        let (tell, done) = sync_channel(1);
        let (uid, dev) = (app.uid, app.dev);
        let work = move || {
            let measures = match shield(uid, dev, root, &ended) {
                Ok(measures) => measures,
                Err(why) => {
                    say(&format!("{why}; the launch is not shielded from writes"));
                    Vec::new()
                }
            };
            // The receiver may have given up.
            let _ = tell.send(measures);
        };
        let started = thread::Builder::new()
            .name("pf-shield-run".to_owned())
            .spawn(work);
        started
            .inspect_err(|error| say(&format!("the launch is not shielded from writes: {error}")))
            .ok()?;
        Some(ShieldedRun {
            end: Some(end),
            done,
        })
    }

    /// The app has ended: restores everything. Returns what was done.
    pub fn end(mut self) -> Vec<MeasureReport> {
        self.finish()
    }

    fn finish(&mut self) -> Vec<MeasureReport> {
        if self.end.take().is_none() {
            return Vec::new();
        }
        self.done.recv_timeout(END).unwrap_or_default()
    }
}

impl Drop for ShieldedRun {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Shields the launch until it is over, and goes on until all measures have ended, or the app has: then `ended` is
/// closed. Returns what was done.
fn shield(
    uid: u32,
    dev: u64,
    root: Pid,
    ended: &Receiver<()>,
) -> Result<Vec<MeasureReport>, String> {
    let config = Config::load(Path::new(CONFIG_DIR)).map_err(|error| error.to_string())?;
    let writes = config.writes;
    if !writes.shield {
        return Ok(Vec::new());
    }
    let shield = match start(&writes) {
        Ok(shield) => shield,
        // The service's shield, or that of another launch.
        Err(ShieldError::Knobs(KnobError::Busy)) => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let root_pid = root.as_raw_nonzero().get();
    shield.launch_begins(LAUNCH, uid, root_pid, kernel_dev(dev));
    let limits = LaunchLimits::from(&config.launch);
    let exited = until_over(dev, root_pid.unsigned_abs(), limits, ended);
    shield.launch_ends(LAUNCH);
    if !exited {
        let limit = Instant::now() + writes.longest();
        while !shield.status().in_force.is_empty() && Instant::now() < limit {
            if has_ended(ended) {
                break;
            }
        }
    }
    let status = shield.status();
    shield.stop();
    if let Some(problem) = status.problem {
        say(&problem);
    }
    Ok(status.ended.into_iter().chain(status.in_force).collect())
}

fn start(writes: &WritesConfig) -> Result<Shield, ShieldError> {
    let guard_dir = guard_dir(Path::new(RUN_DIR))?;
    Shield::start(ShieldOptions {
        keeper: keeper_command(&guard_dir, WritesConfig::KEEPER_LIMIT),
        guard_dir,
        settings: ShieldSettings::from(writes),
        sysfs: Sysfs::default(),
    })
}

/// Waits until the launch is over, as far as the reads of its drive tell. Whether the app has ended.
fn until_over(dev: u64, root: u32, limits: LaunchLimits, ended: &Receiver<()>) -> bool {
    let sysfs = Sysfs::default();
    let reads = || sysfs.reads(dev).unwrap_or_default();
    let (begun, before) = (Clocks::now(), reads());
    let mut detector = EndDetector::new(begun.monotonic_ns, begun, limits);
    loop {
        if has_ended(ended) {
            return true;
        }
        let look = LaunchLook {
            now: Clocks::now(),
            reads: ReadSample::Total(reads().saturating_sub(before)),
            is_prefetching: false,
            has_exited: false,
        };
        let over = detector.look(look, thread_states(process_threads(root)));
        if over.is_some() {
            return false;
        }
    }
}

/// Waits a moment; whether the app has ended.
fn has_ended(ended: &Receiver<()>) -> bool {
    !matches!(ended.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout))
}
