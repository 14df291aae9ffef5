//! What is done against waits, one thing at a time, by the product's shield; and what the detector saw meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use paralfetch::model::DriveClass;
use paralfetch_waits::{SeenWaits, WaitOptions, WaitSum, WaitTotals, WaitWatch};
use rustix::process::Pid;

use super::benchmark::parse_list;
use super::shielding::{ShieldJob, ShieldProcess};
use crate::record::Waited;

/// Shorter waits are not told: the default of `paralfetch-waits`.
const LEAST: Duration = Duration::from_millis(1);

/// Longest wait for the detector's programs.
const LOADING: Duration = Duration::from_secs(60);

/// Most names of whom was waited for.
const NAMES: usize = 3;

/// What is done while a benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Nothing: what others are compared with.
    None,
    /// The detector alone: what it costs to look.
    Detector,
    /// The product's shield: few and small writes at a time, once the kernel says that tasks wait.
    Requests,
}

impl Measure {
    /// All, in the order of tables.
    pub const ALL: [Measure; 3] = [Measure::None, Measure::Detector, Measure::Requests];

    /// Name of the measure on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Measure::None => "none",
            Measure::Detector => "detector",
            Measure::Requests => "requests",
        }
    }

    /// Reads a list such as `detector,requests`; `all` are all of them. `none` is always among them, and first: others are
    /// compared with it.
    ///
    /// # Errors
    /// Names the word that is no measure.
    pub fn parse_list(list: &str) -> Result<Vec<Measure>> {
        let mut found = parse_list(list, "measure", &Self::ALL, Self::name)?;
        found.retain(|measure| *measure != Measure::None);
        found.insert(0, Measure::None);
        Ok(found)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The drive that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Device of the drive's file system, as stat(2) numbers it.
    pub dev: u64,
    /// Class of the drive.
    pub class: DriveClass,
}

/// A measure in force.
pub struct InForce {
    watch: Option<WaitWatch>,
    shield: Option<ShieldProcess>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Ended {
    /// What the detector saw.
    pub seen: Option<SeenWaits>,
    /// What the shield did, a line each.
    pub done: Vec<String>,
}

impl InForce {
    /// Begins, for a benchmark with this process; `waits`: the detector looks in any case. `lab` is this
    /// program.
    ///
    /// # Errors
    /// When the detector or the shield cannot be started.
    pub fn start(
        measure: Measure,
        waits: bool,
        root: Pid,
        target: Target,
        lab: &Path,
    ) -> Result<Self> {
        let job = ShieldJob {
            drive: (target.dev, target.class),
        };
        let shield = match measure {
            Measure::Requests => Some(ShieldProcess::start(job, lab)?),
            Measure::None | Measure::Detector => None,
        };
        let watch = (waits || measure == Measure::Detector).then(|| {
            WaitWatch::start(WaitOptions {
                least: LEAST,
                only: Some(root),
            })
        });
        let attached = watch
            .as_ref()
            .is_none_or(|watch| watch.until_attached(LOADING));
        ensure!(attached, "the detector was not ready in time");
        Ok(InForce { watch, shield })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the detector failed, or the shield does not end.
    pub fn end(self) -> Result<Ended> {
        let seen = self.watch.map(WaitWatch::finish).transpose();
        Ok(Ended {
            seen: seen.map_err(Error::msg).context("cannot see who waits")?,
            done: self.shield.map_or(Ok(Vec::new()), ShieldProcess::end)?,
        })
    }
}

/// Waits by type, the longest in total first.
pub fn waited(totals: &WaitTotals) -> Vec<Waited> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let rows = totals.by_cause.rows().into_iter();
    rows.map(|(cause, sum)| Waited {
        cause: cause.name().to_owned(),
        count: sum.count,
        total_ms: ms(sum.total_ns),
        worst_ms: ms(sum.worst_ns),
        for_whom: names(sum),
    })
    .collect()
}

/// The names for whose tasks the longest was waited.
fn names(sum: &WaitSum) -> Vec<String> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for (process, time) in &sum.for_whom {
        *times.entry(&process.name).or_default() += time;
    }
    let mut names: Vec<(&str, u64)> = times.into_iter().collect();
    names.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    names.truncate(NAMES);
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use paralfetch_waits::{Wait, WaitCause, WaitTask};

    use super::*;

    #[test]
    fn waits_are_summed_by_type_and_name() {
        let task = |comm: &str, pid| WaitTask {
            pid,
            tid: pid,
            comm: comm.to_owned(),
            uid: 0,
        };
        let mut totals = WaitTotals::default();
        for (cause, ms, whom) in [
            (WaitCause::Metadata, 5, Some(("kworker", 2))),
            (WaitCause::Sync, 900, None),
            (WaitCause::Metadata, 4, Some(("jbd2", 3))),
            (WaitCause::Metadata, 3, Some(("jbd2", 4))),
        ] {
            totals.add(&Wait {
                task: task("m1", 1),
                cause,
                start_ns: 0,
                duration_ns: ms * 1_000_000,
                device: None,
                inode: None,
                block: None,
                for_whom: whom.map(|(comm, pid)| task(comm, pid)),
                under_way: false,
            });
        }
        let [sync, metadata] = &waited(&totals)[..] else {
            panic!("{totals:?}");
        };
        assert_eq!((sync.cause.as_str(), sync.total_ms), ("sync", 900.0));
        let of = (metadata.count, metadata.total_ms, metadata.worst_ms);
        assert_eq!(of, (3, 12.0, 5.0));
        assert_eq!(metadata.for_whom, ["jbd2", "kworker"]);
    }

    #[test]
    fn lists_begin_with_none() {
        let list = |names| Measure::parse_list(names).unwrap();
        assert_eq!(list("requests"), [Measure::None, Measure::Requests]);
        assert_eq!(list("detector,none").len(), 2);
        assert_eq!(list("all"), Measure::ALL);
        assert!(
            Measure::parse_list("boost")
                .unwrap_err()
                .to_string()
                .contains("requests")
        );
    }
}
