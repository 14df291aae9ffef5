//! The system settings of a learning run.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::fault_around::one_page;
use crate::drive::{Elevators, KnobError, Knobs, Sysfs, checkpoint_journal, page_out_mapped};
use crate::fs::blockdev;
use crate::fs::kind::FsKind;
use crate::fs::mounts::{Mount, MountTable};
use crate::fs::support::Support;
use crate::model::Learned;

/// Where the record of changed knobs is kept. A reboot empties it, as it resets the knobs.
pub const RUN_DIR: &str = "/run/paralfetch";

/// Devices whose file systems can be learned from: those mounted at or below `root`, and the one that
/// holds `root` itself. If one of them is an overlay, all that are served: its layers may lie on any.
fn devices_below(table: &MountTable, root: Option<&Path>) -> Vec<u64> {
    let root = root.unwrap_or(Path::new("/"));
    let holder = table.holding(root).map(|mount| mount.dev);
    let is_meant = |mount: &Mount| mount.mount_point.starts_with(root) || Some(mount.dev) == holder;
    let is_overlay = |mount: &&Mount| Support::of(&mount.fs_type) == Support::Stacked;
    let has_overlay = table.mounts().iter().filter(is_overlay).any(is_meant);
    table.served_devices(|mount| has_overlay || is_meant(mount))
}

/// Time beyond the launch's own limit for which settings may be changed, for dropping the caches and starting the app.
const KEEPER_MARGIN: Duration = Duration::from_secs(30);

/// How long a learning run waits for knobs that others hold: the service needs them for the few seconds in which
/// it learns a launch.
const KNOBS_LIMIT: Duration = Duration::from_secs(15);

/// How often it looks meanwhile.
const KNOBS_LOOK: Duration = Duration::from_millis(50);

/// The `paralfetch` that is running, as the process that restores the knobs recorded in `run_dir` when this
/// process is killed, or has not shown for `limit` that it works. In a process group of its own, so that Ctrl-C does
/// not reach it.
pub fn keeper_command(run_dir: &Path, limit: Duration) -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command
        .arg("keep-knobs")
        .arg(limit.as_secs().to_string())
        .arg("--run-dir")
        .arg(run_dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Some(command)
}

/// The elevators of disks, for a command of root that reads a launch ahead. Others may change no setting.
pub fn own_elevators() -> Option<Arc<Elevators>> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| Elevators::new(Sysfs::default(), Path::new(RUN_DIR), keeper_command))
}

/// The longest time for which the knobs of a launch with this limit are changed, the drop of the caches before it
/// included.
pub fn knobs_limit(limit: Duration) -> Duration {
    limit + KEEPER_MARGIN
}

/// Acquires the knobs that are recorded in `run_dir`. Waits no longer than `limit` for another process that holds
/// them.
fn acquire_knobs(
    run_dir: &Path,
    limit: Duration,
    keeper: Option<Command>,
) -> Result<Knobs, KnobError> {
    let deadline = Instant::now() + limit;
    let mut knobs = loop {
        match Knobs::acquire(run_dir, None) {
            Err(KnobError::Busy) if Instant::now() < deadline => thread::sleep(KNOBS_LOOK),
            knobs => break knobs?,
        }
    };
    if let Some(command) = keeper {
        knobs.start_keeper(command)?;
    }
    Ok(knobs)
}

/// The knobs of a learning run (paper §4.2); dropping it restores them.
pub struct LearningSettings {
    /// `None` if there was nothing to change.
    knobs: Option<Knobs>,
    /// The knobs that the run needs, with the values that it needs.
    wanted: Vec<(PathBuf, String)>,
    /// Devices that the launch may be read from.
    devices: Vec<u64>,
    /// Names of the drives whose readahead is turned off.
    slowed: BTreeSet<String>,
    /// Whether a fault on a cached page maps that page alone. Otherwise it maps the cached ones of the 16 pages
    /// around it, and which of them was touched is not known.
    pub exact_faults: bool,
}

impl LearningSettings {
    /// Finds the knobs for this way of learning and takes them for this process, with a keeper for them. Nothing is
    /// changed yet. For a cold run, ext4's inode readahead is to be off, so that only the needed blocks of inode tables
    /// are learned (with 1, `__ext4_get_inode_loc` would still read one block more). For an exact run, the devices'
    /// readahead is to be 0. For an exact or live one, faultaround is to map one page, where the kernel allows that.
    ///
    /// # Errors
    /// When another run holds the knobs, or the keeper cannot be started.
    pub fn acquire(
        mounts: &MountTable,
        root: Option<&Path>,
        learned: Learned,
        keeper: Option<Command>,
    ) -> Result<Self, KnobError> {
        let sysfs = Sysfs::default();
        let canonical: Option<PathBuf> = root.and_then(|root| root.canonicalize().ok());
        let devices = devices_below(mounts, canonical.as_deref().or(root));
        let off = |knob| (knob, "0".to_owned());
        let mut wanted: Vec<(PathBuf, String)> = Vec::new();
        let mut slowed = BTreeSet::new();
        // squashfs reads whole blocks, whatever its readahead is.
        let is_of_blocks = |dev: u64| mounts.kind(dev).is_some_and(FsKind::reads_image);
        let below = devices.iter().filter(|&&dev| !is_of_blocks(dev));
        let below = below.map(|&dev| blockdev::below(dev, mounts));
        let below: BTreeSet<u64> = below.filter(|_| learned != Learned::Live).collect();
        for dev in below {
            wanted.extend(sysfs.inode_readahead_knob(dev).map(off));
            if learned == Learned::Exact
                && let Some(knob) = sysfs.read_ahead_knob(dev)
            {
                wanted.push(off(knob));
                slowed.insert(sysfs.drive_name(dev).unwrap_or_else(|| blockdev::name(dev)));
            }
        }
        let is_touched = learned.is_touched();
        let fault_around = is_touched.then(|| sysfs.fault_around_knob()).flatten();
        let exact_faults = fault_around.is_some();
        wanted.extend(fault_around.map(|knob| (knob, one_page())));
        let acquire = || acquire_knobs(Path::new(RUN_DIR), KNOBS_LIMIT, keeper);
        let knobs = (!wanted.is_empty()).then(acquire);
        Ok(LearningSettings {
            knobs: knobs.transpose()?,
            wanted,
            devices,
            slowed,
            exact_faults,
        })
    }

