//! The virtual display that graphical applications start on, and when their windows are mapped.

mod watch;
mod window;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::pipe::PipeFlags;

pub use watch::{Mapped, Seen, Watch};
pub use window::{WindowFacts, WindowRule, WindowType};

/// Size of the screen.
const SCREEN: &str = "1280x1024x24";

/// An X server without a screen (Xvfb), or a name of one.
pub struct Display {
    name: String,
    server: Option<Child>,
}

impl Display {
    /// Starts Xvfb on a free display. It ends when this is dropped, or with this thread.
    ///
    /// Programs in a chroot reach it: X servers listen on an abstract socket too, and the chroot shares
    /// the network namespace.
    ///
    /// # Errors
    /// When Xvfb is not there or does not start.
    pub fn start() -> Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let number = write.as_raw_fd();
        let mut command = Command::new("Xvfb");
        command
            .args(["-displayfd", &number.to_string(), "-screen", "0", SCREEN])
            .args(["-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The terminal's Ctrl-C ends the session, and only then the display.
            .process_group(0);
        crate::child::die_with_parent(&mut command, &[number]);
        let server = command
            .spawn()
            .context("cannot start Xvfb: install the package xvfb")?;
        let mut display = Display {
            name: String::new(),
            server: Some(server),
        };
        drop(write);
        let mut line = String::new();
        BufReader::new(File::from(read)).read_line(&mut line)?;
        let Ok(number) = line.trim().parse::<u32>() else {
            bail!("Xvfb did not start: try 'Xvfb -displayfd 1'");
        };
        display.name = format!(":{number}");
        Ok(display)
    }

    /// The running display that `$DISPLAY` names.
    ///
    /// # Errors
    /// When there is no such variable.
    pub fn of_environment() -> Result<Self> {
        let name = std::env::var("DISPLAY").context("the variable DISPLAY is not set")?;
        Ok(Display { name, server: None })
    }

    /// Name of the display, such as `:99`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Watches for an app's main window, from now on.
    ///
    /// # Errors
    /// When the X server does not answer.
    pub fn watch(&self, rule: &WindowRule) -> Result<Watch> {
        Watch::new(&self.name, rule.clone())
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // It has ended already if these fail.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
