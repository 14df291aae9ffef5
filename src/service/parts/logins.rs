//! Logins, and the other parts of the service.

use rustix::process::Pid;

use super::Parts;
use crate::fs::mounts::MountTable;
use crate::service::catalogue::FoundApp;
use crate::service::config::Mode;
use crate::service::login;

/// How often the processes of a user are looked for when his login begins: some may be forked meanwhile.
const LOOKS: usize = 3;

/// A login that begins.
pub struct BegunLogin {
    /// The kernel side's number for it.
    pub launch: u64,
    /// One of its processes.
    pub pid: u32,
    /// What it is managed as.
    pub found: FoundApp,
}

impl Parts {
    /// Begins a login of this user, of the processes that he has.
    ///
    /// # Errors
    /// Why it is left alone.
    pub fn begin_login(&mut self, uid: u32) -> Result<BegunLogin, String> {
        let key = login::key(uid);
        if !self.config.warm_up.reads_logins() {
            return Err("warm_up.login or warm_up.enabled is false".to_owned());
        }
        if !self.apps.registry.records.contains_key(&key) {
            if self.config.mode == Mode::Manual {
                return Err("the mode is manual".to_owned());
            }
            if !self.manage(login::record(uid)) {
                return Err("too many apps are managed (automatic.max_apps)".to_owned());
            }
        }
        let mounts = MountTable::read().map_err(|error| error.to_string())?;
        let mut processes = login::processes(&mounts, uid);
        let Some(&first) = processes.first() else {
            return Err("no process is in its slice of cgroups of version 2".to_owned());
        };
        let Some(launch) = self.kernel.begin_session(uid) else {
            return Err("too many launches are under way".to_owned());
        };
        for _ in 0..LOOKS {
            let joined = processes.into_iter().filter(|&pid| self.joins(launch, pid));
            if joined.count() == 0 {
                break;
            }
            processes = login::processes(&mounts, uid);
        }
        let app = login::app(uid);
        Ok(BegunLogin {
            launch,
            pid: first as u32,
            found: FoundApp { key, app },
        })
    }

    /// Makes a process part of a login, unless it is part of a launch already.
    fn joins(&mut self, launch: u64, pid: i32) -> bool {
        let Some(pid) = Pid::from_raw(pid) else {
            return false;
        };
        self.kernel.join(launch, pid).unwrap_or_else(|error| {
            // It is gone, most likely.
            tracing::debug!("{error}");
            false
        })
    }
}
