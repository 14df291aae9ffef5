//! The sections of the configuration, their defaults and ranges. `dist/config.toml` documents them for
//! the administrator; a test compares the two.

use std::fmt;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use crate::drive::MemoryLimits;
use crate::model::LaunchLimits;
use crate::policy::TuningRules;

/// Whose launches are managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Only the apps that were enabled or announced
    Manual,
    /// These, every app with a .desktop entry, and programs whose launches are large and slow several times in a row
    #[default]
    Automatic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// `[launch]`: when a launch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchConfig {
    /// A window with fewer block reads than this is quiet, and ends the launch.
    #[serde(deserialize_with = "whole::<_, 1, 1000>")]
    pub quiet_reads: u64,
    /// Length of the window, in milliseconds; shorter than `timeout_s`.
    #[serde(deserialize_with = "whole::<_, 100, 60_000>")]
    pub quiet_window_ms: u64,
    /// Longest launch, in seconds.
    #[serde(deserialize_with = "whole::<_, 1, 3600>")]
    pub timeout_s: u64,
}

impl Default for LaunchConfig {
    /// The paper's numbers (§4.2).
    fn default() -> Self {
        LaunchConfig {
            quiet_reads: 10,
            quiet_window_ms: 1000,
            timeout_s: 30,
        }
    }
}

impl LaunchConfig {
    /// How long after a launch nothing of it is under way any more, and its user has what he wanted: ten windows.
    pub fn rest(&self) -> Duration {
        10 * Duration::from_millis(self.quiet_window_ms)
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

/// `[watch]`: how launches are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WatchConfig {
    /// Whether launches are seen at the execve system call's entry, before the kernel opens the
    /// file, instead of once it has executed it.
    pub early: bool,
}

impl Default for WatchConfig {
    fn default() -> Self {
        // FAST lost a launch's first dozen requests by starting late (FAST §5).
        WatchConfig { early: true }
    }
}

/// `[prefetch]`: how launches are prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefetchConfig {
    /// Whether schedules are tuned from launch to launch (dynamic scheduling, paper §3.3).
    pub dynamic: bool,
    /// Whether prefetching is withheld from a small share of cold launches, to know its gain.
    pub withhold: bool,
    /// Whether drives are measured while nobody uses them.
    pub probe: bool,
    /// A schedule of more bytes than this share of MemAvailable is not prefetched, in percent.
    #[serde(deserialize_with = "whole::<_, 1, 90>")]
    pub max_memory_percent: u64,
    /// A launch that needs more is only learned of an app that the administrator has named, in MiB.
    #[serde(deserialize_with = "whole::<_, 1, 65_536>")]
    pub max_profile_mib: u64,
    /// How many launches of an app are learned in a row at most, until its profile is settled.
    #[serde(deserialize_with = "whole::<_, 1, 20>")]
    pub max_learned_launches: u64,
    /// Share of the last 10 s in which some task waited for memory (`some avg10` of
    /// /proc/pressure/memory) above which nothing is prefetched, in percent.
    #[serde(deserialize_with = "percent")]
    pub pressure_percent: f64,
}

