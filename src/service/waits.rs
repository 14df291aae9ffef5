//! Counting waits while launches are under way, and only then.

use std::io;
use std::thread::Builder;

use super::core::Service;
use super::message::Message;
use super::priority::start_behind;
use crate::watch::CountingWaits;

/// Whether waits are counted.
#[derive(Default)]
pub(super) enum Waits {
    /// No.
    #[default]
    Off,
    /// A thread is attaching the programs.
    Attaching,
    /// Yes, until this is dropped.
    On(#[expect(dead_code, reason = "held for what dropping it does")] CountingWaits),
}

impl Service<'_> {
    /// Has waits counted, a millisecond from now: by a thread, since neither the app nor the next launch
    /// may wait for that.
    pub(super) fn count_waits(&mut self) {
        if !matches!(self.state.waits, Waits::Off) {
            return;
        }
        let outbox = self.outbox.clone();
        let started = self.watch.wait_programs().and_then(|programs| {
            let attach = move || {
                outbox.send(Message::CountingWaits(programs.attach()));
            };
            start_behind(|| Builder::new().name("pf-attach".to_owned()).spawn(attach))
        });
        match started {
            Ok(_) => self.state.waits = Waits::Attaching,
            Err(error) => self.warn(format!("waits are not counted: {error}")),
        }
    }

    /// The thread is done.
    pub(super) fn on_counting_waits(&mut self, attached: io::Result<CountingWaits>) {
        self.state.waits = match attached {
            Ok(counting) => Waits::On(counting),
            Err(error) => {
                self.warn(format!("waits are not counted: {error}"));
                Waits::Off
            }
        };
        self.stop_counting_unneeded();
    }

    /// Has waits no longer counted once no launch is under way.
    pub(super) fn stop_counting_unneeded(&mut self) {
        if !self.active.is_empty() || !matches!(self.state.waits, Waits::On(_)) {
            return;
        }
        let counting = std::mem::take(&mut self.state.waits);
        self.worker.run(move |_| drop(counting));
    }
}
