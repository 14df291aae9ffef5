//! The shield and the other parts of the service.

use super::Parts;
use crate::service::config::WritesConfig;
use crate::service::launch::FollowedLaunch;
use crate::shield::Shield;

/// What is lost without the shield.
const NOT_SHIELDED: &str = "launches are not shielded from writes";

impl Parts {
    /// Has writes kept out of the way of a launch.
    pub(super) fn shield_launch(&mut self, launch: &FollowedLaunch) {
        let start = &launch.start;
        let profile = self.apps.profiles.get(&start.key);
        let learned = profile.map(|profile| profile.app.dev);
        let located = || self.watchlist.catalogue.located_device(&start.key.id);
        let dev = [learned, Some(start.app.dev)].into_iter().flatten();
        let dev = dev.chain(located()).find(|dev| *dev != 0).unwrap_or(0);
        self.shield.begins(launch.number, start.key.uid, dev);
        // Another process may have had the knobs when the service started.
        let retried = self.shield.retry();
        self.check(NOT_SHIELDED, retried);
    }

    /// A launch is over. Returns whether its drive was shielded from other programs' writes meanwhile.
    pub(super) fn end_shielding(&mut self, launch: u64) -> bool {
        let was_shielded = self.shield.ends(launch);
        let news = self.shield.news();
        news.into_iter().for_each(|news| self.warn(news));
        was_shielded
    }

    /// Takes other settings.
    pub(super) fn configure_shield(&mut self, wanted: WritesConfig) {
        let changed = self.shield.configure(wanted);
        self.check(NOT_SHIELDED, changed);
    }

    /// A shield with these settings was started, or could not be.
    pub fn shield_changed(
        &mut self,
        started: Result<Option<Shield>, String>,
        wanted: WritesConfig,
    ) {
        match self.shield.changed(started, wanted) {
            Ok(news) => news.into_iter().for_each(|news| self.warn(news)),
            Err(error) => self.warn(format!("{NOT_SHIELDED}: {error}")),
        }
    }
}
