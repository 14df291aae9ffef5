//! Which measures this system allows, and why not the others.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::drive::IoScheduler;
use crate::policy::MeasureKind;

/// Settings of the whole system by which writeback is held back.
const HOLD: [&str; 3] = [
    "sys/vm/dirty_background_ratio",
    "sys/vm/dirty_ratio",
    "sys/vm/dirty_expire_centisecs",
];

/// Those by which all that may be dirty is limited.
const DIRTY: [&str; 2] = ["sys/vm/dirty_bytes", "sys/vm/dirty_background_bytes"];

/// Those of a drive, of its bdi (Linux 6.2).
const BACKLOG: [&str; 2] = ["strict_limit", "max_ratio_fine"];

/// What is known of one kind of measure on this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureAbility {
    /// The kind.
    pub kind: MeasureKind,
    /// By what it would be taken; otherwise why it cannot be, and what takes its place.
    pub found: Result<String, String>,
}

impl MeasureAbility {
    /// Why the measure cannot be taken, in a line that begins with its name; `None` if it can.
    pub fn lack(&self) -> Option<String> {
        let why = self.found.as_ref().err()?;
        Some(format!("{}: {why}", self.kind))
    }
}

/// Looks at what /proc, /sys and the cgroups allow. Changes nothing; what this process may write is what counts, so
/// that users without privileges find little.
pub fn abilities() -> Vec<MeasureAbility> {
    abilities_at(Path::new("/proc"), Path::new("/sys"))
}

fn abilities_at(proc: &Path, sys: &Path) -> Vec<MeasureAbility> {
    let found = |kind| match kind {
        MeasureKind::Journal => schedulers(sys),
        MeasureKind::Hold => {
            let knobs = HOLD.map(|knob| proc.join(knob));
            all_writable(&knobs).map(|()| "vm.dirty_* settings".to_owned())
        }
        MeasureKind::Backlog => bdi_limits(sys),
        MeasureKind::Dirty => {
            let knobs = DIRTY.map(|knob| proc.join(knob));
            all_writable(&knobs).map(|()| "vm.dirty_bytes".to_owned())
        }
        MeasureKind::Group => memory_groups(sys),
        MeasureKind::Requests => request_queues(sys),
    };
    let kinds = MeasureKind::ALL.into_iter();
    kinds
        .map(|kind| MeasureAbility {
            kind,
            found: found(kind),
        })
        .collect()
}

/// Whether all of these can be written.
fn all_writable(knobs: &[PathBuf]) -> Result<(), String> {
    let refused = knobs.iter().find_map(|knob| {
        let error = OpenOptions::new().write(true).open(knob).err()?;
        Some(format!("{} {}", knob.display(), why(&error)))
    });
    refused.map_or(Ok(()), Err)
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "is mounted read-only, as in a container: run the service on the host".to_owned()
        }
        io::ErrorKind::PermissionDenied => "may be written by root alone".to_owned(),
        io::ErrorKind::NotFound => "is not in this kernel".to_owned(),
        _ => format!("cannot be written: {error}"),
    }
}

/// The drives' own limits of what may be dirty.
fn bdi_limits(sys: &Path) -> Result<String, String> {
    let bdis = entries(&sys.join("class/bdi"));
    let limited: Vec<&PathBuf> = bdis
        .iter()
        .filter(|bdi| bdi.join("strict_limit").exists())
        .collect();
    match limited[..] {
        [] if bdis.is_empty() => Err("sysfs has no drives".to_owned()),
        [] => Err(
            "the kernel has no limits for each drive (Linux 6.2 has them): the limit for the whole system \
             (dirty) takes their place"
                .to_owned(),
        ),
        [bdi, ..] => {
            let knobs = BACKLOG.map(|knob| bdi.join(knob));
            all_writable(&knobs).map(|()| format!("limits of {} drives", limited.len()))
        }
    }
}

fn memory_groups(sys: &Path) -> Result<String, String> {
    let root = sys.join("fs/cgroup");
    let unified = fs::read_to_string(root.join("cgroup.controllers"));
    let has_memory = |text: &str| text.split_ascii_whitespace().any(|name| name == "memory");
    match unified {
        Ok(controllers) if has_memory(&controllers) => {
            Ok("memory cgroups of version 2, through systemd where they are systemd's".to_owned())
        }
        _ if root.join("memory").exists() => Err(
            "the memory cgroups are of version 1, which has no limit that only slows a writer down"
                .to_owned(),
        ),
        _ => Err("there are no memory cgroups of version 2".to_owned()),
    }
}

