//! The product's service in a process of its own, for unprefixed launches.
//!
//! It is `paralfetch service` as a user runs it, without the bus, with state and configuration of its own.
//! It is started from this program and not from a separate binary: so it is the version that is measured,
//! and the laboratory can tell it the class of an emulated drive.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use paralfetch::drive::Sysfs;
use paralfetch::model::DriveClass;
use paralfetch::model::{App, Profile};
use paralfetch::policy::{Phase, PhaseRequest};
use paralfetch::profile::{Store, full_path};
use paralfetch::service::Places;
use paralfetch::service::control::{LaunchRecord, ServiceFiles};
use paralfetch::service::registry::{self, Registry};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::child::die_with_parent;

/// Only apps that are enabled, and each of their launches prefetched: one that is withheld, to know the
/// gain, would stand among the measured ones as if prefetching had failed. The log says when a launch can
/// be learned.
const CONFIGURATION: &str =
    "mode = \"manual\"\nlog.level = \"debug\"\n[prefetch]\nwithhold = false\n";

/// How often to look at what the service has written. It does not tell us: there is no bus.
const LOOK: Duration = Duration::from_millis(20);

/// The service gives a launch up after 30 s, and then has to resolve what it has learned.
const LIMIT: Duration = Duration::from_secs(90);

/// Lines of the log.
const READY: &str = "INFO ready version=";
const READY_TO_LEARN: &str = "DEBUG ready to learn";
const LAUNCH: &str = "INFO launch app=";

/// What `lab service` is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Serve {
    dir: PathBuf,
    /// Device that the image is on, and its class.
    drive: (u64, DriveClass),
}

impl Serve {
    /// Runs the service until a signal asks it to end.
    ///
    /// # Errors
    /// What keeps it from starting, or from going on.
    pub fn run(self) -> Result<()> {
        let (dev, class) = self.drive;
        let places = Places {
            state_dir: state_dir(&self.dir),
            config_dir: self.dir.join("etc"),
            run_dir: self.dir.join("run"),
            sysfs: Sysfs::default().knowing(dev, class),
        };
        paralfetch::cli::serve(&places, None).map_err(|error| anyhow!("the service: {error}"))
    }
}

fn state_dir(dir: &Path) -> PathBuf {
    dir.join("state")
}

/// What a service starts from: an empty state directory, and its configuration.
pub struct State(TempDir);

impl State {
    /// Makes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("lab-service-").tempdir();
        let dir = dir.context("cannot make a directory for the service")?;
        let etc = dir.path().join("etc");
        fs::create_dir(&etc)?;
        fs::write(etc.join("config.toml"), CONFIGURATION)?;
        let state = State(dir);
        state.store()?;
        Ok(state)
    }

    /// Its profiles.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn store(&self) -> Result<Store> {
        Ok(Store::create(&state_dir(self.0.path()))?)
    }

    /// Has an app managed, as `paralfetch enable` does.
    ///
    /// # Errors
    /// When it is not there.
    pub fn enable(&self, app: &App) -> Result<()> {
        let id = id_of(app)?;
        let asked = self.files().ask(&id, PhaseRequest::Prefetch);
        asked.map_err(|error| anyhow!("cannot enable {id}: {error}"))?;
        Ok(())
    }

    /// What `stats` and `enable` go by.
    fn files(&self) -> ServiceFiles {
        ServiceFiles::new(&state_dir(self.0.path()))
    }
}

/// The name under which an app is managed.
fn id_of(app: &App) -> Result<String> {
    String::from_utf8(full_path(app)).context("the app's path is no text")
}

/// A running service, for launches of one app; killed when this is dropped.
pub struct Service {
    child: Child,
    pidfd: OwnedFd,
    state: State,
    app: App,
    id: String,
    /// Launches that it has written down.
    launches: usize,
}

impl Service {
    /// Starts it. `drive` is the device that the image is on, and its class.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(state: State, app: &App, drive: (u64, DriveClass)) -> Result<Self> {
        let dir = state.0.path().to_owned();
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

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The same, as a descriptor.
    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Waits until it can do with the next launch what the app's phase asks for.
    ///
    /// # Errors
    /// When it has ended, or is not ready in time.
    pub fn until_ready(&mut self) -> Result<()> {
        self.until("is not ready", |service| {
            let log = service.log()?;
            let to_learn = service
                .record()?
                .is_some_and(|record| matches!(record.managed.phase(), Phase::Learning { .. }));
            Ok(log.contains(READY) && (!to_learn || can_learn(&log)))
        })
    }

    /// Waits until its history has one more launch, and it has learned or scheduled anew what follows from
    /// that.
    ///
    /// # Errors
    /// When it has ended, or has not seen the launch in time.
    pub fn until_written(&mut self) -> Result<()> {
        let launches = self.launches + 1;
        self.until("has not written the launch down", |service| {
            // Reading the history takes longer than looking into the log, which comes first.
            Ok(service.log()?.matches(LAUNCH).count() >= launches
                // It knows no launches of an app that it does not find.
                && service.record()?.is_some()
                && service.history()?.len() >= launches
                && service.is_settled()?)
        })?;
        self.launches = launches;
        Ok(())
    }

    /// Whether the schedule that it asked for is there.
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
                let log = self.log()?;
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                bail!(
                    "the service {not}{ended}; its log ends, last line first: {}",
                    last.join(" | ")
                );
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn log(&self) -> Result<String> {
        let path = self.state.0.path().join("log");
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Its records of launches as `stats` shows them, newest first.
    fn history(&self) -> Result<Vec<LaunchRecord>> {
        let launches = self.state.files().launches(Some(&self.id), u32::MAX);
        launches.map_err(|error| anyhow!("cannot read the service's history: {error}"))
    }

    /// Its record of the last launch.
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

    /// Its record of the app; `None` before the first launch of an app that it knows from a profile only.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self) -> Result<Option<registry::Record>> {
        let (registry, damaged) = Registry::load(&state_dir(self.state.0.path()))?;
        if let Some(why) = damaged {
            bail!("{why}");
        }
        Ok(registry.get(&self.id).cloned())
    }

    /// Asks it to end, and waits.
    ///
    /// # Errors
    /// When it ends in another way than it should.
    pub fn stop(mut self) -> Result<()> {
        kill_process(self.pid(), Signal::TERM)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the service ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the learning thread was ready since the last launch.
fn can_learn(log: &str) -> bool {
    log.rfind(READY_TO_LEARN) > log.rfind(LAUNCH)
}

#[cfg(test)]
mod tests {
    use paralfetch::service::config::Config;

    use super::*;

    #[test]
    fn the_configuration_is_one() {
        let state = State::new().unwrap();
        let config = Config::load(&state.0.path().join("etc")).unwrap();
        assert!(!config.prefetch.withhold && config.prefetch.dynamic);
    }

    #[test]
    fn each_launch_has_the_learning_thread_load_anew() {
        assert!(!can_learn(""));
        let loaded = format!(" {READY}\"1\"\n{READY_TO_LEARN}\n");
        assert!(can_learn(&loaded));
        let learned = format!("{loaded} {LAUNCH}\"/a\" kind=Learned\n");
        assert!(!can_learn(&learned));
        assert!(can_learn(&format!("{learned}{READY_TO_LEARN}\n")));
    }
}
