//! The shield: launches and tasks of people's sessions do not wait for background writes.
//!
//! What is done is decided by [`crate::policy::ShieldState`]; `docs/writes.md` describes it. Here a thread looks at
//! drives, at who is logged in and who waits, and carries the decisions out on the drives' settings, under a guard of
//! its own: whatever happens to this process, they are restored. While there is no reason for anything, the thread
//! sleeps and nothing is looked at.

mod drives;
mod people;
mod pressure;
mod status;
mod thread;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

pub use people::People;
pub use status::{ShieldStatus, Shielding};

use crate::drive::{KnobError, Knobs, Sysfs};
use crate::policy::ShieldState;
use drives::Drives;
use pressure::PressureTrigger;
use thread::{SharedStatus, ShieldThread};

/// Name of the thread, as `ps -L` and traces show it.
const SHIELD_THREAD: &str = "pf-shield";

/// How long [`Shield::stop`] waits for the thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// A launch in the pipe to the thread: user and device. Writes of so few bytes are not interleaved.
const LAUNCH_BYTES: usize = 16;

/// The shield could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ShieldError {
    /// Another process has it, or its knobs cannot be used.
    #[error("the shield cannot have its knobs: {0}")]
    Knobs(#[from] KnobError),
    /// The system refused a thread or a descriptor.
    #[error("cannot start the shield: {0}")]
    System(#[from] io::Error),
}

/// What the shield needs.
pub struct ShieldOptions {
    /// The directory of its knobs' guard: `shield` below the run directory.
    pub guard_dir: PathBuf,
    /// The command that runs [`crate::drive::keep`] for that directory, with a limit above a minute. Without one, the
    /// knobs of a killed process are restored at the next start only. It is started before anything is changed, and
    /// runs as long as the shield.
    pub keeper: Option<Command>,
    /// Where drives are described.
    pub sysfs: Sysfs,
    /// Where the system says who is there and who waits.
    pub people: People,
}

/// The running shield: a thread, and a pipe that never makes the caller wait. Dropping it restores everything, as
/// [`Shield::stop`] does.
pub struct Shield {
    /// `None` while it is dropped.
    launches: Option<OwnedFd>,
    /// Disconnected once the thread has ended.
    ended: Receiver<()>,
    status: SharedStatus,
}

impl Shield {
    /// Starts its thread, after restoring what a crashed shield left changed. Nothing is changed until a launch or
    /// pressure gives a reason.
    ///
    /// # Errors
    /// When another process holds the guard, its directory cannot be used, or there is no thread.
    pub fn start(options: ShieldOptions) -> Result<Shield, ShieldError> {
        let knobs = Knobs::acquire(&options.guard_dir, options.keeper)?;
        let status = SharedStatus::new(Mutex::new(ShieldStatus {
            enabled: true,
            ..ShieldStatus::default()
        }));
        let (receiver, launches) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(io::Error::from)?;
        let (alive, ended) = sync_channel(0);
        let thread = ShieldThread {
            drives: Drives::new(options.sysfs, knobs),
            people: options.people,
            launches: receiver,
            // Where the kernel reports no pressure, launches are the reasons.
            pressure: PressureTrigger::new().ok(),
            status: Arc::clone(&status),
            state: ShieldState::default(),
            retry_at: None,
        };
        Builder::new()
            .name(SHIELD_THREAD.to_owned())
            .spawn(move || {
                // The guard ends before the others hear of it.
                thread.run();
                drop(alive);
            })?;
        Ok(Shield {
            launches: Some(launches),
            ended,
            status,
        })
    }

    /// A launch of this user begins; the app's file system is on the device `dev`, encoded as `st_dev`. Returns at
    /// once. False: the launch is no reason, because thousands are queued.
    pub fn launch(&self, uid: u32, dev: u64) -> bool {
        let written = self
            .launches
            .as_ref()
            .map(|pipe| rustix::io::write(pipe, &encode_launch(uid, dev)));
        matches!(written, Some(Ok(LAUNCH_BYTES)))
    }

    /// What is done and was done.
    pub fn status(&self) -> ShieldStatus {
        let status = self.status.lock();
        status
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    /// Restores everything and ends the thread. Waits no longer than two seconds: a drive may block the thread, and then
    /// the keeper restores the knobs once this process has ended.
    pub fn stop(self) {}
}

impl Drop for Shield {
    fn drop(&mut self) {
        // The thread ends when nobody can write to the pipe.
        drop(self.launches.take());
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

fn encode_launch(uid: u32, dev: u64) -> [u8; LAUNCH_BYTES] {
    let launch = u128::from(uid) << 64 | u128::from(dev);
    launch.to_ne_bytes()
}

fn decode_launch(bytes: [u8; LAUNCH_BYTES]) -> (u32, u64) {
    let launch = u128::from_ne_bytes(bytes);
    ((launch >> 64) as u32, launch as u64)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    use super::*;

    #[test]
    fn launches_go_through_the_pipe_as_they_are() {
        for launch in [(0, 0), (1000, 0x800), (u32::MAX, u64::MAX)] {
            let (uid, dev) = launch;
            assert_eq!(decode_launch(encode_launch(uid, dev)), launch);
        }
    }

    /// The whole way of a launch: through the pipe, a look at the drive, and the limits; and back when it is stopped.
    #[test]
    fn a_launch_from_a_drive_that_is_written_has_its_writes_limited_until_the_shield_stops() {
        let root = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(root.path()).unwrap();
        let disk = base.join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(base.join("dev/block")).unwrap();
        symlink(&disk, base.join("dev/block/8:0")).unwrap();
        let largest = disk.join("queue/max_sectors_kb");
        for (name, text) in [
            ("dev", "8:0"),
            ("stat", "0 0 0 0 5 0 2048 0 3 0 0"),
            ("inflight", "0 3"),
            ("queue/scheduler", "[none]"),
            ("queue/max_sectors_kb", "1280"),
        ] {
            fs::write(disk.join(name), text).unwrap();
        }
        let shield = Shield::start(ShieldOptions {
            guard_dir: base.join("run"),
            keeper: None,
            sysfs: Sysfs::at(&base),
            people: People {
                users: base.join("users"),
                slices: base.join("slices"),
                pressure: base.join("pressure"),
            },
        })
        .unwrap();
        assert!(shield.launch(1000, 0x800));
        let limit = Instant::now() + Duration::from_secs(60);
        while shield.status().in_force.is_empty() {
            assert!(Instant::now() < limit, "{:?}", shield.status());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(fs::read_to_string(&largest).unwrap(), "128");
        let status = shield.status();
        assert_eq!((status.taken, status.problem), (1, None));
        assert_eq!(status.in_force[0].uid, Some(1000));
        assert_eq!(status.in_force[0].target, "sda: requests of 128 KiB");
        shield.stop();
        assert_eq!(fs::read_to_string(&largest).unwrap(), "1280");
    }

    #[test]
    fn launches_that_nobody_takes_do_not_make_the_caller_wait() {
        let (receiver, launches) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        // There is no thread.
        let (_, ended) = sync_channel(0);
        let shield = Shield {
            launches: Some(launches),
            ended,
            status: SharedStatus::default(),
        };
        let taken = (0..100_000)
            .take_while(|&uid| shield.launch(uid, 7))
            .count();
        assert!((1000..100_000).contains(&taken), "{taken}");
        let mut bytes = [0; LAUNCH_BYTES];
        assert_eq!(rustix::io::read(&receiver, &mut bytes), Ok(LAUNCH_BYTES));
        assert_eq!(decode_launch(bytes), (0, 7));
        drop(shield);
    }
}
