//! The session bus of apps that start helpers over it.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::child::die_with_parent;

/// Address of the session bus, in the image.
pub(super) const ADDRESS: &str = "unix:path=/run/session-bus";

/// A message bus (dbus-daemon(1)) in the image, killed when this is dropped. As in a user's session, it is
/// there before the app, and it starts helpers itself: they do not descend from the app.
pub struct SessionBus {
    child: Child,
    pidfd: OwnedFd,
}

impl SessionBus {
    /// Starts it in the image at `root`, and waits until apps can connect.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(root: &Path) -> Result<Self> {
        let mut command = Command::new("chroot");
        command
            .arg(root)
            .args(["dbus-daemon", "--session", "--nofork", "--nopidfile"])
            .arg(format!("--address={ADDRESS}"))
            .arg("--print-address")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        die_with_parent(&mut command, &[]);
        let mut child = command.spawn().context("cannot run chroot(8)")?;
        let printed = child.stdout.take().context("no pipe to the session bus")?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let bus = SessionBus { child, pidfd };
        let mut address = String::new();
        BufReader::new(printed).read_line(&mut address)?;
        ensure!(
            !address.is_empty(),
            "the session bus did not start: try 'dbus-daemon --session' in the image"
        );
        Ok(bus)
    }

    /// The bus's process.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for SessionBus {
    fn drop(&mut self) {
        // Both fail if it was ended and reaped with the launch. By descriptor: its id may be another's then.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = self.child.wait();
    }
}