/// Drives whose scheduler honours I/O priorities.
fn schedulers(sys: &Path) -> Result<String, String> {
    let in_force = |drive: &PathBuf| {
        let list = fs::read_to_string(drive.join("queue/scheduler")).ok()?;
        let scheduler = IoScheduler::parse(&list).filter(IoScheduler::honours_priorities)?;
        let drive = drive.file_name()?.to_string_lossy();
        Some(format!("{} on {drive}", scheduler.name))
    };
    let found: Vec<String> = drives(sys).iter().filter_map(in_force).collect();
    match found.is_empty() {
        false => Ok(found.join(", ")),
        true => Err(
            "no drive has a scheduler that honours I/O priorities (mq-deadline, bfq)".to_owned(),
        ),
    }
}

fn request_queues(sys: &Path) -> Result<String, String> {
    let drives = drives(sys);
    let Some(drive) = drives.first() else {
        return Err("sysfs has no drives".to_owned());
    };
    let knobs = ["scheduler", "max_sectors_kb", "nr_requests"];
    let knobs = knobs.map(|knob| drive.join("queue").join(knob));
    all_writable(&knobs)
        .map(|()| "request queues of drives; only with writes.responsive".to_owned())
}

/// Whole drives that hold something.
fn drives(sys: &Path) -> Vec<PathBuf> {
    let has_size = |drive: &PathBuf| {
        let size = fs::read_to_string(drive.join("size"));
        size.is_ok_and(|size| size.trim() != "0") && drive.join("queue/scheduler").exists()
    };
    let mut drives = entries(&sys.join("block"));
    drives.retain(has_size);
    drives
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use tempfile::{TempDir, tempdir};

    use super::*;

    /// /proc and /sys with these files.
    fn system(files: &[(&str, &str)]) -> TempDir {
        let dir = tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn found(dir: &TempDir, kind: MeasureKind) -> Result<String, String> {
        let all = abilities_at(&dir.path().join("proc"), &dir.path().join("sys"));
        assert_eq!(all.len(), MeasureKind::ALL.len());
        let ability = all.into_iter().find(|ability| ability.kind == kind);
        ability.unwrap().found
    }

    #[test]
    fn a_modern_system_can_do_all_of_it() {
        let dir = system(&[
            ("proc/sys/vm/dirty_background_ratio", "10"),
            ("proc/sys/vm/dirty_ratio", "20"),
            ("proc/sys/vm/dirty_expire_centisecs", "3000"),
            ("proc/sys/vm/dirty_bytes", "0"),
            ("proc/sys/vm/dirty_background_bytes", "0"),
            ("sys/class/bdi/8:0/strict_limit", "0"),
            ("sys/class/bdi/8:0/max_ratio_fine", "0"),
            ("sys/class/bdi/0:1/read_ahead_kb", "0"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
            ("sys/block/loop0/size", "0"),
            ("sys/block/loop0/queue/scheduler", "[none] mq-deadline"),
            ("sys/block/sda/size", "100"),
            ("sys/block/sda/queue/scheduler", "none [mq-deadline] bfq"),
            ("sys/block/sda/queue/max_sectors_kb", "1280"),
            ("sys/block/sda/queue/nr_requests", "64"),
        ]);
        for kind in MeasureKind::ALL {
            assert!(found(&dir, kind).is_ok(), "{kind}");
        }
        assert_eq!(
            found(&dir, MeasureKind::Journal).unwrap(),
            "mq-deadline on sda"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let dir = system(&[
            ("sys/class/bdi/8:0/read_ahead_kb", "128"),
            ("sys/fs/cgroup/memory/tasks", ""),
            ("sys/block/sda/size", "100"),
            ("sys/block/sda/queue/scheduler", "[none]"),
        ]);
        for (kind, words) in [
            (MeasureKind::Journal, "no drive has a scheduler"),
            (MeasureKind::Hold, "is not in this kernel"),
            (MeasureKind::Dirty, "is not in this kernel"),
            (MeasureKind::Backlog, "Linux 6.2"),
            (MeasureKind::Group, "version 1"),
            (MeasureKind::Requests, "max_sectors_kb is not in"),
        ] {
            let lack = found(&dir, kind).unwrap_err();
            assert!(lack.contains(words), "{kind}: {lack}");
            let ability = MeasureAbility {
                kind,
                found: Err(lack),
            };
            assert!(ability.lack().unwrap().starts_with(kind.name()));
        }
        let empty = tempdir().unwrap();
        let lack = found(&empty, MeasureKind::Group).unwrap_err();
        assert!(lack.contains("no memory cgroups"), "{lack}");
    }

    #[test]
    fn a_container_s_settings_are_read_only() {
        let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        assert!(why(&error).contains("container"));
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(why(&error).contains("root"));
    }
}
