//! The product's service in a process of its own, for unprefixed launches.
//!
//! It is `paralfetch service` as a user runs it, without the bus, with state and configuration of its own.
//! It is started from this program and not from a separate binary: so it is the version that is measured,
//! and the laboratory can tell it the class of an emulated drive.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use paralfetch::model::{App, DriveClass, Profile, UserApp};
use paralfetch::policy::Phase;
use paralfetch::service::control::{LaunchRecord, ServiceCalls};
use paralfetch::service::registry::{self, Registry};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::service_state::{Serve, State, id_of, state_dir};
use crate::child::{self, die_with_parent, ended_within};

/// Interval at which the service's files are polled: without the bus, it cannot notify us.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait, each time: the service gives up a launch after 30 s and then has to resolve the learned pages.
const LIMIT: Duration = Duration::from_secs(90);

/// Starts of log lines.
const READY: &str = "INFO ready version=";
const READY_TO_LEARN: &str = "DEBUG ready to learn";
const TAKEN: &str = "DEBUG the recorder is taken";
const LAUNCH: &str = "INFO launch app=";

/// A running service, for launches of one app; killed when this is dropped.
pub struct Service {
    child: Child,
    pidfd: OwnedFd,
    state: State,
    app: App,
    id: String,
    /// Launches in its history.
    launches: usize,
}

impl Service {
    /// Starts it. `drive` is the device that the image is on, and its class.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(state: State, app: &App, drive: (u64, DriveClass)) -> Result<Self> {
        let dir = state.path().to_owned();
        let log = File::create(dir.join("log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("service")
            .arg(serde_json::to_string(&Serve { dir, drive })?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        die_with_parent(&mut command, &[]);
        let mut child = command.spawn().context("cannot start the service")?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        if pidfd.is_err() {
            child.kill()?;
            child.wait()?;
        }
        Ok(Service {
            child,
            pidfd: pidfd?,
            state,
            app: app.clone(),
            id: id_of(app)?,
            launches: 0,
        })
    }

    /// Process id of the service.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The service's process, as a descriptor.
    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Waits until it can handle the next launch as the app's phase demands.
    ///
    /// # Errors
    /// When it has ended, or is not ready in time.
    pub fn until_ready(&mut self) -> Result<()> {
        self.until("is not ready", |service| {
            let log = service.log()?;
            let record = service.record()?;
            let to_learn = record.as_ref().is_some_and(learns);
            Ok(log.contains(READY) && (!to_learn || can_learn(&log)))
        })
    }

    /// Waits until its history has one more launch and the resulting learning or rescheduling is done.
    ///
    /// # Errors
    /// When it has ended, has not seen the launch in time, or has not scheduled it anew in time.
    pub fn until_written(&mut self) -> Result<()> {
        let launches = self.launches + 1;
        self.until("has not written the launch down", |service| {
            // Reading the history takes longer than looking into the log, which comes first.
            Ok(service.log()?.matches(LAUNCH).count() >= launches
                // Its history is empty for an app that it does not know yet.
                && service.record()?.is_some()
                && service.history()?.len() >= launches)
        })?;
        self.launches = launches;
        self.until(
            "has not scheduled the app as its tuning asks",
            Self::is_settled,
        )
    }

    /// Whether the schedule that its tuning wants is in force.
    fn is_settled(&self) -> Result<bool> {
        let record = self.record()?;
        let tuning = record.as_ref().and_then(|record| record.managed.tuning());
        let wanted = tuning.and_then(|tuning| tuning.wanted());
        let Some(wanted) = wanted else {
            return Ok(true);
        };
        let profile = self.profile()?;
        let in_force = profile.as_ref().and_then(|profile| profile.history.last());
        Ok(in_force.is_some_and(|revision| revision.params == wanted))
    }

    fn until(&mut self, not: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !is_so(self)? {
            let ended = self.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > LIMIT {
                let ended =
                    ended.map_or(String::new(), |status| format!(" and has ended: {status}"));
                bail!("the service {not}{ended}; {}", self.last_lines()?);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What it said last, for an error.
    fn last_lines(&self) -> Result<String> {
        let log = self.log()?;
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        Ok(format!(
            "its log ends, last line first: {}",
            last.join(" | ")
        ))
    }

    fn log(&self) -> Result<String> {
        let path = self.state.path().join("log");
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The service's records of the app's launches as `stats` shows them, newest first.
    fn history(&self) -> Result<Vec<LaunchRecord>> {
        let launches = self.state.files().launches(None, Some(&self.id), u32::MAX);
        launches.map_err(|error| anyhow!("cannot read the service's history: {error}"))
    }

    /// The service's record of the last launch.
    ///
    /// # Errors
    /// When there was none.
    pub fn last(&self) -> Result<LaunchRecord> {
        let newest = self.history()?.into_iter().next();
        newest.context("the service's history is empty")
    }

    /// The app's profile, if there is one by now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn profile(&self) -> Result<Option<Profile>> {
        Ok(self.state.store()?.load(self.app.key())?)
    }

    /// The service's record of the app; `None` before the first launch of an app that it knows from a profile only.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self) -> Result<Option<registry::Record>> {
        let (registry, damaged) = Registry::load(&state_dir(self.state.path()))?;
        if let Some(why) = damaged {
            bail!("{why}");
        }
        Ok(registry
            .records
            .get(&UserApp::new(self.app.uid, self.id.as_str()))
            .cloned())
    }

    /// Asks the service to end, and waits.
    ///
    /// # Errors
    /// When its exit status is not 0, or it has not ended in time.
    pub fn stop(mut self) -> Result<()> {
        kill_process(self.pid(), Signal::TERM)?;
        let Some(status) = ended_within(&mut self.child, LIMIT)? else {
            bail!("the service does not end; {}", self.last_lines()?);
        };
        if !status.success() {
            bail!("the service ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // One that has ended already is only reaped.
        if let Err(error) = child::end(&mut self.child) {
            eprintln!("lab: the service: {error:#}");
        }
    }
}

fn learns(record: &registry::Record) -> bool {
    matches!(record.managed.phase(), Phase::Learning { .. })
}

/// Whether a recorder was made ready since a launch took the one before.
fn can_learn(log: &str) -> bool {
    log.rfind(READY_TO_LEARN) > log.rfind(TAKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn can_learn_is_false_until_a_recorder_is_ready_again() {
        assert!(!can_learn(""));
        let loaded = format!(" {READY}\"1\"\n{READY_TO_LEARN}\n");
        assert!(can_learn(&loaded));
        let taken = format!("{loaded}{TAKEN} launch=1\n");
        assert!(!can_learn(&taken));
        let ready = format!("{taken}{READY_TO_LEARN}\n {LAUNCH}\"/a\" kind=Learned\n");
        assert!(can_learn(&ready), "again, although its launch was not over");
    }
}
