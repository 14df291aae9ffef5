//! What is done against waits, one thing at a time: all through the product's shield and its settings.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use paralfetch::model::DriveClass;
use paralfetch_waits::WaitOptions;
use rustix::process::Pid;

use super::benchmark::parse_list;
use super::shielding::{ShieldJob, ShieldProcess};
use super::waits::{Seen, Watcher};

/// Shorter waits are not told, as in the service.
const LEAST: Duration = Duration::from_millis(1);

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

    /// Its name on the command line and in records.
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
    /// Its file system's device, as stat(2) numbers it.
    pub dev: u64,
    /// Its class.
    pub class: DriveClass,
}

/// A measure in force.
pub struct InForce {
    watcher: Option<Watcher>,
    shield: Option<ShieldProcess>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// What the detector saw.
    pub seen: Option<Seen>,
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
        let watcher = if waits || measure == Measure::Detector {
            Some(Watcher::start(WaitOptions {
                least: LEAST,
                only: Some(root),
            })?)
        } else {
            None
        };
        Ok(InForce { watcher, shield })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the detector failed, or the shield does not end.
    pub fn end(mut self) -> Result<Ended> {
        let mut ended = Ended::default();
        if let Some(watcher) = self.watcher.take() {
            ended.seen = Some(watcher.finish()?);
        }
        if let Some(shield) = self.shield {
            ended.done = shield.end()?;
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
