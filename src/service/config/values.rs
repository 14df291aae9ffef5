//! The sections of the configuration, their defaults and ranges. `dist/config.toml` documents them for
//! the administrator; a test compares the two.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::log::LogLevel;
use super::range::{percent, whole};
use crate::drive::MemoryLimits;
use crate::model::LaunchLimits;
use crate::service::history;

/// Fewer reads than this in a window end a launch (paper §4.2).
const QUIET_READS: u64 = 10;
/// The paper's window is one second (§4.2).
const QUIET_WINDOW_MS: u64 = 1000;
/// The paper gives a launch up after 30 seconds (§4.2).
const TIMEOUT_S: u64 = 30;

/// `[launch]`: when a launch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchConfig {
    /// A window with fewer block reads than this is quiet, and ends the launch. 1 to 1000; 10.
    #[serde(deserialize_with = "whole::<_, 1, 1000>")]
    pub quiet_reads: u64,
    /// Length of the window, in milliseconds. 100 to 60,000, and shorter than `timeout_s`; 1000.
    #[serde(deserialize_with = "whole::<_, 100, 60_000>")]
    pub quiet_window_ms: u64,
    /// Longest launch, in seconds. 1 to 3600; 30.
    #[serde(deserialize_with = "whole::<_, 1, 3600>")]
    pub timeout_s: u64,
}

impl Default for LaunchConfig {
    fn default() -> Self {
        LaunchConfig {
            quiet_reads: QUIET_READS,
            quiet_window_ms: QUIET_WINDOW_MS,
            timeout_s: TIMEOUT_S,
        }
    }
}

impl From<&LaunchConfig> for LaunchLimits {
    fn from(launch: &LaunchConfig) -> LaunchLimits {
        LaunchLimits {
            min_reads: usize::try_from(launch.quiet_reads).unwrap_or(usize::MAX),
            window: Duration::from_millis(launch.quiet_window_ms),
            timeout: Duration::from_secs(launch.timeout_s),
        }
    }
}

/// The earliest point: FAST lost a launch's first dozen requests by starting late (FAST §5).
const EARLY: bool = true;

/// `[watch]`: how launches are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WatchConfig {
    /// Whether launches are seen at the execve system call's entry, before the kernel opens the
    /// file, instead of once it has executed it; true.
    pub early: bool,
}

impl Default for WatchConfig {
    fn default() -> Self {
        WatchConfig { early: EARLY }
    }
}

/// The paper's apps gained another 1.8 % to 4.8 % from dynamic scheduling (§5.2).
const DYNAMIC: bool = true;
/// Only withheld launches show what prefetching is worth. They cost a twentieth of the gain
/// ([`crate::policy::WITHHELD_ONE_IN`]).
const WITHHOLD: bool = true;
/// The launch needs memory beside the pages that are prefetched for it, and so do other apps.
const MAX_MEMORY_PERCENT: u64 = 30;
/// Above this, users notice that tasks wait for memory, and prefetched pages would evict others.
const PRESSURE_PERCENT: f64 = 10.0;

/// `[prefetch]`: how launches are prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefetchConfig {
    /// Whether schedules are tuned from launch to launch (dynamic scheduling, paper §3.3); true.
    pub dynamic: bool,
    /// Whether prefetching is withheld from a small share of cold launches, to know its gain; true.
    pub withhold: bool,
    /// A schedule of more bytes than this share of MemAvailable is not prefetched, in percent. 1 to
    /// 90; 30.
    #[serde(deserialize_with = "whole::<_, 1, 90>")]
    pub max_memory_percent: u64,
    /// Share of the last 10 s in which some task waited for memory (`some avg10` of
    /// /proc/pressure/memory) above which nothing is prefetched, in percent. 0 to 100; 10.
    #[serde(deserialize_with = "percent")]
    pub pressure_percent: f64,
}

impl Default for PrefetchConfig {
    fn default() -> Self {
        PrefetchConfig {
            dynamic: DYNAMIC,
            withhold: WITHHOLD,
            max_memory_percent: MAX_MEMORY_PERCENT,
            pressure_percent: PRESSURE_PERCENT,
        }
    }
}

impl From<&PrefetchConfig> for MemoryLimits {
    fn from(prefetch: &PrefetchConfig) -> MemoryLimits {
        MemoryLimits {
            available_percent: prefetch.max_memory_percent,
            pressure_percent: prefetch.pressure_percent,
        }
    }
}

/// A cold launch of a desktop app reads 75 to 270 MB; commands of a few megabytes are over before
/// prefetching could help.
const MIN_READ_MIB: u64 = 16;
/// Users do not notice a shorter wait. A cold launch of a desktop app waits about as long on a fast drive.
const MIN_WAIT_MS: u64 = 300;
/// One launch may have been large by chance: a large document, an update.
const LAUNCHES: u64 = 2;
/// 8 MB of profiles at 40 KB each. Users launch fewer programs than this.
const MAX_APPS: u64 = 200;

/// `[automatic]`: which programs automatic mode takes on that have no .desktop entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutomaticConfig {
    /// A launch that makes the drive read less is small, in MiB. 1 to 65,536; 16.
    #[serde(deserialize_with = "whole::<_, 1, 65_536>")]
    pub min_read_mib: u64,
    /// A launch that waits less for the drive is fast, in milliseconds. 0 to 60,000; 300.
    #[serde(deserialize_with = "whole::<_, 0, 60_000>")]
    pub min_wait_ms: u64,
    /// How many launches in a row must be neither, and alike. 1 to 100; 2.
    #[serde(deserialize_with = "whole::<_, 1, 100>")]
    pub launches: u64,
    /// Once so many apps are managed, the service takes others on only when the user names them. 1 to 10,000; 200.
    #[serde(deserialize_with = "whole::<_, 1, 10_000>")]
    pub max_apps: u64,
}

impl Default for AutomaticConfig {
    fn default() -> Self {
        AutomaticConfig {
            min_read_mib: MIN_READ_MIB,
            min_wait_ms: MIN_WAIT_MS,
            launches: LAUNCHES,
            max_apps: MAX_APPS,
        }
    }
}

/// About 2 MB: a year of 27 launches a day.
const MAX_LAUNCHES: u64 = 10_000;
/// Older launches say nothing about today's drive and apps.
const MAX_DAYS: u64 = 365;

/// `[history]`: how much is remembered of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// Most launches that are remembered. 100 to 100,000; 10,000.
    #[serde(deserialize_with = "whole::<_, 100, 100_000>")]
    pub max_launches: u64,
    /// For how many days. 1 to 3650; 365.
    #[serde(deserialize_with = "whole::<_, 1, 3650>")]
    pub max_days: u64,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        HistoryConfig {
            max_launches: MAX_LAUNCHES,
            max_days: MAX_DAYS,
        }
    }
}

impl From<&HistoryConfig> for history::HistoryLimits {
    fn from(history: &HistoryConfig) -> history::HistoryLimits {
        history::HistoryLimits {
            max_launches: history.max_launches,
            max_days: history.max_days,
        }
    }
}

/// `[log]`: what is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least severe messages that are logged; info.
    pub level: LogLevel,
}
