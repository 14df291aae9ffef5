//! `[writes]`: what may be done so that launches do not wait for other programs' writes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::whole;
use crate::policy::{MeasureKind, ShieldProfile, ShieldSettings};

/// `[writes]`: what may be done so that launches do not wait for other programs' writes. The measures are those of
/// [`MeasureKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WritesConfig {
    /// Whether anything is done at all.
    pub shield: bool,
    /// Whether it may cost the drive some of its throughput.
    pub responsive: bool,
    /// [`MeasureKind::Hold`].
    pub hold: bool,
    /// [`MeasureKind::Backlog`].
    pub backlog: bool,
    /// [`MeasureKind::Dirty`].
    pub dirty: bool,
    /// [`MeasureKind::Group`].
    pub group: bool,
    /// [`MeasureKind::Journal`].
    pub journal: bool,
    /// [`MeasureKind::Requests`], if [`WritesConfig::responsive`].
    pub requests: bool,
    /// Whether pressure on drives (/proc/pressure/io) is evidence, too.
    pub pressure: bool,
    /// How much of a drive may be dirty while it is limited, in MiB.
    #[serde(deserialize_with = "whole::<_, 1, 1024>")]
    pub backlog_mib: u64,
    /// How much more may become dirty while writeback is held back, in percent of the memory available.
    #[serde(deserialize_with = "whole::<_, 1, 50>")]
    pub hold_percent: u64,
    /// Longest time for which writeback is held back at a stretch, in milliseconds.
    #[serde(deserialize_with = "whole::<_, 100, 10_000>")]
    pub longest_hold_ms: u64,
    /// Longest time of every other measure, until new evidence renews it, in seconds.
    #[serde(deserialize_with = "whole::<_, 1, 60>")]
    pub longest_limit_s: u64,
    /// How often a minute measures are taken on the account of one user.
    #[serde(deserialize_with = "whole::<_, 1, 60>")]
    pub grants_per_minute: u64,
    /// Largest share of time in which measures are in force on the account of one user, in percent.
    #[serde(deserialize_with = "whole::<_, 1, 100>")]
    pub share_percent: u64,
}

impl Default for WritesConfig {
    fn default() -> Self {
        let settings = ShieldSettings::default();
        WritesConfig {
            shield: settings.enabled,
            responsive: settings.profile == ShieldProfile::Responsive,
            hold: settings.hold,
            backlog: settings.backlog,
            dirty: settings.dirty,
            group: settings.group,
            journal: settings.journal,
            requests: settings.requests,
            pressure: settings.pressure,
            backlog_mib: settings.backlog_mib,
            hold_percent: settings.hold_percent,
            longest_hold_ms: settings.longest_hold_ms,
            longest_limit_s: settings.longest_limit_s,
            grants_per_minute: settings.grants_per_minute,
            share_percent: settings.share_percent,
        }
    }
}

impl From<&WritesConfig> for ShieldSettings {
    fn from(writes: &WritesConfig) -> ShieldSettings {
        ShieldSettings {
            enabled: writes.shield,
            profile: match writes.responsive {
                true => ShieldProfile::Responsive,
                false => ShieldProfile::Default,
            },
            hold: writes.hold,
            backlog: writes.backlog,
            dirty: writes.dirty,
            group: writes.group,
            journal: writes.journal,
            requests: writes.requests,
            pressure: writes.pressure,
            backlog_mib: writes.backlog_mib,
            hold_percent: writes.hold_percent,
            longest_hold_ms: writes.longest_hold_ms,
            longest_limit_s: writes.longest_limit_s,
            grants_per_minute: writes.grants_per_minute,
            share_percent: writes.share_percent,
        }
    }
}

impl WritesConfig {
    /// Longest time for which the keeper leaves a setting changed that its process does not renew: longer than any
    /// measure, since some last for as long as their reason is renewed.
    pub const KEEPER_LIMIT: Duration = Duration::from_secs(90);

    /// Longest time of a measure whose reason is not renewed.
    pub fn longest(&self) -> Duration {
        let settings = ShieldSettings::from(self);
        let longest = MeasureKind::ALL.into_iter();
        longest
            .map(|kind| settings.longest(kind))
            .max()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_the_shield_is_the_administrators() {
        let defaults = WritesConfig::default();
        assert_eq!(ShieldSettings::from(&defaults), ShieldSettings::default());
        // Each value as far from its default as it may be.
        let others = WritesConfig {
            shield: false,
            responsive: true,
            hold: false,
            backlog: false,
            dirty: false,
            group: false,
            journal: false,
            requests: false,
            pressure: false,
            backlog_mib: 1024,
            hold_percent: 50,
            longest_hold_ms: 100,
            longest_limit_s: 60,
            grants_per_minute: 60,
            share_percent: 1,
        };
        let expected = ShieldSettings {
            enabled: false,
            profile: ShieldProfile::Responsive,
            hold: false,
            backlog: false,
            dirty: false,
            group: false,
            journal: false,
            requests: false,
            pressure: false,
            backlog_mib: 1024,
            hold_percent: 50,
            longest_hold_ms: 100,
            longest_limit_s: 60,
            grants_per_minute: 60,
            share_percent: 1,
        };
        assert_eq!(ShieldSettings::from(&others), expected);
        assert_eq!(others.longest(), Duration::from_secs(60));
        assert!(others.longest() < WritesConfig::KEEPER_LIMIT);
        let no = MeasureKind::ALL
            .into_iter()
            .all(|kind| !expected.allows(kind));
        assert!(no, "off with one setting");
    }
}
