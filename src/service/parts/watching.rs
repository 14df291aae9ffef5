//! Which programs are watched for: the managed apps, and those that may become some because they have a .desktop entry, a
//! profile that was learned elsewhere, or have read much.

use std::path::Path;

use super::Parts;
use crate::fs::mounts::MountTable;
use crate::kernel::LaunchEvent;
use crate::model::UserApp;
use crate::policy::{Observation, Phase};
use crate::service::config::Mode;
use crate::service::discovery;
use crate::service::located_executables::LocatedExecutables;
use crate::service::message::Message;
use crate::service::own_process::{release_heap, work_behind};
use crate::service::seeds::{FoundSeeds, SeedPlaces};
use crate::service::warm_up::{WarmUpEvent, WarmUpOccasion};
use crate::service::watchlist::{FoundEntries, desktop_apps};

impl Parts {
    /// Has .desktop entries looked for, in automatic mode. In manual mode there are no candidates.
    pub fn find_candidates(&mut self) {
        self.kernel.report_large_readers(match self.config.mode {
            Mode::Automatic => self.config.automatic.min_read_mib << 20,
            Mode::Manual => 0,
        });
        if self.config.mode == Mode::Manual {
            self.watchlist.clear_candidates();
            self.watch_for_launches();
            return;
        }
        self.watchlist.take_candidates();
        let rules = self.catalogue.rules().clone();
        let outbox = self.outbox.clone();
        self.worker.jobs().run(move || {
            outbox.send(Message::DesktopApps(desktop_apps(&rules)));
        });
    }

    /// Has this machine's profiles made of those that were learned elsewhere: where one is new, or of all `again`, since
    /// files may have been replaced.
    pub fn find_seeds(&mut self, again: bool) {
        let places = SeedPlaces {
            shipped_dir: self.places.profiles_dir.clone(),
            state_dir: self.places.state_dir.clone(),
            sysfs: self.places.sysfs.clone(),
        };
        let Some(alive) = self.seed_search.begin(again) else {
            return;
        };
        let rules = self.catalogue.rules().clone();
        let search = move || {
            let found = places.update(again, &rules);
            release_heap();
            // Before the event loop hears of it: it may begin the next.
            drop(alive);
            Message::Seeds(found)
        };
        // A thread of its own: files of each are looked up, which may take a drive a minute.
        if let Err(error) = work_behind("pf-seeds", &self.outbox, search) {
            let what = "profiles from elsewhere are not looked for";
            self.warn(format!("{what}, no thread: {error}"));
        }
    }

    /// Takes profiles that were learned elsewhere. Their apps are managed from their first launch on, unless the mode is
    /// manual.
    pub fn set_seeds(&mut self, found: FoundSeeds) {
        let FoundSeeds {
            mut profiles,
            mut records,
            warnings,
        } = found;
        for warning in warnings {
            self.warn(warning);
        }
        tracing::debug!(profiles = profiles.len(), "profiles from elsewhere");
        let most = self.config.prefetch.max_profile_mib << 20;
        profiles.retain(|_, profile| profile.bytes <= most);
        records.retain(|record| profiles.contains_key(&record.key));
        self.apps.set_seeds(profiles);
        self.watchlist.set_seeded_apps(records);
        self.watch_for_launches();
        if let Some(again) = self.seed_search.ended() {
            self.find_seeds(again);
        }
    }

    /// The .desktop entries were found.
    pub fn set_desktop_apps(&mut self, found: FoundEntries) {
        self.watchlist.set_desktop_apps(found.apps);
        self.watchlist.set_starters(found.starters);
        let records = self.apps.registry.records.iter();
        let starters = records.filter(|(key, record)| {
            let is_off = matches!(record.managed.phase(), Phase::Disabled { .. });
            self.watchlist.is_starter(&key.id) && !is_off
        });
        let starters: Vec<UserApp> = starters.map(|(key, _)| key.clone()).collect();
        for key in starters {
            self.apps.observe(&key, &Observation::StartsOthers);
        }
        self.watch_for_launches();
    }

