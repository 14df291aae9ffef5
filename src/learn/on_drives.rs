//! Making a schedule for the drives that a launch is read from.
//!
//! A simulation chooses the order of requests ([`choose`]) by the drives' models. On disks with heads and drives that
//! serve one command at a time the order decides, so that until they are measured the models of their classes will do.
//! Where a drive has a queue, what is gained is small beside what drives of the class differ by: until it is measured,
//! the schedule is that of its class. The drive that most is read from decides ([`main_device`]): of the others, on which
//! an app has a few files, guesses will do.

use std::collections::BTreeSet;
use std::path::Path;

use crate::drive::{KeptModels, KnownDrive, Sysfs, known_drives};
use crate::fs::mounts::MountTable;
use crate::fs::present::probable_device;
use crate::model::{
    Device, DeviceParams, DriveClass, DriveModel, Hold, Learned, LogEntry, Origin, Params,
    PrefetchEntry, Profile, Span,
};
use crate::schedule::{
    Choices, ChosenSchedule, Elevator, Holding, LaunchSimulator, choose, main_device, schedule_for,
};

/// Most log entries that are simulated: a candidate takes 1 µs of processor time for each, and there are some
/// hundred.
const MOST_ENTRIES: usize = 40_000;

/// What a schedule is made for.
#[derive(Clone, Copy, Debug)]
pub struct OnDrives<'a> {
    /// The device table.
    pub devices: &'a [Device],
    /// The class of the drive that most is read from, and its parameters.
    pub main: DriveClass,
    pub params: Params,
    /// How the launch sequence was learned.
    pub learned: Learned,
    /// Where the models of drives are kept. `None`: nothing is simulated.
    pub state_dir: Option<&'a Path>,
}

/// How a launch is prefetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledLaunch {
    /// In prefetch order.
    pub entries: Vec<PrefetchEntry>,
    /// What the app is held for.
    pub hold: Option<Hold>,
}

impl From<ChosenSchedule> for ScheduledLaunch {
    /// The app is held for no longer than the launch is predicted to gain by all of its prefetch, so that one that is let go
    /// then has lost no more than that. A limit nearer to what the hold is predicted to take would end holds that are
    /// worth seconds: predictions of it are wrong, too.
    fn from(chosen: ChosenSchedule) -> Self {
        let most_ms = (chosen.cold_us - chosen.predicted_us) / 1000.0;
        // Both casts saturate.
        let most_ms = (most_ms as u16).min(Hold::LONGEST.as_millis() as u16);
        let hold = Hold {
            entries: chosen.held as u32,
            most_ms,
        };
        ScheduledLaunch {
            entries: chosen.entries,
            hold: (chosen.held > 0 && most_ms > 0).then_some(hold),
        }
    }
}

impl ScheduledLaunch {
    /// Whether a profile has it.
    pub fn is_of(&self, profile: &Profile) -> bool {
        self.hold == profile.hold && self.entries == profile.entries
    }

    /// Puts it in the place of a profile's.
    pub fn put_into(self, profile: &mut Profile) {
        let ScheduledLaunch { entries, hold } = self;
        (profile.entries, profile.hold) = (entries, hold);
    }
}

impl OnDrives<'_> {
    /// The schedule of a launch sequence in access order, whose launch is over with this page; with its last access where
    /// there is none.
    pub fn schedule(&self, log: &[LogEntry], completion: Option<Span>) -> ScheduledLaunch {
        let usual = DeviceParams::new(self.devices, self.main, self.params);
        let main = main_device(log).filter(|_| log.len() <= MOST_ENTRIES);
        let Some(drives) = main.and_then(|main| self.drives_with(main)) else {
            return ScheduledLaunch {
                entries: schedule_for(log, &usual),
                hold: None,
            };
        };
        let choices = Choices {
            usual: &usual,
            params: self.params,
            learned: self.learned,
            over_at: completion.and_then(|page| position(log, page)),
            // Where it would favour the app, it is told not to while a launch is read ahead (`drive::Elevators`).
            elevator: Elevator::Sorts,
            holding: Holding::Never,
        };
        let models = models_or_guesses(drives, self.devices);
        ScheduledLaunch::from(choose(log, &models, &choices))
    }

    /// When a launch with this schedule should come to its completion page, in µs since prefetching began, and the kernel's
    /// names of its drives, each once. What a launch accesses later is no part of the time that it takes. `None` unless all
    /// that the launch sequence is read from were measured.
    pub fn expected(
        &self,
        ScheduledLaunch { entries, hold }: &ScheduledLaunch,
        completion: Span,
        log: impl FnOnce() -> Option<Vec<LogEntry>>,
    ) -> Option<(f64, Vec<String>)> {
        let drives = self.drives()?;
        // Where none was measured, the launch sequence is not asked for: it has to be found on the disks.
        let is_measured = |drive: &Option<KnownDrive>| {
            let measured = drive.as_ref().and_then(|drive| drive.measured);
            measured.is_some()
        };
        if !drives.iter().any(is_measured) {
            return None;
        }
        let log = log().filter(|log| log.len() <= MOST_ENTRIES)?;
        let mut names = Vec::new();
        for device in devices_of(&log) {
            let drive = drives.get(device).filter(|drive| is_measured(drive))?;
            names.extend(drive.as_ref().map(|drive| drive.name.clone()));
        }
        names.sort_unstable();
        names.dedup();
        let last = position(&log, completion)?;
        let models = models_or_guesses(drives, self.devices);
        let launch = LaunchSimulator::new(&log, &models, self.learned);
        let held = hold.map_or(0, |hold| hold.entries as usize);
        let accessed_us = launch.simulate(entries, held).accessed_us;
        Some((*accessed_us.get(last)?, names))
    }

    /// The drives of the devices, in their order; `None` if that of the main device is not known well enough.
    fn drives_with(&self, main: usize) -> Option<Vec<Option<KnownDrive>>> {
        self.drives().filter(|drives| is_known_well(drives, main))
    }

    /// The drives of the devices, in their order. `None` in place of one that is unknown, or lies on several drives, so that
    /// positions tell no distance; `None` in place of all without models, or a mount table.
    fn drives(&self) -> Option<Vec<Option<KnownDrive>>> {
        // Models that cannot be read are reported by `doctor` and `probe`.
        let kept = KeptModels::load(self.state_dir?).unwrap_or_default();
        let mounts = MountTable::read().ok()?;
        let sysfs = Sysfs::default();
        let drive = |device: &Device| {
            let dev = probable_device(device, &mounts)?;
            let mut drives = known_drives([dev], &sysfs, &mounts, &kept);
            let drive = drives.pop()?;
            drives.is_empty().then_some(drive)
        };
        Some(self.devices.iter().map(drive).collect())
    }
}

