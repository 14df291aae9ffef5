//! The machine of a session, and what is asked of it, so that a virtual one behaves like one of its own.
//!
//! **Idle processors.** In a virtual machine an idle processor halts, and the host takes some 70 µs to wake
//! it: half a flash read, and only sometimes, since the host polls for a while before it really sleeps. The
//! guest can poll first (Documentation/virt/guest-halt-polling.rst in the kernel), which costs idle time
//! alone and brings wake-ups down to those of a machine.
//!
//! **Free memory.** A guest may report free pages to its host (Documentation/mm/free_page_reporting.rst),
//! which takes them away. Touched again, each costs a fault of the host. A background writer frees and takes
//! page cache all the time; a launch beside it then got such pages, and GIMP spent 1.1 s more of processor
//! time on them. With an order above the largest one that the allocator has, nothing is reported any more;
//! and memory that is touched once is backed.
//!
//! Machines of their own have no such knobs, and need none.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::drive::{Knobs, restore_leftovers, total_memory};
use paralfetch::learn::keeper_command;

use crate::record::Session;

/// Where the knobs' old values are recorded; a reboot empties it, as it does the knobs.
const RECORD_DIR: &str = "/run/paralfetch-lab";

/// The knobs and what they are set to: polling for 0.4 ms, longer than a flash read takes, at once and
/// always, which the third one turns on; and reporting free areas of 2^11 pages, when the largest that
/// there are have 2^10.
const KNOBS: [(&str, &str); 4] = [
    (
        "/sys/module/haltpoll/parameters/guest_halt_poll_grow_start",
        "400000",
    ),
    (
        "/sys/module/haltpoll/parameters/guest_halt_poll_allow_shrink",
        "N",
    ),
    (
        "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
        "400000",
    ),
    (PAGE_REPORTING, "11"),
];
const PAGE_REPORTING: &str = "/sys/module/page_reporting/parameters/page_reporting_order";

/// Memory that is touched before the first launch, in bytes: more than a launch and a writer's page cache
/// turn over.
const TOUCHED: usize = 4 << 30;
const PAGE: usize = 4096;

/// Longest session: a process that has changed knobs for longer hangs.
pub const LONGEST_SESSION: Duration = Duration::from_secs(48 * 3600);

/// The knobs, set; put back when this is dropped, and by a process of its own if we are killed.
pub struct Awake(Option<Knobs>);

impl Awake {
    /// Sets the knobs where there are any.
    ///
    /// # Errors
    /// When another session has set them, or they cannot be set.
    pub fn set() -> Result<Self> {
        let there: Vec<_> = KNOBS
            .iter()
            .map(|(path, value)| (Path::new(path), value))
            .filter(|(path, _)| path.exists())
            .filter(|(path, _)| *path != Path::new(PAGE_REPORTING) || reports_memory())
            .collect();
        if there.is_empty() {
            return Ok(Awake(None));
        }
        let dir = Path::new(RECORD_DIR);
        restore_leftovers(dir)?;
        let keeper = keeper_command(dir, LONGEST_SESSION);
        let keeper = keeper.context("cannot tell where this program is")?;
        let mut knobs = Knobs::acquire(dir, Some(keeper)).context("is another session running?")?;
        for (knob, value) in there {
            knobs.set(knob, value)?;
        }
        Ok(Awake(Some(knobs)))
    }

    /// Where free memory is reported to a host, touches 4 GiB of it once, or half of what is available if
    /// that is less, so that it is backed as long as the session goes on.
    ///
    /// # Errors
    /// When /proc/meminfo cannot be read.
    pub fn back_memory(&self) -> Result<()> {
        if !reports_memory() {
            return Ok(());
        }
        let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
        let available = available_bytes(&text).context("no MemAvailable in /proc/meminfo")?;
        let mut memory = vec![0_u8; TOUCHED.min(available / 2)];
        for page in memory.chunks_mut(PAGE) {
            page[0] = 1;
        }
        black_box(&memory);
        Ok(())
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

/// A session on a drive with this name, in these words, that begins now on this machine.
///
/// # Errors
/// When the number of processors is not known.
pub fn session(device: &str, drive: String) -> Result<Session> {
    let gib = (total_memory() as f64 / (1u64 << 30) as f64).round();
    let processors = std::thread::available_parallelism()?;
    Ok(Session {
        started: now(),
        device: device.to_owned(),
        drive,
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        machine: format!("{processors} processors, {gib} GiB"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Session::default()
    })
}

/// Seconds since the epoch.
pub fn now() -> u64 {
    jiff::Timestamp::now().as_second().unsigned_abs()
}

/// Whether free memory may be reported to a host.
fn reports_memory() -> bool {
    fs::read_to_string(PAGE_REPORTING).is_ok_and(|order| is_order(&order))
}

/// Whether this is the order of an area that the allocator may have, or the one that is set above them. Until a
/// host asks for reports, the kernel has -1 there, and newer ones then refuse to take 11.
fn is_order(order: &str) -> bool {
    order.trim().parse::<u32>().is_ok_and(|order| order <= 11)
}

/// MemAvailable in the text of /proc/meminfo, in bytes.
fn available_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_never_set_is_none() {
        assert!(is_order("9\n") && is_order("11\n"));
        for order in ["-1\n", "4294967295\n", ""] {
            assert!(!is_order(order), "{order}");
        }
    }

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:  24683520 kB\nMemFree:  1 kB\nMemAvailable:   22950 kB\n";
        assert_eq!(available_bytes(text), Some(22950 * 1024));
        assert_eq!(available_bytes("MemTotal: 1 kB"), None);
        assert_eq!(available_bytes("MemAvailable: many kB"), None);
    }
}
