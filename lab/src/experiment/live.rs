//! Live learning beside a launch that is measured: what it costs.

use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::{Result, ensure};
use paralfetch::fs::mounts::MountTable;
use paralfetch::kernel::{RecorderLease, StartMark, Tracer};
use paralfetch::learn::{Follow, LearningSettings};
use paralfetch::model::LaunchLimits;
use paralfetch::model::Learned;

const HOW: Learned = Learned::Live;

/// Everything that `paralfetch learn --live` has running while an app starts, from its attachment on:
/// [`paralfetch::learn::learn`] in the hands of one who waits for something else, too.
pub struct LiveLearning {
    /// Until the launch is over by the rule for that, as the product detaches it then.
    tracer: Option<Tracer>,
    /// Once the launch has started.
    follow: Option<Follow>,
    /// Events that were lost.
    lost: u64,
    settings: LearningSettings,
}

impl LiveLearning {
    /// Sets what live learning sets and attaches the programs, which are loaded already, for a launch in the
    /// image at `root`. Belongs to the process's main thread.
    ///
    /// # Errors
    /// When a knob cannot be set or the launch not be traced.
    pub fn attach(recorder: RecorderLease, root: &Path) -> Result<Self> {
        // What a killed session leaves changed, the next learning run puts back.
        let mut settings = LearningSettings::acquire(&MountTable::read()?, Some(root), HOW, None)?;
        settings.apply()?;
        Ok(LiveLearning {
            tracer: Some(recorder.launcher(None)?),
            follow: None,
            lost: 0,
            settings,
        })
    }

    /// What the child must set as its last act before execve; `None` once the launch is over.
    pub fn start_mark(&mut self) -> Option<StartMark> {
        self.tracer.as_mut().map(|tracer| tracer.start_mark())
    }

    /// Readable when the launch tree has ended; `None` once the launch is over. Events are to be
    /// [fetched](Self::drain) every [`paralfetch::kernel::DRAIN_INTERVAL`].
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.tracer.as_ref().map(Tracer::wake_fd)
    }

    /// Takes in what has happened; when the launch is over, detaches.
    ///
    /// # Errors
    /// When the events cannot be fetched.
    pub fn drain(&mut self) -> Result<()> {
        let Some(tracer) = &mut self.tracer else {
            return Ok(());
        };
        if self.follow.is_none() && tracer.with_trace(|trace| trace.start_ns == 0) {
            return Ok(());
        }
        let follow = self
            .follow
            .get_or_insert_with(|| Follow::new(tracer, HOW, LaunchLimits::default().for_lesson()));
        match follow.look(tracer, false)? {
            Some(_) => self.detach(),
            None => Ok(()),
        }
    }

    fn detach(&mut self) -> Result<()> {
        if let Some(tracer) = self.tracer.take() {
            let trace = tracer.finish()?;
            ensure!(
                !trace.accesses.is_empty(),
                "live learning saw nothing of the launch"
            );
            self.lost = trace.lost;
        }
        Ok(())
    }

    /// Detaches and puts the settings back.
    ///
    /// # Errors
    /// When the launch could not have been learned from, or a setting not be put back.
    pub fn finish(mut self) -> Result<()> {
        let detached = self.detach();
        self.settings.restore()?;
        detached?;
        let lost = self.lost;
        ensure!(lost == 0, "live learning lost {lost} events of the launch");
        Ok(())
    }
}
