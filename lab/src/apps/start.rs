//! Starting an app once, to configure it or to see which windows it opens.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use paralfetch::process::{Command, Spawn, Stdio, Subreaper, Supervisor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::{App, SessionBus};
use crate::display::Display;

/// Time that an app has to save its configuration when it is asked to end.
const GRACE: Duration = Duration::from_secs(5);

/// A start that is asked for. It is made in a process of its own, which has the app's environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The app.
    pub app: App,
    /// Where the image is mounted.
    pub root: PathBuf,
    /// Longest wait for its window, in seconds.
    pub timeout: u64,
    /// How long it goes on after that, in seconds: apps do not announce when they have settled.
    pub linger: u64,
}

/// The result of a start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// From the start to the main window's mapping, or to the exit of a program without a window; in
    /// seconds.
    pub seconds: Option<f64>,
    /// The windows that were mapped at the end, in words.
    pub windows: Vec<String>,
    /// How the app ended, if it did by itself.
    pub ended: Option<String>,
}

impl Start {
    /// Starts the app. Belongs to the process's main thread.
    ///
    /// # Errors
    /// When the app cannot be started.
    pub fn run(&self) -> Result<Started> {
        let mut supervisor = Supervisor::new().context("cannot take over signals")?;
        let subreaper = Subreaper::new().context("cannot become a subreaper")?;
        let argv: Vec<OsString> = self.app.command.iter().map(OsString::from).collect();
        let command = Command::find_for(&argv, Some(&self.root), None)?;
        let _bus = self
            .app
            .bus
            .then(|| SessionBus::start(&self.root))
            .transpose()?;
        let display = Display::of_environment()?;
        let rule = self.app.window.clone().unwrap_or_default();
        let mut watch = display.watch(&rule)?;
        let begun = Instant::now();
        let started = supervisor.start(Spawn {
            stdio: Stdio::Null,
            new_session: true,
            ..Spawn::new(command)
        })?;
        let mut found = Started::default();
        let mut deadline = begun + Duration::from_secs(self.timeout);
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let (signals, windows) = (supervisor.signal_fd(), watch.fd());
            let mut fds = [
                PollFd::new(&signals, PollFlags::IN),
                PollFd::new(&windows, PollFlags::IN),
            ];
            match poll(&mut fds, Some(&Timespec::try_from(left)?)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mapped = watch.poll()?;
            if self.app.window.is_some() && mapped.is_some() && found.seconds.is_none() {
                found.seconds = Some(begun.elapsed().as_secs_f64());
                deadline = Instant::now() + Duration::from_secs(self.linger);
            }
            if let Some(exit) = supervisor.on_signals()? {
                found.ended = Some(format!("{:?}", exit.status));
                if self.app.window.is_none() {
                    found.seconds = Some(begun.elapsed().as_secs_f64());
                }
                break;
            }
            if supervisor.asked_to_end().is_some() {
                break;
            }
        }
        let describe = |seen: &crate::display::Seen| {
            let after = seen.at_ns.saturating_sub(started.time_ns) as f64 / 1e9;
            format!("after {after:.2} s: {:?}", seen.window)
        };
        found.windows = watch.mapped().iter().map(describe).collect();
        subreaper.terminate(Some(started.pid), GRACE)?;
        if supervisor.is_supervising() {
            supervisor.wait()?;
        }
        Ok(found)
    }
}
