//! Launches while the drive is being written (QASIO §3, scenario A): the writer, and the shield where it
//! learns of them.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::drive::total_memory;
use rustix::fs::statvfs;
use rustix::process::Pid;

use super::work::Work;
use crate::record::Launch;
use crate::writes::background::{Background, Mark};
use crate::writes::dirty::{self, Dirty};
use crate::writes::shielding::{ShieldJob, ShieldProcess};
use crate::writes::writer::{Kind, WriterJob};

/// For how long the writer has been under way when a launch begins: as long as the kernel takes to report that tasks
/// wait for the drive, and a shield to act on that. People launch apps beside writers that have run for minutes.
const BEFORE: Duration = Duration::from_secs(6);

/// How long the writer is watched after a launch: what was held back for its sake is written then.
const AFTER: Duration = Duration::from_secs(15);

/// The writer takes no more than this share of the room: 1 of so many.
const SHARE: u64 = 4;

/// A drive that is being written.
pub struct WrittenDrive {
    // Ended in this order: the shield lets the writer go first.
    shield: Option<ShieldProcess>,
    writer: Background,
    mark: Mark,
}

impl WrittenDrive {
    /// The shield, if it learns of the launch.
    pub(super) fn shield(&mut self) -> Option<&mut ShieldProcess> {
        self.shield.as_mut()
    }
}

impl Work {
    /// Starts the writer in a process of its own, and before it the shield, if there is to be one. Returns once the
    /// writer has been under way for some seconds.
    pub(super) fn begin_writing(&mut self, has_shield: bool) -> Result<WrittenDrive> {
        let lab = std::env::current_exe().context("cannot tell where this program is")?;
        // A new one each time: between launches it would act on the pressure that the others see.
        let shield = if has_shield {
            let dev = std::fs::metadata(&self.job.root)?.dev();
            let job = ShieldJob {
                drive: (dev, self.job.class),
            };
            let shield = ShieldProcess::start(job, &lab)?;
            self.set_aside(shield.pid())?;
            Some(shield)
        } else {
            None
        };
        let free = statvfs(&self.job.root)?;
        let job = WriterJob {
            kind: Kind::Rewrite,
            directory: self.job.root.join("root/written-in-the-background"),
            bytes: file_size(free.f_bavail * free.f_frsize)?,
        };
        let mut writer = Background::start(&job, &self.job.drive, &lab)?;
        self.set_aside(writer.pid())?;
        std::thread::sleep(BEFORE);
        Ok(WrittenDrive {
            shield,
            mark: writer.mark()?,
            writer,
        })
    }

    /// Watches the writer for some seconds more, ends it and the shield, and notes what both did.
    pub(super) fn end_writing(
        &mut self,
        mut drive: WrittenDrive,
        record: &mut Launch,
    ) -> Result<()> {
        std::thread::sleep(AFTER);
        record.beside = Some(drive.writer.since(drive.mark)?);
        record.shield = self.stop_writing(drive)?;
        Ok(())
    }

    /// Ends the shield and the writer. What the shield did, a line each.
    pub(super) fn stop_writing(&mut self, mut drive: WrittenDrive) -> Result<Vec<String>> {
        let shield = drive.shield.take();
        let did = shield.map(ShieldProcess::end).transpose()?;
        self.launcher.aside.clear();
        drive.writer.end()?;
        Ok(did.unwrap_or_default())
    }

    /// A child that is no part of a launch: it does not end with one, and its time does not count.
    fn set_aside(&mut self, child: Pid) -> Result<()> {
        self.launcher.subreaper.spare(child)?;
        self.launcher.aside.push(child);
        Ok(())
    }
}

/// Size of the writer's file on a file system with so much room, in bytes.
fn file_size(free: u64) -> Result<u64> {
    Ok(dirty::file_size(&Dirty::read()?, total_memory()).min(free / SHARE))
}