    /// Whether the program of this path is no app, since it starts others.
    pub fn is_starter(&self, id: &str) -> bool {
        self.watchlist.is_starter(id)
    }

    /// A process that was in no launch had read so many bytes when it exited, as this event says.
    pub fn has_read_much(&mut self, event: &LaunchEvent, bytes: u64) {
        self.warm_up(WarmUpEvent::Occasion(WarmUpOccasion::Ended));
        let path = event.path.to_str();
        let path = path.filter(|_| self.catalogue.is_of_system(event));
        let Some(key) = path.map(|path| UserApp::new(event.uid, path)) else {
            return;
        };
        let is_plausible = discovery::is_plausible(Path::new(&key.id));
        if !is_plausible || !self.may_become_app(&key) || !self.watchlist.has_room_for(&key) {
            return;
        }
        // The program will read much again.
        if self.worker.jobs().are_many() {
            return;
        }
        let outbox = self.outbox.clone();
        let rules = self.catalogue.rules().clone();
        let look = move |path: &str| {
            let mounts = MountTable::read().map_err(|error| error.to_string())?;
            discovery::check(Path::new(path), &rules, &mounts)
        };
        let check = move || match look(&key.id) {
            Ok(()) => {
                tracing::debug!(
                    app = key.id,
                    uid = key.uid,
                    bytes,
                    "read much: its next launches are followed"
                );
                outbox.send(Message::Discovered(key));
            }
            Err(why) => tracing::debug!(
                app = key.id,
                uid = key.uid,
                bytes,
                "read much and is no app: {why}"
            ),
        };
        self.worker.jobs().run(check);
    }

    fn may_become_app(&self, key: &UserApp) -> bool {
        self.config.mode == Mode::Automatic && !self.apps.registry.records.contains_key(key)
    }

    /// A program that had read much may become an app: its next launches are followed.
    pub fn follow_discovered(&mut self, key: &UserApp) {
        if self.may_become_app(key) && self.watchlist.begin_probation(key) {
            self.watch_for_launches();
        }
    }

    /// Tells the kernel side for which programs to look.
    pub fn watch_for_launches(&mut self) {
        self.watchlist
            .refresh(&mut self.catalogue, &self.apps.registry);
        self.refresh_watch();
        self.locate_executables();
    }

    /// Has the executables of apps found, and the links that users have to them.
    pub(super) fn locate_executables(&self) {
        let catalogue = &self.catalogue;
        let users = self.apps.registry.users();
        self.executables
            .locate(catalogue.executables(), users, catalogue.rules());
    }

    /// Executables were found, and with them the names by which they are executed.
    pub fn executables_located(&mut self, found: LocatedExecutables) {
        self.catalogue.located(found);
        self.refresh_watch();
        tracing::debug!("executables were located");
    }

    /// Tells the kernel side which launches are to be recorded from their beginning, and has a recorder ready for them.
    pub fn refresh_watch(&mut self) {
        let recorders = &self.recorders;
        let may_learn = |uid| recorders.has_share(uid);
        let watched = self
            .watchlist
            .watched(&self.catalogue, &self.apps.registry, may_learn);
        let to_learn = watched.to_learn;
        let is_changed = !self.kernel.watches(&watched.apps);
        let refused = match is_changed {
            true => self.kernel.watch_for(watched.apps),
            false => Vec::new(),
        };
        if !refused.is_empty() {
            let texts: Vec<_> = refused.iter().map(|it| it.text.to_string_lossy()).collect();
            self.warn(format!(
                "launches of these cannot be seen, their names are too long or too many: {}",
                texts.join(", ")
            ));
        }
        let kept = self.recorders.keep(to_learn);
        self.check("no learning thread can be started", kept);
        if self.recorders.is_newly_ready() || (is_changed && self.recorders.is_ready()) {
            tracing::debug!(apps = to_learn, "ready to learn");
        }
    }
}
