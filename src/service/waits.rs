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

/// The share of a longer launch, one in so many, that may have gone by instead: on a slow machine, attaching takes longer,
/// and so does the launch.
const LATE_SHARE: u64 = 20;

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

    /// Whether the waits of a launch that began at `start_ns`, and goes on until now at least, are counted.
    pub fn counts_since(&self, start_ns: u64) -> bool {
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        is_in_time(since_ns, start_ns, Clocks::now().monotonic_ns)
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

/// Whether counting that began at `since_ns` saw enough of a launch from `start_ns` to `now_ns`.
fn is_in_time(since_ns: u64, start_ns: u64, now_ns: u64) -> bool {
    let late_ns = LATE_NS.max(now_ns.saturating_sub(start_ns) / LATE_SHARE);
    since_ns <= start_ns.saturating_add(late_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn counting_may_begin_a_little_late_or_a_twentieth_of_the_launch() {
        let is_in_time = |late_ns, took_ns| is_in_time(5 + late_ns, 5, 5 + took_ns);
        assert!(is_in_time(LATE_NS, SECOND_NS));
        assert!(!is_in_time(LATE_NS + 1, SECOND_NS));
        assert!(is_in_time(3 * LATE_NS, 6 * SECOND_NS));
        assert!(!is_in_time(3 * LATE_NS + 1, 6 * SECOND_NS));
        assert!(
            !super::is_in_time(u64::MAX, 5, 5 + SECOND_NS),
            "they are not counted"
        );
    }
}
