//! The service's shield: other programs' writes are kept out of the way of launches.
//!
//! The [shield](crate::shield) has a thread of its own, and so has the [detector](waits) of what launches wait for.
//! The event loop tells them what begins and ends, and waits for neither.

mod held;
mod waits;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Places;
use super::config::WritesConfig;
use super::launch::LaunchWrites;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::{start_behind, work_behind};
use crate::fs::root_owned::make_directory;
use crate::kernel::{LaunchMembers, kernel_dev};
use crate::learn::keeper_command;
use crate::model::WaitTask;
use crate::policy::ShieldSettings;
use crate::shield::{MeasureAbility, Shield, ShieldError, ShieldOptions, ShieldStatus, abilities};
use waits::{ObservedLaunch, WaitFigures, WriteWaits};

/// The directory of the shield's knobs, below the run directory.
pub const GUARD_DIR: &str = "shield";

/// A launch that the shield knows.
struct ShieldedLaunch {
    uid: u32,
    /// When it began, in milliseconds since the epoch.
    began_ms: u64,
    waits: Arc<WaitFigures>,
}

/// The shield of launches.
pub struct LaunchShield {
    places: Places,
    wanted: WritesConfig,
    /// `None` if it is switched off, cannot be had, or is being started.
    shield: Option<Shield>,
    /// Whether a thread stops the old one and starts another.
    is_changing: bool,
    /// Sees what launches wait for; `None` if there is no thread for it.
    waits: Option<WriteWaits>,
    launches: HashMap<u64, ShieldedLaunch>,
    /// What this system cannot do of it, one line each.
    lacks: Vec<String>,
    /// What of it was said last.
    told: Option<String>,
    outbox: Outbox,
}

impl LaunchShield {
    /// Starts the shield, if the administrator has not switched it off, and restores what a killed one left changed in
    /// any case. The second value says what goes without it.
    pub fn start(
        places: &Places,
        wanted: WritesConfig,
        members: Option<LaunchMembers>,
        outbox: &Outbox,
    ) -> (LaunchShield, Vec<String>) {
        let mut warnings = Vec::new();
        let shield = start(places, &wanted).unwrap_or_else(|error| {
            warnings.push(format!("launches are not shielded from writes: {error}"));
            None
        });
        let sysfs = places.sysfs.clone();
        let waits = members.map(|members| WriteWaits::start(members, sysfs, outbox.clone()));
        let waits = waits.transpose().unwrap_or_else(|error| {
            warnings.push(format!("what launches wait for is not seen: {error}"));
            None
        });
        let shield = LaunchShield {
            places: places.clone(),
            wanted,
            shield,
            is_changing: false,
            waits,
            launches: HashMap::new(),
            lacks: abilities()
                .iter()
                .filter_map(MeasureAbility::lack)
                .collect(),
            told: None,
            outbox: outbox.clone(),
        };
        (shield, warnings)
    }

    /// A launch of this user begins with the process `root`. Its app lies on `dev`, encoded as `st_dev`; 0 if that is
    /// not known. Returns at once.
    pub fn begins(&mut self, launch: u64, uid: u32, root: u32, dev: u64) {
        let Some(shield) = self.shield.as_ref().filter(|_| dev != 0) else {
            return;
        };
        if !shield.launch_begins(launch, uid, root as i32, kernel_dev(dev)) {
            return;
        }
        let waits = Arc::new(WaitFigures::default());
        if let Some(watch) = &self.waits {
            watch.begins(ObservedLaunch::new(launch, dev, Arc::clone(&waits)));
        }
        let began_ms = now_ms();
        let shielded = ShieldedLaunch {
            uid,
            began_ms,
            waits,
        };
        self.launches.insert(launch, shielded);
    }

    /// A launch is over. Returns at once, with what writes were to it.
    pub fn ends(&mut self, launch: u64) -> LaunchWrites {
        let Some(shielded) = self.launches.remove(&launch) else {
            return LaunchWrites::default();
        };
        if let Some(waits) = &self.waits {
            waits.ends(launch);
        }
        let Some(shield) = &self.shield else {
            return LaunchWrites::default();
        };
        shield.launch_ends(launch);
        let status = shield.status();
        let time = shielded.began_ms..now_ms();
        LaunchWrites {
            // It takes measures only where a drive is being written.
            background: shielded.waits.beside_writes()
                || held::was_measured_for(&status, shielded.uid, &time),
            held_us: held::held_ms(&status, &time).saturating_mul(1000),
            waited_us: shielded.waits.waited_us(),
        }
    }

