//! `[warm_up]`: what is read ahead before launches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::whole;

/// `[warm_up]`: whether likely apps are read ahead before they are launched, while nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarmUpConfig {
    /// Whether anything is read at all.
    pub enabled: bool,
    /// Whether what a login reads is learned, and read ahead at the next ones; only with `enabled`.
    pub login: bool,
    /// Nothing must have happened for so many seconds.
    #[serde(deserialize_with = "whole::<_, 1, 3600>")]
    pub quiet_s: u64,
    /// Most that is read at a time, in MiB; a quarter of MemAvailable, if that is less.
    #[serde(deserialize_with = "whole::<_, 1, 65_536>")]
    pub max_mib: u64,
    /// On battery, nothing is read below this charge, in percent.
    #[serde(deserialize_with = "whole::<_, 0, 100>")]
    pub battery_percent: u64,
}

impl Default for WarmUpConfig {
    fn default() -> Self {
        WarmUpConfig {
            enabled: true,
            // No login of a real desktop has been measured yet.
            login: false,
            // A desktop pauses for some seconds while it starts.
            quiet_s: 10,
            // Some ten apps.
            max_mib: 1024,
            // What is read for nobody costs a battery little, and an empty one more than a slow launch.
            battery_percent: 50,
        }
    }
}

impl WarmUpConfig {
    /// Whether logins are learned and read ahead.
    pub fn reads_logins(&self) -> bool {
        self.enabled && self.login
    }

    /// For how long nothing must have happened.
    pub fn quiet(&self) -> Duration {
        Duration::from_secs(self.quiet_s)
    }
}
