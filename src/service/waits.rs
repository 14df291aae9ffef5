//! Counting waits for the drive while launches are under way, and only then: the programs for it run at
//! every context switch of the system.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::work_behind;
use crate::kernel::{CountingWaits, WaitPrograms};
use crate::process::Clocks;

/// How much later than a launch counting may begin, in nanoseconds, for its waits to count as counted: attaching
/// the programs takes a millisecond or some.
const LATE_NS: u64 = 100_000_000;

/// Switches the counting of waits on and off.
pub struct WaitSwitch {
    /// While this lives, waits are counted.
    counting: Option<CountingWaits>,
    /// Whether a thread attaches or detaches the programs. Attached twice, they would count twice.
    is_changing: bool,
    /// When the programs were attached, by CLOCK_MONOTONIC in nanoseconds; `u64::MAX`: they are not.
    since_ns: Arc<AtomicU64>,
    outbox: Outbox,
}

impl WaitSwitch {
    /// Waits are not counted yet.
    pub fn new(outbox: Outbox) -> Self {
        WaitSwitch {
            counting: None,
            is_changing: false,
            since_ns: Arc::new(AtomicU64::new(u64::MAX)),
            outbox,
        }
    }

    /// Has waits counted from about a millisecond later on. A thread attaches the programs: neither the app
    /// nor the next launch may wait for that.
    ///
    /// # Errors
    /// When there is no thread, or `programs` fails.
    pub fn switch_on(
        &mut self,
        programs: impl FnOnce() -> io::Result<WaitPrograms>,
    ) -> io::Result<()> {
        if self.is_changing || self.counting.is_some() {
            return Ok(());
        }
        let (programs, since_ns) = (programs()?, Arc::clone(&self.since_ns));
        self.change(move || {
            let counting = programs.attach()?;
            since_ns.store(Clocks::now().monotonic_ns, Ordering::Relaxed);
            Ok(Some(counting))
        })
    }

    /// Has waits no longer counted.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn switch_off(&mut self) -> io::Result<()> {
        let Some(counting) = self.counting.take() else {
            return Ok(());
        };
        self.since_ns.store(u64::MAX, Ordering::Relaxed);
        self.change(move || {
            drop(counting);
            Ok(None)
        })
    }

    /// Whether the waits of a launch that began at `start_ns` are counted.
    pub fn counts_since(&self, start_ns: u64) -> bool {
        self.since_ns.load(Ordering::Relaxed) <= start_ns.saturating_add(LATE_NS)
    }

    /// Whether a thread attaches or detaches the programs.
    pub fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// The thread has attached or detached the programs.
    ///
    /// # Errors
    /// When it could not.
    pub fn changed(&mut self, changed: io::Result<Option<CountingWaits>>) -> io::Result<()> {
        self.is_changing = false;
        self.counting = changed?;
        Ok(())
    }

    fn change(
        &mut self,
        change: impl FnOnce() -> io::Result<Option<CountingWaits>> + Send + 'static,
    ) -> io::Result<()> {
        work_behind("pf-attach", &self.outbox, || Message::Waits(change()))?;
        self.is_changing = true;
        Ok(())
    }
}