    /// A task of a launch waits for a write on a device, the kernel's dev_t, that nobody was in a hurry for. That is on
    /// the account of the launch's user, whatever users its tasks have become.
    pub fn foreground_waits(&self, launch: u64, task: &WaitTask, device: u32) {
        let known = self.launches.get(&launch);
        if let Some((shield, launch)) = self.shield.as_ref().zip(known) {
            // If too much is queued, the shield has enough to do.
            shield.foreground_waits(task.pid as i32, task.tid as i32, launch.uid, device);
        }
    }

    /// What is done and was done.
    pub fn status(&self) -> ShieldStatus {
        match &self.shield {
            Some(shield) => shield.status(),
            None => ShieldStatus {
                enabled: self.wanted.shield,
                problem: self.told.clone(),
                ..ShieldStatus::default()
            },
        }
    }

    /// What this system cannot do of it and why, one line each.
    pub fn lacks(&self) -> &[String] {
        &self.lacks
    }

    /// What does not work, if that was not said yet.
    pub fn news(&mut self) -> Option<String> {
        let problem = self.shield.as_ref()?.status().problem?;
        if self.told.as_ref() == Some(&problem) {
            return None;
        }
        self.told = Some(problem.clone());
        Some(format!("launches beside writes: {problem}"))
    }

    /// Takes other settings: the shield is stopped and started again with them, by a thread.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn configure(&mut self, wanted: WritesConfig) -> io::Result<()> {
        if wanted == self.wanted {
            return Ok(());
        }
        self.wanted = wanted;
        self.change()
    }

    /// Tries again to have a shield: another process had its knobs.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn retry(&mut self) -> io::Result<()> {
        match self.wanted.shield && self.shield.is_none() {
            true => self.change(),
            false => Ok(()),
        }
    }

    fn change(&mut self) -> io::Result<()> {
        if self.is_changing {
            // It is looked at again when the thread has ended.
            return Ok(());
        }
        let (old, places, wanted) = (self.shield.take(), self.places.clone(), self.wanted);
        work_behind("pf-shield-set", &self.outbox, move || {
            old.into_iter().for_each(Shield::stop);
            let started = start(&places, &wanted).map_err(|error| error.to_string());
            Message::Shield { started, wanted }
        })?;
        self.is_changing = true;
        Ok(())
    }

    /// The thread has started a shield with these settings, or none if they say so, or could not. Returns what is to be
    /// said.
    pub fn changed(
        &mut self,
        started: Result<Option<Shield>, String>,
        of: WritesConfig,
    ) -> io::Result<Option<String>> {
        self.is_changing = false;
        let failed = match started {
            Ok(shield) => {
                self.shield = shield;
                self.told = None;
                None
            }
            Err(why) => Some(format!("launches are not shielded from writes: {why}")),
        };
        let news = failed.filter(|why| self.told.as_ref() != Some(why));
        if news.is_some() {
            self.told.clone_from(&news);
        }
        if of != self.wanted {
            self.change()?;
        }
        Ok(news)
    }

    /// Ends all measures. Waits some seconds at most.
    pub fn stop(self) {
        if let Some(shield) = self.shield {
            shield.stop();
        }
    }
}

/// Starts a shield with these settings; `None` if they say that there is to be none.
fn start(places: &Places, wanted: &WritesConfig) -> Result<Option<Shield>, ShieldError> {
    let guard_dir = guard_dir(&places.run_dir)?;
    if !wanted.shield {
        crate::drive::restore_leftovers(&guard_dir)?;
        return Ok(None);
    }
    let options = ShieldOptions {
        keeper: keeper_command(&guard_dir, WritesConfig::KEEPER_LIMIT),
        guard_dir,
        settings: ShieldSettings::from(wanted),
        sysfs: places.sysfs.clone(),
    };
    start_behind(|| Shield::start(options)).map(Some)
}

/// The directory of the shield's knobs below a run directory, which is made if it is missing.
///
/// # Errors
/// When it cannot be made.
pub fn guard_dir(run_dir: &Path) -> io::Result<PathBuf> {
    make_directory(run_dir)?;
    Ok(run_dir.join(GUARD_DIR))
}

/// The time of day in milliseconds since the epoch; 0 if the clock is set to a time before it.
fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