    /// Writes dirty data and metadata to the devices, ext4's journals included, so that their pages can be dropped from
    /// the caches. `mapped`: also evicts pages that one running program has mapped, which the paper (§2.2) leaves.
    /// Other processes can hold this up for as long as they like: no knob must be changed yet.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn write_back(&self, mounts: &MountTable, mapped: bool) -> io::Result<()> {
        if mapped {
            page_out_mapped(&self.devices)?;
        }
        for &dev in &self.devices {
            // Where there is no journal to empty, recently written metadata stay cached, and only those that
            // data depend on are found.
            if let Ok(open) = mounts.open_root(dev) {
                let _ = checkpoint_journal(open.fd.as_fd());
            }
        }
        rustix::fs::sync();
        Ok(())
    }

    /// Sets the knobs. The keeper's time begins.
    ///
    /// # Errors
    /// When one cannot be changed.
    pub fn apply(&mut self) -> Result<(), KnobError> {
        if let Some(knobs) = &mut self.knobs {
            for (knob, value) in &self.wanted {
                knobs.set(knob, value)?;
            }
        }
        Ok(())
    }

    /// Says which drives are slowed and for how long at most, if the launch has this limit; `None` if none are.
    pub fn warning(&self, limit: Duration) -> Option<String> {
        let names: Vec<&str> = self.slowed.iter().map(String::as_str).collect();
        let line = || {
            format!(
                "readahead is off on {} while the launch is learned, for at most {} s: other programs read files \
                 from there more slowly",
                names.join(", "),
                knobs_limit(limit).as_secs()
            )
        };
        (!names.is_empty()).then(line)
    }

    /// Restores the knobs.
    ///
    /// # Errors
    /// The first that could not be restored, or that had lost its value before.
    pub fn restore(self) -> Result<(), KnobError> {
        let Some(knobs) = self.knobs else {
            return Ok(());
        };
        // A device that is gone has taken its knobs along.
        let is_changed = |(knob, value): &&(PathBuf, String)| {
            fs::read_to_string(knob).is_ok_and(|found| found.trim() != value)
        };
        let changed = self.wanted.iter().find(is_changed);
        knobs.restore()?;
        changed.map_or(Ok(()), |(path, _)| {
            Err(KnobError::Changed { path: path.clone() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
        20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        21 20 0:20 / /proc rw - proc proc rw\n\
        22 20 8:2 / /home rw - ext4 /dev/sda2 rw\n\
        23 20 7:0 / /mnt/image rw - ext4 /dev/loop0 rw\n\
        24 23 0:30 / /mnt/image/tmp rw - tmpfs tmpfs rw\n\
        25 23 8:2 /x /mnt/image/data rw - ext4 /dev/sda2 rw\n\
        26 20 8:3 / /srv rw - xfs /dev/sda3 rw\n\
        27 20 0:40 / /live rw - overlay overlay rw\n";

    fn below(root: Option<&str>) -> Vec<(u32, u32)> {
        devices_below(&MountTable::parse(MOUNTS), root.map(Path::new))
            .into_iter()
            .map(|dev| (rustix::fs::major(dev), rustix::fs::minor(dev)))
            .collect()
    }

    #[test]
    fn knobs_are_waited_for_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let acquire = |limit| acquire_knobs(dir.path(), limit, None);
        let other = acquire(Duration::ZERO).unwrap();
        assert!(matches!(acquire(Duration::ZERO), Err(KnobError::Busy)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| acquire(Duration::from_secs(600)).map(drop));
            drop(other);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_root_is_on_its_own_served_device_and_those_mounted_in_it() {
        assert_eq!(below(None), [(7, 0), (8, 1), (8, 2), (8, 3)]);
        assert_eq!(below(Some("/mnt/image")), [(7, 0), (8, 2)]);
        assert_eq!(below(Some("/srv/chroot")), [(8, 3)]);
        assert_eq!(below(Some("/proc/chroot")), []);
        assert_eq!(below(Some("/opt/chroot")), [(8, 1)]);
    }

    #[test]
    fn the_layers_of_an_overlay_may_lie_on_any_device() {
        for root in ["/live", "/live/chroot"] {
            assert_eq!(below(Some(root)), below(None));
        }
    }
}
