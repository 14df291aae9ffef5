//! Keeping a guest's idle processors from being descheduled between requests.
//!
//! In a virtual machine an idle processor halts, and the host takes some 70 µs to wake it: half a flash
//! read, and only sometimes, since the host polls for a while before it really sleeps. The guest can
//! poll first (Documentation/virt/guest-halt-polling.rst in the kernel), which costs idle time alone and
//! brings wake-ups down to those of a machine. Machines of their own have no such knobs, and need none.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::drive::{Knobs, keep, restore_leftovers};

/// Where the knob's old value is recorded; a reboot empties it, as it does the knobs.
const RECORD_DIR: &str = "/run/paralfetch-lab";

/// The knobs and what they are set to: polling for 0.4 ms, longer than a flash read takes, at once and
/// always. The last one turns it on.
const DIR: &str = "/sys/module/haltpoll/parameters";
const KNOBS: [(&str, &str); 3] = [
    ("guest_halt_poll_grow_start", "400000"),
    ("guest_halt_poll_allow_shrink", "N"),
    ("guest_halt_poll_ns", "400000"),
];

/// Longest session.
const LIMIT: Duration = Duration::from_secs(48 * 3600);

/// The knobs, set; put back when this is dropped, and by a process of its own if we are killed.
pub struct Awake(Option<Knobs>);

impl Awake {
    /// Sets the knobs where there are any.
    ///
    /// # Errors
    /// When another session has set them, or they cannot be set.
    pub fn set() -> Result<Self> {
        if !Path::new(DIR).exists() {
            return Ok(Awake(None));
        }
        let dir = Path::new(RECORD_DIR);
        restore_leftovers(dir)?;
        let mut keeper = Command::new(std::env::current_exe()?);
        keeper.arg("keep-knobs");
        let mut knobs = Knobs::acquire(dir, Some(keeper)).context("is another session running?")?;
        for (knob, value) in KNOBS {
            knobs.set(&Path::new(DIR).join(knob), value)?;
        }
        Ok(Awake(Some(knobs)))
    }

    /// Puts the knobs back.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn restore(mut self) -> Result<()> {
        match self.0.take() {
            Some(knobs) => Ok(knobs.restore()?),
            None => Ok(()),
        }
    }
}

/// The process that puts the knobs back when the session is gone.
///
/// # Errors
/// When one cannot be written.
pub fn keep_knobs() -> Result<()> {
    Ok(keep(Path::new(RECORD_DIR), LIMIT)?)
}
