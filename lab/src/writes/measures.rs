//! What is done against waits, one thing at a time: all through the product's shield and its settings.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use paralfetch::kernel::WaitOptions;
use paralfetch::model::DriveClass;
use paralfetch::policy::{MeasureKind, ShieldProfile, ShieldSettings};
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
    /// One kind of the shield's measures, and no other.
    Only(MeasureKind),
    /// What the kernel says of I/O pressure is the only reason for the shield to act.
    Pressure,
    /// The shield as it comes.
    Shield,
    /// The shield with all that it may do, in the profile `responsive`.
    Responsive,
}

impl Measure {
    /// All, in the order of tables.
    pub const ALL: [Measure; 11] = [
        Measure::None,
        Measure::Detector,
        Measure::Only(MeasureKind::Hold),
        Measure::Only(MeasureKind::Backlog),
        Measure::Only(MeasureKind::Dirty),
        Measure::Only(MeasureKind::Group),
        Measure::Only(MeasureKind::Journal),
        Measure::Only(MeasureKind::Requests),
        Measure::Pressure,
        Measure::Shield,
        Measure::Responsive,
    ];

    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Measure::None => "none",
            Measure::Detector => "detector",
            Measure::Only(kind) => kind.name(),
            Measure::Pressure => "pressure",
            Measure::Shield => "shield",
            Measure::Responsive => "responsive",
        }
    }

    /// Reads a list such as `shield,hold`; `all` are all of them. `none` is always among them, and first: others are
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

    /// What the shield may do; `None` without one.
    pub fn settings(self) -> Option<ShieldSettings> {
        let all = ShieldSettings::default();
        match self {
            Measure::None | Measure::Detector => None,
            Measure::Only(kind) => Some(ShieldSettings {
                pressure: false,
                ..all.only(kind)
            }),
            Measure::Pressure => Some(ShieldSettings {
                pressure: true,
                ..all
            }),
            Measure::Shield => Some(all),
            Measure::Responsive => Some(ShieldSettings {
                profile: ShieldProfile::Responsive,
                ..all
            }),
        }
    }

    /// Whether the detector tells the shield who waits.
    fn is_told_of_waits(self) -> bool {
        matches!(
            self,
            Measure::Only(_) | Measure::Shield | Measure::Responsive
        )
    }

    /// Whether the benchmark counts as a launch: writeback is held back for launches alone.
    fn is_launch(self) -> bool {
        self == Measure::Only(MeasureKind::Hold)
    }

    /// Whether the detector is attached, `waits` asked for or not.
    fn detects(self, waits: bool) -> bool {
        waits || self == Measure::Detector || self.is_told_of_waits()
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

impl Target {
    /// Its number as the kernel has it: major << 20 | minor.
    pub fn kernel_dev(&self) -> u32 {
        rustix::fs::major(self.dev) << 20 | rustix::fs::minor(self.dev)
    }
}

/// A measure in force.
pub struct InForce {
    watcher: Option<Watcher>,
    /// Where the watcher has it not.
    shield: Option<ShieldProcess>,
    launch: bool,
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
        let job = measure.settings().map(|settings| ShieldJob {
            settings,
            drive: (target.dev, target.class),
        });
        let mut shield = job.map(|job| ShieldProcess::start(job, lab)).transpose()?;
        if let (true, Some(shield)) = (measure.is_launch(), &mut shield) {
            shield.launch_begins(root, target.kernel_dev())?;
        }
        let mut in_force = InForce {
            watcher: None,
            shield,
            launch: measure.is_launch(),
        };
        if measure.detects(waits) {
            let told = if measure.is_told_of_waits() && !measure.is_launch() {
                in_force.shield.take()
            } else {
                None
            };
            let options = WaitOptions {
                least: LEAST,
                only: Some(root),
            };
            let told = told.map(|shield| (shield, target.kernel_dev()));
            in_force.watcher = Some(Watcher::start(options, told)?);
        }
        Ok(in_force)
    }

    /// The benchmark is over, the writer goes on.
    ///
    /// # Errors
    /// When the shield has ended.
    pub fn benchmark_ends(&mut self) -> Result<()> {
        match (self.launch, &mut self.shield) {
            (true, Some(shield)) => shield.launch_ends(),
            _ => Ok(()),
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the detector failed, or the shield does not end.
    pub fn end(mut self) -> Result<Ended> {
        let mut ended = Ended::default();
        if let Some(watcher) = self.watcher.take() {
            let (seen, shield) = watcher.finish()?;
            ended.seen = Some(seen);
            self.shield = self.shield.or(shield);
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
        assert_eq!(list("shield"), [Measure::None, Measure::Shield]);
        assert_eq!(list("hold,none").len(), 2);
        assert_eq!(list("all"), Measure::ALL);
        assert!(
            Measure::parse_list("boost")
                .unwrap_err()
                .to_string()
                .contains("backlog")
        );
    }

    #[test]
    fn each_kind_of_the_shield_has_its_turn() {
        for kind in MeasureKind::ALL {
            assert!(Measure::ALL.contains(&Measure::Only(kind)), "{kind}");
            let settings = Measure::Only(kind).settings().unwrap();
            assert!(settings.allows(kind) && !settings.pressure);
        }
        assert!(Measure::Detector.settings().is_none());
        assert_eq!(Measure::Shield.settings(), Some(ShieldSettings::default()));
        assert!(Measure::Detector.detects(false) && !Measure::None.detects(false));
        assert!(Measure::None.detects(true) && !Measure::Pressure.is_told_of_waits());
    }

    #[test]
    fn devices_are_numbered_as_the_kernel_does() {
        let target = Target {
            dev: rustix::fs::makedev(7, 300),
            class: DriveClass::CommandQueuing,
        };
        assert_eq!(target.kernel_dev(), 7 << 20 | 300);
    }
}
