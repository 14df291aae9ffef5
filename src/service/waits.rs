//! Counting waits for the drive while launches are under way, and only then: the programs for it run at
//! every context switch of the system.

use std::io;
use std::thread::Builder;

use super::mailbox::Outbox;
use super::message::Message;
use super::priority::start_behind;
use crate::kernel::{CountingWaits, WaitPrograms};

/// Whether waits are counted.
#[derive(Default)]
enum WaitState {
    /// No.
    #[default]
    Off,
    /// A thread attaches or detaches the programs. Attached twice, they would count twice.
    Changing,
    /// Yes, until this is dropped.
    On(CountingWaits),
}

/// Switches the counting of waits on and off.
pub struct WaitSwitch {
    state: WaitState,
    outbox: Outbox<Message>,
}

impl WaitSwitch {
    /// Waits are not counted yet.
    pub fn new(outbox: Outbox<Message>) -> Self {
        WaitSwitch {
            state: WaitState::Off,
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
        match self.state {
            WaitState::Off => {
                let programs = programs()?;
                self.change(move || programs.attach().map(Some))
            }
            WaitState::Changing | WaitState::On(_) => Ok(()),
        }
    }

    /// Has waits no longer counted.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn switch_off(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.state) {
            WaitState::On(counting) => self.change(move || {
                drop(counting);
                Ok(None)
            }),
            other => {
                self.state = other;
                Ok(())
            }
        }
    }

    /// The thread has attached or detached the programs.
    ///
    /// # Errors
    /// When it could not.
    pub fn changed(&mut self, changed: io::Result<Option<CountingWaits>>) -> io::Result<()> {
        self.state = WaitState::Off;
        if let Some(counting) = changed? {
            self.state = WaitState::On(counting);
        }
        Ok(())
    }

    fn change(
        &mut self,
        change: impl FnOnce() -> io::Result<Option<CountingWaits>> + Send + 'static,
    ) -> io::Result<()> {
        let outbox = self.outbox.clone();
        let work = move || {
            outbox.send(Message::Waits(change()));
        };
        start_behind(|| Builder::new().name("pf-attach".to_owned()).spawn(work))?;
        self.state = WaitState::Changing;
        Ok(())
    }
}
