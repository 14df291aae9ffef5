//! Which apps are likely to be launched, and how much may be read for them. This looks into files and the history, and
//! runs on the worker's threads.

use std::collections::BTreeMap;

use super::power::battery_percent;
use crate::drive::{Memory, SpinningDisks, Sysfs};
use crate::model::UserApp;
use crate::policy::likely::{PastLaunch, probabilities};
use crate::process::is_limited;
use crate::service::clock::{now_s, utc_offset_s};
use crate::service::config::WarmUpConfig;
use crate::service::history::History;
use crate::service::login;
use crate::shield::People;

/// Launches of one user, the last ones, from which is told what he launches next: some months.
const MOST_LAUNCHES: usize = 4000;

/// Share of the available memory that may be filled.
const MEMORY_SHARE: u64 = 4;

/// What is looked at before apps are chosen.
pub struct Surroundings {
    /// Who is logged in, and where limits are.
    pub people: People,
    /// Where batteries are.
    pub supplies: std::path::PathBuf,
    /// Where drives are.
    pub sysfs: Sysfs,
    /// The disks with heads as they were when something happened.
    pub disks: SpinningDisks,
    /// What the administrator allows.
    pub config: WarmUpConfig,
}

/// For whom something may be read, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The users who are logged in and whose reads have no limit.
    pub users: Vec<u32>,
    /// Bytes that may be read.
    pub budget: u64,
    /// Drives that may be asleep.
    pub asleep: Vec<u64>,
}

/// The likely apps.
pub struct LikelyApps {
    /// For which round they were looked for.
    pub round: u64,
    /// What may be read; nothing, where something forbids it.
    pub allowed: Allowed,
    /// Each app with its probability.
    pub apps: Vec<(UserApp, f64)>,
}

impl Surroundings {
    /// For whom something may be read now, and how much.
    ///
    /// # Errors
    /// Why nothing is.
    pub fn allow(&self) -> Result<Allowed, String> {
        let charge = battery_percent(&self.supplies);
        if let Some(charge) = charge.filter(|charge| *charge < self.config.battery_percent) {
            return Err(format!("the battery is at {charge} %"));
        }
        let mut users = self.people.logged_in();
        users.retain(|uid| !self.is_limited(*uid));
        if users.is_empty() {
            return Err("nobody is logged in who may".to_owned());
        }
        let most = self.config.max_mib << 20;
        let available = Memory::read().available.unwrap_or(0) / MEMORY_SHARE;
        Ok(Allowed {
            users,
            budget: most.min(available),
            asleep: self.sysfs.spinning_disks().idle_since(&self.disks),
        })
    }

    /// Whether a user's sessions may not read as much as they like (`io.max`): reading for them would not keep to that.
    fn is_limited(&self, uid: u32) -> bool {
        let slice = self.people.slices.join(format!("user-{uid}.slice"));
        is_limited(&slice) || is_limited(&self.people.slices)
    }
}

/// The likely apps of these users, by their launches.
pub fn likely_apps(users: &[u32], history: &History) -> Vec<(UserApp, f64)> {
    let mut found = Vec::new();
    for &uid in users {
        match history.launch_times(uid, MOST_LAUNCHES) {
            Ok(launches) => found.extend(likely_of_user(uid, launches)),
            // The next launch moves a damaged file aside, and says so.
            Err(error) => tracing::debug!("{error}"),
        }
    }
    found
}

fn likely_of_user(uid: u32, launches: Vec<(String, u64)>) -> Vec<(UserApp, f64)> {
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut past = Vec::new();
    // Who is logged in does not log in next.
    let launches = launches.into_iter().filter(|(app, _)| app != login::ID);
    for (app, at_s) in launches {
        let next = numbers.len() as u32;
        let app = *numbers.entry(app).or_insert(next);
        past.push(PastLaunch { app, at_s });
    }
    let names: BTreeMap<u32, String> = numbers.into_iter().map(|(name, app)| (app, name)).collect();
    let likely = probabilities(&past, now_s(), utc_offset_s());
    let named = likely.into_iter().filter_map(|(app, probability)| {
        let name = names.get(&app)?;
        Some((UserApp::new(uid, name.as_str()), probability))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::{TempDir, tempdir};

    use super::*;

    fn surroundings() -> (TempDir, Surroundings) {
        let dir = tempdir().unwrap();
        let surroundings = Surroundings {
            people: People {
                users: dir.path().join("users"),
                slices: dir.path().join("slices"),
                pressure: dir.path().join("pressure"),
            },
            supplies: dir.path().join("supplies"),
            sysfs: Sysfs::at(&dir.path().join("sys")),
            disks: SpinningDisks::default(),
            config: WarmUpConfig {
                max_mib: 1,
                ..WarmUpConfig::default()
            },
        };
        (dir, surroundings)
    }

    fn write(dir: &TempDir, path: &str, text: &str) {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_for_users_who_are_logged_in_and_whose_reads_have_no_limit() {
        let (dir, surroundings) = surroundings();
        assert!(surroundings.allow().is_err());
        for (user, state) in [("1000", "active"), ("1001", "online"), ("1002", "closing")] {
            write(&dir, &format!("users/{user}"), &format!("STATE={state}\n"));
        }
        let limit = "8:0 rbps=1048576 wbps=max riops=max wiops=max\n";
        write(&dir, "slices/user-1001.slice/io.max", limit);
        let allowed = surroundings.allow().unwrap();
        assert_eq!((allowed.users, allowed.budget), (vec![1000], 1 << 20));
        // What cannot be read may be a limit.
        fs::create_dir_all(dir.path().join("slices/user-1000.slice/io.max")).unwrap();
        assert!(surroundings.allow().is_err());
        fs::remove_dir(dir.path().join("slices/user-1000.slice/io.max")).unwrap();
        assert!(surroundings.allow().is_ok());
        write(&dir, "slices/io.max", limit);
        assert!(surroundings.allow().is_err());
    }

    #[test]
    fn nothing_is_read_on_a_battery_below_the_level() {
        let (dir, surroundings) = surroundings();
        write(&dir, "users/1000", "STATE=active\n");
        write(&dir, "supplies/BAT0/type", "Battery\n");
        write(&dir, "supplies/BAT0/status", "Discharging\n");
        for (charge, expected) in [("50", true), ("49", false)] {
            write(&dir, "supplies/BAT0/capacity", charge);
            assert_eq!(surroundings.allow().is_ok(), expected, "{charge} %");
        }
    }

    #[test]
    fn what_a_user_launches_often_is_his_likely_app() {
        let now_s = now_s();
        let launches = (0..20).map(|day| ("/usr/bin/gimp".to_owned(), now_s - day * 86_400));
        let once = ("/usr/bin/once".to_owned(), now_s - 19 * 86_400);
        let logins = (0..40).map(|day| (login::ID.to_owned(), now_s - day * 43_200));
        let launches: Vec<_> = launches.chain([once]).chain(logins).collect();
        let likely = likely_of_user(1000, launches);
        assert_eq!(likely.len(), 2, "{likely:?}");
        assert_eq!(likely[0].0, UserApp::new(1000, "/usr/bin/gimp"));
        assert!(likely[0].1 > 0.5, "{likely:?}");
    }
}
