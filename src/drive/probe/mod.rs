//! Measuring a drive: reads only, past every cache of the kernel, less than 10 MiB, begun within a second.
//!
//! What is read, and what the times say, are plain functions ([`plan`], [`area`]). The kernel is asked in [`run`] and
//! [`queue`]. A drive is read through the node of the whole drive, or, where that cannot be opened, through files that lie
//! on it.

mod area;
mod files;
mod idle;
mod plan;
mod queue;
mod run;

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::sysfs::number;
use super::{DriveBelow, DriveIdentity, Sysfs, identities};
use crate::fs::blockdev::of_file_system;
use crate::fs::mounts::{Mount, MountTable};
use crate::fs::support::Support;
use crate::fs::{blockdev, safe_open};
use crate::model::DriveCosts;
use area::{ReadableArea, ReadablePiece};
use idle::{DriveRequests, NotIdle};
use plan::FitError;

/// Least bytes of files to read a drive through: fewer would be read again and again, from the drive's own cache.
const LEAST_FILES: u64 = 32 << 20;

/// Why a drive was not measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The path leads to nothing that is on a drive.
    #[error("{} is on no drive that the kernel shows in /sys/dev/block", .0.display())]
    NoDrive(PathBuf),
    /// The path cannot be examined, or the mount table not be read.
    #[error("cannot look at {}: {cause}", path.display())]
    Look {
        /// The path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Others use the drive.
    #[error("{drive} is in use ({why}): try again later, or measure it all the same with --busy")]
    Busy {
        /// The drive's name.
        drive: String,
        /// What it does.
        why: String,
    },
    /// sysfs does not tell whether others use the drive.
    #[error("cannot tell whether {drive} is in use ({why}): measure it all the same with --busy")]
    MaybeBusy {
        /// The drive's name.
        drive: String,
        /// Why sysfs does not tell.
        why: &'static str,
    },
    /// Neither the drive's node nor enough files of it can be opened.
    #[error("cannot open {drive} ({cause}), nor files on it of {} MiB in all", LEAST_FILES >> 20)]
    Closed {
        /// The drive's name.
        drive: String,
        /// Why its node cannot be opened.
        cause: io::Error,
    },
    /// The kernel has no queue of reads for us.
    #[error("cannot set up asynchronous reads: {0}")]
    Queue(io::Error),
    /// A read has failed.
    #[error("a read has failed: {0}")]
    Read(io::Error),
    /// The reads took so long that the drive is taken to be stuck or failing.
    #[error("the drive is stuck or failing: given up after {:.0} s", .0.as_secs_f64())]
    Stalled(Duration),
    /// The probe was told to stop.
    #[error("stopped")]
    Stopped,
    /// The times tell no costs.
    #[error("its costs cannot be told: {0}")]
    Fit(#[from] FitError),
    /// Of several drives, this one was not measured, nor those after it.
    #[error("{drive} was not measured: {cause}")]
    Partial {
        /// The drive's name.
        drive: String,
        /// The drives before it.
        measured: Vec<ProbedDrive>,
        /// Why it was not measured.
        cause: Box<ProbeError>,
    },
}

/// A drive that was measured.
#[derive(Clone, Debug)]
pub struct ProbedDrive {
    /// The kernel's name of it.
    pub name: String,
    /// The whole drive, encoded as `st_rdev`.
    pub dev: u64,
    /// What it is known by; empty if it cannot be recognised.
    pub identities: Vec<DriveIdentity>,
    /// What its reads cost.
    pub costs: DriveCosts,
    /// What it was read through, such as `/dev/sda` or `12 files`.
    pub through: String,
    /// Reads that the probe made.
    pub reads: u64,
    /// The reads' bytes.
    pub bytes: u64,
    /// How long that took.
    pub time: Duration,
    /// Requests that others made meanwhile; `None` if sysfs does not tell.
    pub others: Option<u64>,
}

/// Others' share of the requests, from which on the figures are doubted, in percent.
const DISTURBED_PERCENT: u64 = 10;

impl ProbedDrive {
    /// Whether others used the drive so much meanwhile that it may be faster than measured.
    pub fn is_disturbed(&self) -> bool {
        self.others.unwrap_or(0).saturating_mul(100) > self.reads.saturating_mul(DISTURBED_PERCENT)
    }
}

/// Measures the drives below a block device, or below the file system that a path is on, one after the other. With
/// `busy`, also while others use them. `tell` is called again and again with the name of the drive that is being measured
/// and the share of all that is done.
///
/// # Errors
/// [`ProbeError`]; [`ProbeError::Partial`] has the drives that were measured before one that was not.
pub fn probe(
    path: &Path,
    sysfs: &Sysfs,
    busy: bool,
    tell: impl Fn(&str, f64),
) -> Result<Vec<ProbedDrive>, ProbeError> {
    let look = |cause| ProbeError::Look {
        path: path.to_owned(),
        cause,
    };
    let path = fs::canonicalize(path).map_err(look)?;
    let found = fs::metadata(&path).map_err(look)?;
    let mounts = MountTable::read().map_err(look)?;
    let dev = match found.file_type().is_block_device() {
        true => found.rdev(),
        false => of_file_system(found.dev(), mounts.holding(&path)),
    };
    let drives = sysfs.drives_below(dev);
    if drives.is_empty() {
        return Err(ProbeError::NoDrive(path));
    }
    measure_each(&drives, |drive| {
        let before = drives.iter().take_while(|other| other.dev != drive.dev);
        let before = before.count() as f64;
        let tell = |share: f64| {
            tell(&drive.name, (before + share) / drives.len() as f64);
            ControlFlow::Continue(())
        };
        probe_drive(drive, &path, sysfs, &mounts, busy, tell)
    })
}

/// Measures drives one after the other until one cannot be measured.
fn measure_each(
    drives: &[DriveBelow],
    measure: impl Fn(&DriveBelow) -> Result<ProbedDrive, ProbeError>,
) -> Result<Vec<ProbedDrive>, ProbeError> {
    let mut measured = Vec::new();
    for drive in drives {
        match measure(drive) {
            Ok(probed) => measured.push(probed),
            Err(error) if measured.is_empty() => return Err(error),
            Err(error) => {
                return Err(ProbeError::Partial {
                    drive: drive.name.clone(),
                    measured,
                    cause: Box::new(error),
                });
            }
        }
    }
    Ok(measured)
}

/// Measures one of the drives below a path. `tell` is called again and again with the share that is done, and says whether
/// to go on.
///
/// # Errors
/// [`ProbeError`].
pub fn probe_drive(
    drive: &DriveBelow,
    path: &Path,
    sysfs: &Sysfs,
    mounts: &MountTable,
    busy: bool,
    tell: impl Fn(f64) -> ControlFlow<()>,
) -> Result<ProbedDrive, ProbeError> {
    if !busy && let Err(not_idle) = idle::ensure_idle(sysfs, drive.dev) {
        let drive = drive.name.clone();
        return Err(match not_idle {
            NotIdle::Busy(why) => ProbeError::Busy { drive, why },
            NotIdle::Unknown(why) => ProbeError::MaybeBusy { drive, why },
        });
    }
    let readable = Readable::open(path, drive, sysfs, mounts)?;
    let count = || DriveRequests::of(sysfs, drive.dev).ok();
    let before = count();
    let begun = Instant::now();
    let steps = plan::plan();
    let done = run::run(&readable.files, &readable.area, &steps, &tell)?;
    let time = begun.elapsed();
    let made = |(before, after): (DriveRequests, DriveRequests)| {
        let requests = after.completed.saturating_sub(before.completed);
        requests.saturating_sub(done.reads)
    };
    Ok(ProbedDrive {
        name: drive.name.clone(),
        dev: drive.dev,
        identities: identities(sysfs, drive.dev, mounts),
        costs: plan::fit(&done.samples)?,
        through: readable.through,
        reads: done.reads,
        bytes: done.bytes,
        time,
        others: before.zip(count()).map(made),
    })
}

/// What a drive is read through.
struct Readable {
    files: Vec<OwnedFd>,
    area: ReadableArea,
    through: String,
}

impl Readable {
    /// The drive's node, or files on it: the one that was asked for, the one behind a loop device, or else what is found
    /// on its file systems.
    fn open(
        path: &Path,
        drive: &DriveBelow,
        sysfs: &Sysfs,
        mounts: &MountTable,
    ) -> Result<Readable, ProbeError> {
        let cause = match Readable::node(drive, sysfs, mounts) {
            Ok(readable) => return Ok(readable),
            Err(cause) => cause,
        };
        let mut named: Vec<&Path> = drive.backing_file.as_deref().into_iter().collect();
        named.push(path);
        let of_path = |path: &Path| {
            let dev = fs::metadata(path).ok()?.dev();
            let start = start_on(drive, dev, mounts.holding(path), sysfs)?;
            let (file, bytes) = files::open_direct(path, dev).ok()??;
            Readable::files(vec![(file, bytes, start)], path.display().to_string())
        };
        named
            .into_iter()
            .find_map(of_path)
            .or_else(|| Readable::found(drive, sysfs, mounts))
            .ok_or_else(|| ProbeError::Closed {
                drive: drive.name.clone(),
                cause,
            })
    }

    fn node(drive: &DriveBelow, sysfs: &Sysfs, mounts: &MountTable) -> io::Result<Readable> {
        let node = blockdev::node(drive.dev, mounts).ok_or(io::ErrorKind::NotFound)?;
        let file = safe_open::block_device(&node, drive.dev)?.ok_or(io::ErrorKind::NotFound)?;
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, (flags | OFlags::DIRECT) - OFlags::NONBLOCK)?;
        let disk = sysfs.disk(drive.dev);
        let sectors = disk.and_then(|disk| number(&disk.join("size")));
        let area = ReadableArea::new([ReadablePiece {
            file: 0,
            offset: 0,
            position: 0,
            length: sectors.unwrap_or(0) * 512,
        }]);
        if area.bytes() == 0 {
            return Err(io::Error::other("it has no medium"));
        }
        Ok(Readable {
            files: vec![file],
            area,
            through: node.display().to_string(),
        })
    }

    /// Large files on any of the drive's file systems, beginning where programs are.
    fn found(drive: &DriveBelow, sysfs: &Sysfs, mounts: &MountTable) -> Option<Readable> {
        let mut found = Vec::new();
        let mut asked = Vec::new();
        for mount in mounts.mounts() {
            if asked.contains(&mount.dev) || !Support::is_read_from_drive(&mount.fs_type) {
                continue;
            }
            let Some(start) = start_on(drive, mount.dev, Some(mount), sysfs) else {
                continue;
            };
            asked.push(mount.dev);
            let Ok(root) = mounts.open_root(mount.dev) else {
                continue;
            };
            let large = files::find_large(&root.fd, &["usr/lib", "usr", "."], mount.dev);
            let large = large.into_iter();
            found.extend(large.map(|(file, bytes)| (file, bytes, start)));
        }
        let through = format!("{} files", found.len());
        Readable::files(found, through)
    }

    /// Files with their size and where their file system begins on the drive; `None` if they are too small.
    fn files(found: Vec<(OwnedFd, u64, u64)>, through: String) -> Option<Readable> {
        let pieces = found.iter().enumerate();
        let pieces = pieces
            .flat_map(|(index, (file, bytes, start))| files::pieces(index, file, *bytes, *start));
        let area = ReadableArea::new(pieces);
        (area.bytes() >= LEAST_FILES).then(|| Readable {
            files: found.into_iter().map(|(file, _, _)| file).collect(),
            area,
            through,
        })
    }
}

