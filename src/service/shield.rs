//! The service's shield: other programs' writes are kept out of the way of launches.
//!
//! The [shield](crate::shield) has a thread of its own. The event loop tells it what begins, and does not wait for it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Places;
use super::config::WritesConfig;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::{start_behind, work_behind};
use crate::fs::root_owned::make_directory;
use crate::learn::keeper_command;
use crate::shield::{People, Shield, ShieldError, ShieldOptions, ShieldStatus};

/// Longest time for which the keeper leaves a setting changed that its process does not renew: the shield does so every
/// half minute.
pub const KEEPER_LIMIT: Duration = Duration::from_secs(90);

/// The directory of the shield's knobs, below the run directory.
pub const GUARD_DIR: &str = "shield";

/// A launch that the shield knows.
struct ShieldedLaunch {
    /// The device of its app, encoded as `st_dev`.
    dev: u64,
    /// When it began, in milliseconds since the epoch.
    began_ms: u64,
}

/// The shield of launches.
pub struct LaunchShield {
    places: Places,
    wanted: WritesConfig,
    /// `None` if it is switched off, cannot be had, or is being started.
    shield: Option<Shield>,
    /// Whether a thread stops the old one and starts another.
    is_changing: bool,
    launches: HashMap<u64, ShieldedLaunch>,
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
        outbox: &Outbox,
    ) -> (LaunchShield, Vec<String>) {
        let mut warnings = Vec::new();
        let shield = start(places, &wanted).unwrap_or_else(|error| {
            warnings.push(format!("launches are not shielded from writes: {error}"));
            None
        });
        let shield = LaunchShield {
            places: places.clone(),
            wanted,
            shield,
            is_changing: false,
            launches: HashMap::new(),
            told: None,
            outbox: outbox.clone(),
        };
        (shield, warnings)
    }

    /// A launch of this user begins. Its app lies on `dev`, encoded as `st_dev`; 0 if that is not known. Returns at
    /// once.
    pub fn begins(&mut self, launch: u64, uid: u32, dev: u64) {
        let Some(shield) = self.shield.as_ref().filter(|_| dev != 0) else {
            return;
        };
        if !shield.launch(uid, dev) {
            return;
        }
        let shielded = ShieldedLaunch {
            dev,
            began_ms: now_ms(),
        };
        self.launches.insert(launch, shielded);
    }

    /// A launch is over. Returns at once: whether its drive was shielded meanwhile, as only one that is being written is.
    pub fn ends(&mut self, launch: u64) -> bool {
        let Some(shielded) = self.launches.remove(&launch) else {
            return false;
        };
        let drive = self.places.sysfs.written_drive(shielded.dev);
        let status = self.shield.as_ref().map(Shield::status);
        drive
            .zip(status)
            .is_some_and(|(drive, status)| was_shielded(&status, drive, shielded.began_ms))
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

    /// Restores everything. Waits some seconds at most.
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
        keeper: keeper_command(&guard_dir, KEEPER_LIMIT),
        guard_dir,
        sysfs: places.sysfs.clone(),
        people: People::default(),
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

/// Whether a drive was shielded at some time since then, in milliseconds since the epoch.
fn was_shielded(status: &ShieldStatus, drive: u64, since_ms: u64) -> bool {
    let mut all = status.in_force.iter().chain(&status.ended);
    all.any(|shielding| {
        shielding.dev == drive && shielding.ended_ms.is_none_or(|ended| ended >= since_ms)
    })
}

/// The time of day in milliseconds since the epoch; 0 if the clock is set to a time before it.
fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shield::Shielding;

    #[test]
    fn a_launch_was_beside_writes_if_its_drive_was_shielded_meanwhile() {
        let shielding = |dev, ended_ms| Shielding {
            dev,
            ended_ms,
            ..Shielding::default()
        };
        let status = ShieldStatus {
            in_force: vec![shielding(7, None)],
            ended: vec![shielding(8, Some(1000))],
            ..ShieldStatus::default()
        };
        for (drive, since_ms, expected) in [
            (7, 5000, true),
            (8, 1000, true),
            (8, 1001, false),
            (9, 0, false),
        ] {
            assert_eq!(was_shielded(&status, drive, since_ms), expected, "{drive}");
        }
    }
}