impl Default for PrefetchConfig {
    fn default() -> Self {
        PrefetchConfig {
            // The paper's apps gained another 1.8 % to 4.8 % from it (§5.2).
            dynamic: true,
            // Only withheld launches show what prefetching is worth. They cost a twentieth of the gain
            // (`WITHHELD_ONE_IN` in `policy::gain`).
            withhold: true,
            // Two seconds of reads every three months; without them, schedules rest on guesses.
            probe: true,
            // The launch needs memory beside the pages that are prefetched for it, and so do other apps.
            max_memory_percent: 30,
            // The largest of the laboratory's apps needs 270 MB.
            max_profile_mib: 512,
            // Each further launch tells less; see `policy::LearnedLaunches`.
            max_learned_launches: 5,
            // Above this, users notice that tasks wait for memory, and prefetched pages would evict others.
            pressure_percent: 10.0,
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

/// `[tuning]`: how far dynamic scheduling goes, and in which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TuningConfig {
    /// Context switches, in percent of the read requests of a cold launch, up to which prefetching is in time.
    #[serde(deserialize_with = "whole::<_, 0, 100>")]
    pub in_time_percent: u64,
    /// Step of the metadata shift, in KiB.
    #[serde(deserialize_with = "whole::<_, 4, 1024>")]
    pub shift_step_kib: u64,
    /// Largest metadata shift, in KiB.
    #[serde(deserialize_with = "whole::<_, 0, 4096>")]
    pub max_shift_kib: u64,
    /// Step of the I/O distance, in positions of the launch sequence.
    #[serde(deserialize_with = "whole::<_, 1, 1024>")]
    pub distance_step: u64,
    /// Largest I/O distance.
    #[serde(deserialize_with = "whole::<_, 0, 1024>")]
    pub max_distance: u64,
    /// Step of infill's hole, in pages.
    #[serde(deserialize_with = "whole::<_, 1, 1024>")]
    pub hole_step: u64,
    /// Largest hole, in pages.
    #[serde(deserialize_with = "whole::<_, 0, 1024>")]
    pub max_hole: u64,
}

impl Default for TuningConfig {
    fn default() -> Self {
        let rules = TuningRules::default();
        TuningConfig {
            in_time_percent: rules.in_time_percent,
            shift_step_kib: rules.shift_step >> 10,
            max_shift_kib: rules.max_shift >> 10,
            distance_step: rules.distance_step,
            max_distance: rules.max_distance,
            hole_step: rules.hole_step,
            max_hole: rules.max_hole,
        }
    }
}

impl From<&TuningConfig> for TuningRules {
    fn from(tuning: &TuningConfig) -> TuningRules {
        TuningRules {
            in_time_percent: tuning.in_time_percent,
            shift_step: tuning.shift_step_kib << 10,
            max_shift: tuning.max_shift_kib << 10,
            distance_step: tuning.distance_step,
            max_distance: tuning.max_distance,
            hole_step: tuning.hole_step,
            max_hole: tuning.max_hole,
        }
    }
}

/// `[automatic]`: which programs automatic mode takes on that have no .desktop entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutomaticConfig {
    /// A launch that makes the drive read less is small, in MiB.
    #[serde(deserialize_with = "whole::<_, 1, 65_536>")]
    pub min_read_mib: u64,
    /// A launch that waits less for the drive is fast, in milliseconds.
    #[serde(deserialize_with = "whole::<_, 0, 60_000>")]
    pub min_wait_ms: u64,
    /// How many launches in a row must be neither.
    #[serde(deserialize_with = "whole::<_, 1, 100>")]
    pub launches: u64,
    /// Once so many apps of one user are managed, the service takes others of his on only when the administrator names
    /// them.
    #[serde(deserialize_with = "whole::<_, 1, 10_000>")]
    pub max_apps: u64,
    /// Size of the profiles of one user's apps together, besides those that the administrator has named, in MiB.
    #[serde(deserialize_with = "whole::<_, 1, 1024>")]
    pub max_profiles_mib: u64,
}

impl Default for AutomaticConfig {
    fn default() -> Self {
        AutomaticConfig {
            // A cold launch of a desktop app reads 75 to 270 MB; commands of a few megabytes are over
            // before prefetching could help.
            min_read_mib: 16,
            // Users do not notice a shorter wait. A cold launch of a desktop app waits about as long on a
            // fast drive.
            min_wait_ms: 300,
            // One launch may have been large by chance: a large document, an update.
            launches: 2,
            // 8 MB of profiles at 40 KB each. Users launch fewer programs than this.
            max_apps: 200,
            // Twice as much as that.
            max_profiles_mib: 16,
        }
    }
}

/// `[history]`: how much is remembered of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// Most launches of each user that are remembered.
    #[serde(deserialize_with = "whole::<_, 100, 100_000>")]
    pub max_launches: u64,
    /// For how many days, by the clock that each launch was recorded with.
    #[serde(deserialize_with = "whole::<_, 1, 3650>")]
    pub max_days: u64,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        HistoryConfig {
            // About 2 MB: a year of 27 launches a day.
            max_launches: 10_000,
            // Older launches say nothing about today's drive and apps.
            max_days: 365,
        }
    }
}

/// `[log]`: what is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least severe messages that are logged.
    pub level: LogLevel,
}

/// Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

/// A whole number from `LOW` to `HIGH`.
pub(super) fn whole<'de, D, const LOW: u64, const HIGH: u64>(value: D) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
{
    let value = Value::deserialize(value)?;
    let number = value.as_integer().and_then(|n| u64::try_from(n).ok());
    number
        .filter(|number| (LOW..=HIGH).contains(number))
        .ok_or_else(|| unexpected(&value, format_args!("a whole number from {LOW} to {HIGH}")))
}

/// A number of percent, with or without a fraction.
fn percent<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(value)?;
    let number = value.as_float().or(value.as_integer().map(|n| n as f64));
    number
        // NaN lies in no range.
        .filter(|number| (0.0..=100.0).contains(number))
        .ok_or_else(|| unexpected(&value, format_args!("a number from 0 to 100")))
}

fn unexpected<E: Error>(value: &Value, expected: fmt::Arguments<'_>) -> E {
    E::custom(format_args!("invalid value: {value}, expected {expected}"))
}
