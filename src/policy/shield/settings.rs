//! What the administrator may set.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use super::measure::MeasureKind;

/// How far the shield may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShieldProfile {
    /// Measures that cost the writer little, and the drive nothing.
    #[default]
    Default,
    /// Also few and small writes at a time in the drive and its scheduler: shortest waits, at the price of some of the
    /// drive's throughput.
    Responsive,
}

/// `[shield]`: what is done so that launches and waiting tasks do not wait for background writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShieldSettings {
    /// Whether anything is done at all.
    pub enabled: bool,
    /// How far it may go.
    pub profile: ShieldProfile,
    /// Whether writeback is held back for the time of a launch ([`MeasureKind::Hold`]).
    pub hold: bool,
    /// Whether what is dirty of one drive is limited (its bdi's `strict_limit` and `max_bytes`, Linux 6.2 and later;
    /// [`MeasureKind::Backlog`]).
    pub backlog: bool,
    /// Whether what is dirty of the whole system is limited where a drive has no limit of its own
    /// ([`MeasureKind::Dirty`]).
    pub dirty: bool,
    /// Whether the memory of writers is limited, by cgroup ([`MeasureKind::Group`]).
    pub group: bool,
    /// Whether the journal's thread, and the task that waits, get real-time I/O priority ([`MeasureKind::Journal`]).
    pub journal: bool,
    /// Whether the drive's scheduler and requests are changed ([`MeasureKind::Requests`]); only in the profile
    /// `responsive`.
    pub requests: bool,
    /// Whether the kernel's report that tasks wait for drives (/proc/pressure/io) is evidence, besides launches and
    /// tasks that were seen to wait.
    pub pressure: bool,
    /// How much of a drive may be dirty while it is limited, in MiB; from 1 to 1024.
    #[serde(deserialize_with = "whole::<_, 1, 1024>")]
    pub backlog_mib: u64,
    /// How much more may become dirty while writeback is held back, in percent of the memory available; from 1 to
    /// 50.
    #[serde(deserialize_with = "whole::<_, 1, 50>")]
    pub hold_percent: u64,
    /// Longest time for which writeback is held back at a stretch, in milliseconds; from 100 to 10,000. For as long
    /// again it is left alone.
    #[serde(deserialize_with = "whole::<_, 100, 10_000>")]
    pub longest_hold_ms: u64,
    /// Longest time of every other measure, until new evidence renews it, in seconds; from 1 to 60.
    #[serde(deserialize_with = "whole::<_, 1, 60>")]
    pub longest_limit_s: u64,
    /// How often a minute measures are taken on the account of one user; from 1 to 60.
    #[serde(deserialize_with = "whole::<_, 1, 60>")]
    pub grants_per_minute: u64,
    /// Largest share of time in which measures that others may feel are in force on the account of one user, in
    /// percent; from 1 to 100.
    #[serde(deserialize_with = "whole::<_, 1, 100>")]
    pub share_percent: u64,
}

impl Default for ShieldSettings {
    fn default() -> Self {
        ShieldSettings {
            enabled: true,
            profile: ShieldProfile::Default,
            hold: true,
            backlog: true,
            dirty: true,
            group: true,
            journal: true,
            requests: true,
            pressure: true,
            // An fsync beside a writer took a twenty-fifth of the time with it, and the writer was not slower.
            backlog_mib: 16,
            // What becomes dirty in a hold has to be written afterwards, by a drive of 25 MB/s and more.
            hold_percent: 20,
            // A prefetched launch beside a held writer is over within one to three seconds.
            longest_hold_ms: 5000,
            longest_limit_s: 20,
            // A user does not launch more often by hand than every five seconds.
            grants_per_minute: 12,
            share_percent: 50,
        }
    }
}

impl ShieldSettings {
    /// These settings with one kind of measure switched on, and all others off: for comparing them. `requests` needs
    /// the profile `responsive`, too, and sets it.
    pub fn only(self, kind: MeasureKind) -> Self {
        let mut settings = ShieldSettings {
            hold: false,
            backlog: false,
            dirty: false,
            group: false,
            journal: false,
            requests: false,
            ..self
        };
        *settings.switch(kind) = true;
        if kind == MeasureKind::Requests {
            settings.profile = ShieldProfile::Responsive;
        }
        settings
    }

    /// Whether this kind of measure may be taken.
    pub fn allows(&self, kind: MeasureKind) -> bool {
        let mut settings = *self;
        let responsive = self.profile == ShieldProfile::Responsive;
        self.enabled && *settings.switch(kind) && (kind != MeasureKind::Requests || responsive)
    }

    fn switch(&mut self, kind: MeasureKind) -> &mut bool {
        match kind {
            MeasureKind::Hold => &mut self.hold,
            MeasureKind::Backlog => &mut self.backlog,
            MeasureKind::Dirty => &mut self.dirty,
            MeasureKind::Group => &mut self.group,
            MeasureKind::Journal => &mut self.journal,
            MeasureKind::Requests => &mut self.requests,
        }
    }

    /// Most that may be dirty of a limited drive, in bytes.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_mib << 20
    }

    /// Longest time of a measure of this kind, until evidence renews it.
    pub fn longest(&self, kind: MeasureKind) -> Duration {
        match kind {
            MeasureKind::Hold => Duration::from_millis(self.longest_hold_ms),
            _ => Duration::from_secs(self.longest_limit_s),
        }
    }
}

impl fmt::Display for ShieldProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShieldProfile::Default => "default",
            ShieldProfile::Responsive => "responsive",
        })
    }
}

/// A whole number from `LOW` to `HIGH`.
fn whole<'de, D, const LOW: u64, const HIGH: u64>(value: D) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
{
    let number = i64::deserialize(value)?;
    match u64::try_from(number) {
        Ok(number) if (LOW..=HIGH).contains(&number) => Ok(number),
        _ => Err(D::Error::invalid_value(
            Unexpected::Signed(number),
            &format!("a whole number from {LOW} to {HIGH}").as_str(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_and_defaults_are_in_them() {
        let defaults = ShieldSettings::default();
        let json = serde_json::to_string(&defaults).unwrap();
        assert_eq!(
            serde_json::from_str::<ShieldSettings>(&json).unwrap(),
            defaults
        );
        assert_eq!(
            serde_json::from_str::<ShieldSettings>("{}").unwrap(),
            defaults
        );
        for wrong in [
            r#"{"longest_hold_ms": 99}"#,
            r#"{"longest_hold_ms": 10001}"#,
            r#"{"backlog_mib": -1}"#,
            r#"{"share_percent": 101}"#,
            r#"{"no_such": 1}"#,
        ] {
            let error = serde_json::from_str::<ShieldSettings>(wrong);
            assert!(error.is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_measure_can_be_switched_on_alone() {
        for only in MeasureKind::ALL {
            let settings = ShieldSettings::default().only(only);
            for kind in MeasureKind::ALL {
                assert_eq!(settings.allows(kind), kind == only, "{only} {kind}");
            }
        }
        let defaults = ShieldSettings::default();
        assert!(!defaults.allows(MeasureKind::Requests), "not asked for");
        let off = ShieldSettings {
            enabled: false,
            ..defaults
        };
        assert!(!MeasureKind::ALL.iter().any(|&kind| off.allows(kind)));
    }
}
