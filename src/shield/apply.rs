//! Measures as settings of the kernel's knobs.

use std::path::Path;

use super::groups::{GroupLimits, Groups};
use super::memory::VM;
use crate::drive::{IoClass, Setting, Sysfs, UnitProperty, WrittenDrive};
use crate::policy::{DirtyThresholds, Measure, MemoryLook};

/// Parts in which a bdi's share is given (`max_ratio_fine`).
const PARTS: u128 = 1_000_000;
/// Levels of the real-time class, from 0, the highest, to 7. What a task that waits starts meanwhile is found by its
/// level, which tools do not choose by themselves: ionice(1) takes 4.
const JOURNAL_LEVEL: u8 = 4;
const WAITING_LEVEL: u8 = 6;

/// The age, in centiseconds, at which dirty data are written in any case, while writeback is held back: an hour. The kernel
/// looks for such data as often as ever. Were it told not to (`dirty_writeback_centisecs`), it would write all that is dirty
/// when that ends (`dirty_writeback_centisecs_handler`), which nothing stops.
const HELD_CENTISECS: u64 = 360_000;

/// What the settings of a measure depend on.
pub(super) struct MeasurePlace<'a> {
    pub sysfs: &'a Sysfs,
    pub groups: &'a Groups,
    /// The drive that the measure names, if it is there.
    pub drive: Option<&'a WrittenDrive>,
    pub memory: &'a MemoryLook,
}

/// The settings of a measure, in the order in which they are made. None if what it concerns has gone.
pub(super) fn settings(measure: &Measure, place: &MeasurePlace) -> Vec<Setting> {
    match measure {
        Measure::Priority { tid, waits, .. } => vec![Setting::IoPriority {
            tid: *tid,
            class: IoClass::RealTime,
            level: match waits {
                true => WAITING_LEVEL,
                false => JOURNAL_LEVEL,
            },
        }],
        Measure::Hold(limits) => {
            let [background, dirty] = system(limits);
            // The upper limit first: the kernel halves a lower one that is not below it.
            vec![
                dirty,
                background,
                vm("dirty_expire_centisecs", HELD_CENTISECS),
            ]
        }
        Measure::Dirty(limits) => {
            let [background, dirty] = system(limits);
            vec![background, dirty]
        }
        Measure::Backlog { bytes, .. } => backlog(*bytes, place),
        Measure::Group {
            group,
            bytes,
            weight,
        } => group_limits(group, *bytes, *weight, place),
        Measure::Requests {
            scheduler,
            async_depth,
            max_sectors_kb,
            ..
        } => {
            let knob = |name: &str| place.sysfs.queue_knob(place.drive?.dev, name);
            let file = |name: &str, value: String| {
                let path = knob(name)?;
                Some(Setting::File { path, value })
            };
            let scheduler = scheduler
                .as_ref()
                .and_then(|name| file("scheduler", name.clone()));
            // The file is there once the scheduler is.
            let depth = async_depth.and_then(|depth| {
                let path = knob("scheduler")?.with_file_name("iosched/async_depth");
                let value = depth.to_string();
                Some(Setting::File { path, value })
            });
            let largest = max_sectors_kb.and_then(|kib| file("max_sectors_kb", kib.to_string()));
            [scheduler, depth, largest].into_iter().flatten().collect()
        }
    }
}

fn vm(name: &str, value: u64) -> Setting {
    Setting::File {
        path: Path::new(VM).join(name),
        value: value.to_string(),
    }
}

/// The background limit, and the other.
fn system(limits: &DirtyThresholds) -> [Setting; 2] {
    match *limits {
        DirtyThresholds::Ratios { background, dirty } => [
            vm("dirty_background_ratio", background),
            vm("dirty_ratio", dirty),
        ],
        DirtyThresholds::Bytes { background, dirty } => [
            vm("dirty_background_bytes", background),
            vm("dirty_bytes", dirty),
        ],
    }
}

/// Limits of what is dirty of the drive. The kernel keeps them as a share of what may be dirty altogether, which
/// changes with memory: `max_bytes` would never read as it was written.
fn backlog(bytes: u64, place: &MeasurePlace) -> Vec<Setting> {
    let Some((drive, limits)) = place.drive.zip(place.memory.limits) else {
        return Vec::new();
    };
    let all = match limits {
        DirtyThresholds::Bytes { dirty, .. } => dirty,
        DirtyThresholds::Ratios { dirty, .. } => place.memory.dirtyable / 100 * dirty,
    };
    let parts = (u128::from(bytes) * PARTS / u128::from(all.max(1))).clamp(1, PARTS);
    let bdis = place.sysfs.bdis(drive).into_iter();
    bdis.flat_map(|bdi| {
        let file = |name: &str, value: String| Setting::File {
            path: bdi.join(name),
            value,
        };
        // Without the strict limit, the share counts only when much is dirty altogether.
        [
            file("max_ratio_fine", parts.to_string()),
            file("strict_limit", "1".to_owned()),
        ]
    })
    .collect()
}

