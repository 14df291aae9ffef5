//! The shield's thread: it sleeps until a command, pressure or a deadline comes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::core::{ShieldCore, ShieldWorld};
use super::mailbox::{CommandReceiver, ShieldCommand};
use super::pressure::PressureTrigger;
use super::status::ShieldStatus;

/// What others read of it.
pub(super) type SharedStatus = Arc<Mutex<ShieldStatus>>;

/// Runs until it is stopped, and ends all measures then.
pub(super) fn run<W: ShieldWorld>(
    core: &mut ShieldCore<W>,
    commands: &CommandReceiver,
    mut pressure: Option<PressureTrigger>,
    status: &SharedStatus,
) {
    loop {
        let is_pressed = wait(commands, pressure.as_ref(), core.sleep());
        if is_pressed.is_none() {
            pressure = None;
        }
        commands.clear();
        while let Some(command) = commands.next() {
            core.handle(command);
            if command == ShieldCommand::Stop {
                publish(core, commands, status);
                return;
            }
        }
        if is_pressed == Some(true) {
            core.pressed();
        }
        core.turn();
        publish(core, commands, status);
    }
}

fn publish<W: ShieldWorld>(
    core: &ShieldCore<W>,
    commands: &CommandReceiver,
    status: &SharedStatus,
) {
    let now = core.status(true, commands.lost());
    *status
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
}

/// Waits for a command, pressure or the end of `limit`. Whether there is pressure; `None` if the trigger no longer
/// works.
fn wait(
    commands: &CommandReceiver,
    pressure: Option<&PressureTrigger>,
    limit: Option<Duration>,
) -> Option<bool> {
    let mut fds = vec![PollFd::new(commands, PollFlags::IN)];
    fds.extend(pressure.map(|trigger| PollFd::new(trigger, PollFlags::PRI)));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // A signal is no reason for anything: the loop looks at the time and waits again.
    let ready = poll(&mut fds, limit.as_ref()).unwrap_or(0);
    let events = fds.get(1).map_or(PollFlags::empty(), PollFd::revents);
    match ready > 0 && events.contains(PollFlags::ERR) {
        true => None,
        false => Some(events.contains(PollFlags::PRI)),
    }
}
