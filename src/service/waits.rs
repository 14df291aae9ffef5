//! Counting waits while launches are under way, and only then.

use std::io;
use std::thread::Builder;

use super::core::Service;
use super::message::Message;
use super::priority::start_behind;
use crate::kernel::CountingWaits;

/// Whether waits are counted.
#[derive(Default)]
pub(super) enum Waits {
    /// No.
    #[default]
    Off,
    /// A thread is attaching the programs, or detaching them. Attached twice, they would count twice.
    Changing,
    /// Yes, until this is dropped.
    On(CountingWaits),
}

impl Service<'_> {
    /// Has waits counted, a millisecond from now: by a thread, since neither the app nor the next launch
    /// may wait for that.
    pub(super) fn count_waits(&mut self) {
        if !matches!(self.state.waits, Waits::Off) {
            return;
        }
        match self.watch.wait_programs() {
            Ok(programs) => self.change_waits(move || programs.attach().map(Some)),
            Err(error) => self.warn(format!("waits are not counted: {error}")),
        }
    }

    /// A thread is done with attaching or detaching: what holds the programs is there or gone.
    pub(super) fn on_waits(&mut self, changed: io::Result<Option<CountingWaits>>) {
        self.state.waits = Waits::Off;
        match changed {
            Ok(Some(counting)) => self.state.waits = Waits::On(counting),
            // A launch may have begun meanwhile.
            Ok(None) if !self.active.is_empty() => self.count_waits(),
            Ok(None) => {}
            Err(error) => self.warn(format!("waits are not counted: {error}")),
        }
        self.stop_counting_unneeded();
    }

    /// Has waits no longer counted once no launch is under way.
    pub(super) fn stop_counting_unneeded(&mut self) {
        if !self.active.is_empty() {
            return;
        }
        match std::mem::take(&mut self.state.waits) {
            Waits::On(counting) => self.change_waits(move || {
                drop(counting);
                Ok(None)
            }),
            other => self.state.waits = other,
        }
    }

    fn change_waits(
        &mut self,
        change: impl FnOnce() -> io::Result<Option<CountingWaits>> + Send + 'static,
    ) {
        let outbox = self.outbox.clone();
        let work = move || {
            outbox.send(Message::Waits(change()));
        };
        match start_behind(|| Builder::new().name("pf-attach".to_owned()).spawn(work)) {
            Ok(_) => self.state.waits = Waits::Changing,
            // What `change` held is gone with it.
            Err(error) => self.warn(format!("waits are not counted: {error}")),
        }
    }
}