/// Where a file system (`st_dev`, and its mount) that lies on the drive without a file in between begins on it, in bytes;
/// 0 if that is not known, which leaves distances right. `None` if it does not lie there.
fn start_on(drive: &DriveBelow, dev: u64, mount: Option<&Mount>, sysfs: &Sysfs) -> Option<u64> {
    let below = sysfs.drives_below(of_file_system(dev, mount));
    let found = (below.iter()).find(|below| below.dev == drive.dev && below.backing_file.is_none());
    Some(found?.start.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DriveClass;

    fn below(name: &str) -> DriveBelow {
        DriveBelow {
            dev: 0,
            name: name.to_owned(),
            start: None,
            backing_file: None,
        }
    }

    fn probed(drive: &DriveBelow) -> ProbedDrive {
        ProbedDrive {
            name: drive.name.clone(),
            dev: drive.dev,
            identities: Vec::new(),
            costs: DriveCosts::of_class(DriveClass::CommandQueuing),
            through: String::new(),
            reads: 0,
            bytes: 0,
            time: Duration::ZERO,
            others: None,
        }
    }

    #[test]
    fn drives_before_one_that_fails_are_kept() {
        let drives = ["sda", "sdb", "sdc"].map(below);
        let failing_from = |name: &'static str| {
            measure_each(&drives, |drive| match &*drive.name < name {
                true => Ok(probed(drive)),
                false => Err(ProbeError::Stalled(Duration::from_millis(6960))),
            })
        };
        assert_eq!(failing_from("sdd").unwrap().len(), 3);
        let error = failing_from("sdb").unwrap_err();
        assert_eq!(
            error.to_string(),
            "sdb was not measured: the drive is stuck or failing: given up after 7 s"
        );
        let measured = match error {
            ProbeError::Partial { measured, .. } => measured,
            other => panic!("{other}"),
        };
        let names: Vec<String> = measured.into_iter().map(|drive| drive.name).collect();
        assert_eq!(names, ["sda"]);
        let error = failing_from("sda").unwrap_err();
        assert!(matches!(error, ProbeError::Stalled(_)), "{error}");
    }
}