fn group_limits(
    group: &str,
    bytes: u64,
    weight: Option<u64>,
    place: &MeasurePlace,
) -> Vec<Setting> {
    match place.groups.limits(group) {
        None => Vec::new(),
        Some(GroupLimits::Unit(unit)) => {
            let set = |property, value| Setting::UnitProperty {
                unit: unit.clone(),
                property,
                value,
            };
            let weight = weight.map(|weight| set(UnitProperty::IoWeight, weight));
            [Some(set(UnitProperty::MemoryHigh, bytes)), weight]
                .into_iter()
                .flatten()
                .collect()
        }
        Some(GroupLimits::Directory(directory)) => {
            let set = |name: &str, value: u64| {
                let path = directory.join(name);
                path.exists().then(|| Setting::File {
                    path,
                    value: value.to_string(),
                })
            };
            let weights = weight
                .into_iter()
                .flat_map(|weight| ["io.weight", "io.bfq.weight"].map(|name| set(name, weight)));
            [set("memory.high", bytes)]
                .into_iter()
                .chain(weights)
                .flatten()
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;
    use tempfile::tempdir;

    use super::*;
    use crate::fs::mounts::MountTable;

    /// The files that a measure sets, and their values, on a system with one drive.
    fn files(measure: &Measure) -> Vec<(String, String)> {
        let root = tempdir().unwrap();
        let base = fs::canonicalize(root.path()).unwrap();
        let drive = base.join("devices/sda");
        let bdi = base.join("class/bdi/8:0");
        for directory in [&drive.join("queue"), &bdi, &base.join("dev/block")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(drive.join("dev"), "8:0").unwrap();
        fs::write(drive.join("queue/scheduler"), "[none] bfq").unwrap();
        fs::write(drive.join("queue/max_sectors_kb"), "1280").unwrap();
        fs::write(bdi.join("max_ratio"), "100").unwrap();
        symlink(&drive, base.join("dev/block/8:0")).unwrap();
        let sysfs = Sysfs::at(&base);
        let memory = MemoryLook {
            dirtyable: 10 << 30,
            limits: Some(DirtyThresholds::Ratios {
                background: 10,
                dirty: 20,
            }),
            ..MemoryLook::default()
        };
        let drive = sysfs.written_drive(makedev(8, 0));
        let groups = Groups::new(MountTable::parse(b""));
        let place = MeasurePlace {
            sysfs: &sysfs,
            groups: &groups,
            drive: drive.as_ref(),
            memory: &memory,
        };
        let settings = settings(measure, &place).into_iter();
        let files = settings.filter_map(|setting| match setting {
            Setting::File { path, value } => {
                let name = path.file_name()?.to_str()?.to_owned();
                Some((name, value))
            }
            _ => None,
        });
        files.collect()
    }

    fn expected(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let files = files.iter();
        files
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn measures_become_settings_in_an_order_that_the_kernel_takes() {
        let hold = Measure::Hold(DirtyThresholds::Ratios {
            background: 40,
            dirty: 45,
        });
        assert_eq!(
            files(&hold),
            expected(&[
                ("dirty_ratio", "45"),
                ("dirty_background_ratio", "40"),
                ("dirty_expire_centisecs", "360000"),
            ])
        );
        let dirty = Measure::Dirty(DirtyThresholds::Bytes {
            background: 8,
            dirty: 16,
        });
        assert_eq!(
            files(&dirty),
            expected(&[("dirty_background_bytes", "8"), ("dirty_bytes", "16")])
        );
        // 16 MiB of the 2 GiB that may be dirty.
        let backlog = Measure::Backlog {
            device: 8 << 20,
            bytes: 16 << 20,
        };
        assert_eq!(
            files(&backlog),
            expected(&[("max_ratio_fine", "7812"), ("strict_limit", "1")])
        );
        let requests = Measure::Requests {
            device: 8 << 20,
            scheduler: Some("mq-deadline".into()),
            async_depth: Some(1),
            max_sectors_kb: Some(128),
        };
        assert_eq!(
            files(&requests),
            expected(&[
                ("scheduler", "mq-deadline"),
                ("async_depth", "1"),
                ("max_sectors_kb", "128"),
            ])
        );
        let group = Measure::Group {
            group: "/gone".into(),
            bytes: 1,
            weight: None,
        };
        assert_eq!(files(&group), []);
    }
}
