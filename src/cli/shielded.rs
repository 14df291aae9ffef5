//! The shield of a launch that `run` starts: other programs' writes are kept out of its way.
//!
//! A thread does all of it, beside the app: neither its start nor its exit status depends on it. Where the service
//! runs, its shield has the system's knobs, and this one leaves them to it.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::say;
use crate::drive::{KnobError, Sysfs};
use crate::learn::{RUN_DIR, keeper_command};
use crate::model::App;
use crate::policy::REASON_LASTS;
use crate::service::config::Config;
use crate::service::{CONFIG_DIR, SHIELD_KEEPER_LIMIT, guard_dir};
use crate::shield::{People, Shield, ShieldError, ShieldOptions, Shielding};

/// How long to wait for the thread when the app has ended. It restores settings in milliseconds, unless a drive blocks
/// it; the keeper restores them then.
const END: Duration = Duration::from_secs(5);

/// The shield of a launch. Dropping it ends it.
pub struct ShieldedRun {
    /// Dropped when the app has ended. Nothing is sent.
    end: Option<SyncSender<()>>,
    done: Receiver<Vec<Shielding>>,
}

impl ShieldedRun {
    /// Has a thread shield the launch of this app. Does not wait for it. `None` if there is nothing to be done, or no
    /// thread.
    pub fn start(app: &App) -> Option<ShieldedRun> {
        if !rustix::process::geteuid().is_root() || app.dev == 0 {
            return None;
        }
        let (end, ended) = sync_channel(1);
        let (tell, done) = sync_channel(1);
        let (uid, dev) = (app.uid, app.dev);
        let work = move || {
            let all = shield(uid, dev, &ended).unwrap_or_else(|why| {
                say(&format!("{why}; the launch is not shielded from writes"));
                Vec::new()
            });
            // The receiver may have given up.
            let _ = tell.send(all);
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
    pub fn end(mut self) -> Vec<Shielding> {
        self.finish()
    }

    fn finish(&mut self) -> Vec<Shielding> {
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

/// Shields the launch for as long as it is a reason, or until the app has ended: then `ended` is closed. Returns what
/// was done.
fn shield(uid: u32, dev: u64, ended: &Receiver<()>) -> Result<Vec<Shielding>, String> {
    let config = Config::load(Path::new(CONFIG_DIR)).map_err(|error| error.to_string())?;
    if !config.writes.shield {
        return Ok(Vec::new());
    }
    let shield = match start() {
        Ok(shield) => shield,
        // The service's shield, or that of another launch.
        Err(ShieldError::Knobs(KnobError::Busy)) => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    shield.launch(uid, dev);
    // Either is the end of it: the app has ended, or the launch is no reason any more.
    let _ = ended.recv_timeout(REASON_LASTS);
    let status = shield.status();
    shield.stop();
    if let Some(problem) = status.problem {
        say(&problem);
    }
    Ok(status.ended.into_iter().chain(status.in_force).collect())
}

fn start() -> Result<Shield, ShieldError> {
    let guard_dir = guard_dir(Path::new(RUN_DIR))?;
    Shield::start(ShieldOptions {
        keeper: keeper_command(&guard_dir, SHIELD_KEEPER_LIMIT),
        guard_dir,
        sysfs: Sysfs::default(),
        people: People::default(),
    })
}
