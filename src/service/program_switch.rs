//! The BPF programs that are attached while launches are under way, and only then: they run at every context switch, or at
//! every use of a page.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::work_behind;
use crate::kernel::{LaunchPrograms, LoadedPrograms, ProgramLinks};
use crate::process::Clocks;

/// How much later than a launch programs may be attached, in nanoseconds, to have seen all of it that matters: that takes
/// a millisecond or some, and before Linux 6.12 tenths of a second for those that see pages.
const LATE_NS: u64 = 100_000_000;

/// A switch for each kind of programs. What takes long for one kind keeps no other from being attached in time.
pub struct ProgramSwitches {
    waits: ProgramSwitch,
    completion: ProgramSwitch,
}

impl ProgramSwitches {
    /// All are off.
    pub fn new(outbox: &Outbox) -> Self {
        ProgramSwitches {
            waits: ProgramSwitch::new(LaunchPrograms::Waits, outbox.clone()),
            completion: ProgramSwitch::new(LaunchPrograms::Completion, outbox.clone()),
        }
    }

    /// The switch of this kind.
    pub fn of(&mut self, kind: LaunchPrograms) -> &mut ProgramSwitch {
        match kind {
            LaunchPrograms::Waits => &mut self.waits,
            LaunchPrograms::Completion => &mut self.completion,
        }
    }

    /// Whether waits are counted of a launch that began at `start_ns`.
    pub fn count_waits_since(&self, start_ns: u64) -> bool {
        self.waits.is_on_by(start_ns, LATE_NS)
    }

    /// Whether it was seen from early on when such a launch used its completion pages, which it had used at `completed_ns`
    /// (0: not yet). A launch that is learned uses them within a tenth of its time: one that used enough of them behind the
    /// first half of its time has hardly used them all before, too.
    pub fn see_completion_since(&self, start_ns: u64, completed_ns: u64) -> bool {
        let half_ns = completed_ns.saturating_sub(start_ns) / 2;
        self.completion.is_on_by(start_ns, LATE_NS.max(half_ns))
    }

    /// Whether a thread attaches or detaches programs.
    pub fn is_changing(&self) -> bool {
        self.waits.is_changing || self.completion.is_changing
    }
}

/// Has the programs of one kind attached and detached.
pub struct ProgramSwitch {
    kind: LaunchPrograms,
    /// While this lives, they are attached.
    attached: Option<ProgramLinks>,
    /// Whether they are to be attached.
    is_wanted: bool,
    /// Whether a thread attaches or detaches them. Attached twice, they would count twice.
    is_changing: bool,
    /// When they were attached, by CLOCK_MONOTONIC in nanoseconds; `u64::MAX`: they are not.
    since_ns: Arc<AtomicU64>,
    outbox: Outbox,
}

impl ProgramSwitch {
    fn new(kind: LaunchPrograms, outbox: Outbox) -> Self {
        ProgramSwitch {
            kind,
            attached: None,
            is_wanted: false,
            is_changing: false,
            since_ns: Arc::new(AtomicU64::new(u64::MAX)),
            outbox,
        }
    }

    /// Has the programs attached from about a millisecond later on. A thread does that: neither the app nor the next
    /// launch may wait for it.
    ///
    /// # Errors
    /// When there is no thread, or `programs` fails.
    pub fn switch_on(
        &mut self,
        programs: impl FnOnce() -> io::Result<LoadedPrograms>,
    ) -> io::Result<()> {
        self.is_wanted = true;
        if self.is_changing || self.attached.is_some() {
            return Ok(());
        }
        let (programs, since_ns) = (programs()?, Arc::clone(&self.since_ns));
        self.change(move || {
            let attached = programs.attach()?;
            since_ns.store(Clocks::now().monotonic_ns, Ordering::Relaxed);
            Ok(Some(attached))
        })
    }

    /// Has the programs detached.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn switch_off(&mut self) -> io::Result<()> {
        self.is_wanted = false;
        let Some(attached) = self.attached.take() else {
            return Ok(());
        };
        self.since_ns.store(u64::MAX, Ordering::Relaxed);
        self.change(move || {
            drop(attached);
            Ok(None)
        })
    }

    /// Whether the programs are attached, and have been since so many nanoseconds behind this time.
    fn is_on_by(&self, start_ns: u64, late_ns: u64) -> bool {
        self.since_ns.load(Ordering::Relaxed) <= start_ns.saturating_add(late_ns)
    }

    /// The thread has attached or detached the programs. What has been wanted meanwhile is done; for that, they are
    /// `programs`.
    ///
    /// # Errors
    /// When it could not, and as [`ProgramSwitch::switch_on`].
    pub fn changed(
        &mut self,
        changed: io::Result<Option<ProgramLinks>>,
        programs: impl FnOnce() -> io::Result<LoadedPrograms>,
    ) -> io::Result<()> {
        self.is_changing = false;
        self.attached = changed?;
        match self.is_wanted {
            true => self.switch_on(programs),
            false => self.switch_off(),
        }
    }

    fn change(
        &mut self,
        change: impl FnOnce() -> io::Result<Option<ProgramLinks>> + Send + 'static,
    ) -> io::Result<()> {
        let kind = self.kind;
        let work = move || Message::Programs {
            kind,
            changed: change(),
        };
        work_behind("pf-attach", &self.outbox, work)?;
        self.is_changing = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::mailbox::mailbox;

    #[test]
    fn late_programs_have_seen_a_launch_that_was_complete_long_after_they_were_attached() {
        let (outbox, _inbox) = mailbox().unwrap();
        let switches = ProgramSwitches::new(&outbox);
        let (start_ns, ms) = (5_000_000_000, 1_000_000);
        let seen = |attached_ms: u64, completed_ms: u64| {
            let since_ns = start_ns + attached_ms * ms;
            switches
                .completion
                .since_ns
                .store(since_ns, Ordering::Relaxed);
            let completed_ns = match completed_ms {
                0 => 0,
                _ => start_ns + completed_ms * ms,
            };
            switches.see_completion_since(start_ns, completed_ns)
        };
        assert!(seen(100, 0) && seen(100, 101));
        assert!(!seen(101, 0) && !seen(101, 201));
        assert!(seen(300, 600) && !seen(301, 600));
        switches
            .completion
            .since_ns
            .store(u64::MAX, Ordering::Relaxed);
        assert!(!switches.see_completion_since(start_ns, start_ns + 1000 * ms));
    }
}
