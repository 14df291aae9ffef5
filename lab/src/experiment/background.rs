//! An app that runs in the background while another is learned (Figure 11).

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::apps::{self, App};
use crate::child::die_with_parent;
use crate::display::Display;
use crate::processes::cpu_of_descendants;

/// The app, in a process group of its own.
pub struct Process(Child);

/// Starts an app in the image, and waits for its window and until it has nothing more to do: while it
/// starts, it would read back at once what is taken from it before another app is learned.
///
/// # Errors
/// When it does not start, or shows no window in time.
pub fn start(app: &App, root: &Path, display: &Display, timeout: Duration) -> Result<Process> {
    let rule = app.window.as_ref();
    let watch = rule.map(|rule| display.watch(rule)).transpose()?;
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .args(&app.command)
        .env_clear()
        .envs(apps::environment(std::slice::from_ref(app), display.name()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    die_with_parent(&mut command, &[]);
    let process = Process(command.spawn().context("cannot run chroot(8)")?);
    let Some(mut watch) = watch else {
        return Ok(process);
    };
    let begun = Instant::now();
    while watch.poll()?.is_none() {
        let Some(left) = timeout.checked_sub(begun.elapsed()) else {
            bail!("{} did not show its window in the background", app.name);
        };
        let wait = Timespec::try_from(left)?;
        match poll(&mut [PollFd::new(&watch.fd(), PollFlags::IN)], Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    until_idle(begun, timeout)?;
    Ok(process)
}

/// Share of a second's processor time below which an app is idle: a caret blinks.
const IDLE: f64 = 0.03;

/// Waits for a second in which this process's descendants hardly run; no longer than `timeout` from
/// `begun` on, since some apps never rest.
fn until_idle(begun: Instant, timeout: Duration) -> Result<()> {
    let mut used = cpu_of_descendants()?.total();
    while begun.elapsed() < timeout {
        std::thread::sleep(Duration::from_secs(1));
        let now = cpu_of_descendants()?.total();
        if now - used < IDLE {
            return Ok(());
        }
        used = now;
    }
    Ok(())
}

impl Process {
    /// Process id of the app's first process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Process {
    /// Kills its process group. Processes that left the group are ended with the next launch tree.
    fn drop(&mut self) {
        // Both fail if the app has ended by itself.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.0.wait();
    }
}