/// Whether a schedule may be chosen where most is read from this drive.
fn is_known_well(drives: &[Option<KnownDrive>], main: usize) -> bool {
    let main = drives.get(main).and_then(Option::as_ref);
    main.is_some_and(|drive| is_simulated(&drive.model))
}

/// The models of the devices, in their order. Of those that are not known, guesses by their classes.
fn models_or_guesses(drives: Vec<Option<KnownDrive>>, devices: &[Device]) -> Vec<DriveModel> {
    let known = drives.into_iter().zip(devices);
    known
        .map(|(drive, device)| match drive {
            Some(drive) => drive.model,
            None => DriveModel::guess(device.class),
        })
        .collect()
}

/// The devices that a launch sequence is read from, each once.
fn devices_of(log: &[LogEntry]) -> BTreeSet<usize> {
    let devices = log.iter().map(|entry| usize::from(entry.device));
    devices.collect()
}

/// The position in the log of the read of a page.
fn position(log: &[LogEntry], page: Span) -> Option<usize> {
    log.iter().position(|entry| entry.span.holds(page))
}

/// Whether a schedule may be chosen by this model.
fn is_simulated(model: &DriveModel) -> bool {
    model.origin == Origin::Measured || model.is_order_decisive()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveClaim;
    use crate::schedule::{RegionPlan, SchedulePlan};

    #[test]
    fn drives_with_queues_are_simulated_once_they_are_measured() {
        for (class, by_a_guess) in [
            (DriveClass::CommandQueuing, false),
            (DriveClass::NoCommandQueuing, true),
            (DriveClass::Rotational, true),
        ] {
            let mut model = DriveModel::guess(class);
            assert_eq!(is_simulated(&model), by_a_guess, "{class:?}");
            model.origin = Origin::Measured;
            assert!(is_simulated(&model), "{class:?}");
        }
    }

    fn device(class: DriveClass) -> Device {
        Device {
            dev: 0,
            name: String::new(),
            fs: String::new(),
            fs_uuid: [0; 16],
            class,
        }
    }

    fn drive(class: DriveClass) -> KnownDrive {
        let is_virtual = false;
        KnownDrive {
            name: String::new(),
            claim: DriveClaim { class, is_virtual },
            model: DriveModel::guess(class),
            measured: None,
        }
    }

    #[test]
    fn the_main_drive_decides_whether_a_launch_is_simulated() {
        use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
        let disk = || Some(drive(Rotational));
        let ssd = || Some(drive(CommandQueuing));
        assert!(is_known_well(&[disk(), ssd()], 0));
        assert!(!is_known_well(&[disk(), ssd()], 1), "a guess of a queue");
        assert!(is_known_well(&[None, disk()], 1));
        assert!(!is_known_well(&[None, disk()], 0), "it is unknown");
        assert!(!is_known_well(&[disk()], 1), "there is no such device");
        let devices = [device(NoCommandQueuing), device(Rotational)];
        let models = models_or_guesses(vec![None, disk()], &devices);
        assert_eq!(
            models,
            [NoCommandQueuing, Rotational].map(DriveModel::guess)
        );
    }

    #[test]
    fn an_app_is_held_for_no_longer_than_that_gains() {
        let chosen = |held, gained_us| ChosenSchedule {
            entries: Vec::new(),
            plan: SchedulePlan::Regions(RegionPlan::one(0)),
            held,
            held_us: 2e6,
            predicted_us: 3e6,
            unheld_us: 4e6,
            usual_us: 9e6,
            cold_us: 3e6 + gained_us,
            candidates: 1,
        };
        let most_ms = |held, gained_us| {
            let scheduled = ScheduledLaunch::from(chosen(held, gained_us));
            scheduled.hold.map(|hold| (hold.entries, hold.most_ms))
        };
        assert_eq!(most_ms(7, 4e6), Some((7, 4_000)));
        assert_eq!(most_ms(7, 9e9), Some((7, 5_000)), "the longest");
        for (held, gained_us) in [(0, 4e6), (7, -1.0), (7, 900.0)] {
            assert_eq!(most_ms(held, gained_us), None);
        }
    }

    #[test]
    fn without_models_nothing_is_simulated() {
        let device = device(DriveClass::Rotational);
        let directory = tempfile::tempdir().unwrap();
        for state_dir in [None, Some(directory.path())] {
            let on_drives = OnDrives {
                devices: std::slice::from_ref(&device),
                main: DriveClass::Rotational,
                params: Params::for_device(DriveClass::Rotational, true),
                learned: Learned::Exact,
                state_dir,
            };
            assert_eq!(on_drives.drives_with(0), None);
        }
    }
}
