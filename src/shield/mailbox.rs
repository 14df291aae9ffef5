//! Commands to the shield's thread. Sending never waits: what finds no room is counted and lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};

/// Most commands that wait.
const ROOM: usize = 256;
/// Most [`ShieldCommand::Waits`] among them: an app with hundreds of waiting threads leaves room for launches.
const ROOM_FOR_WAITS: usize = ROOM / 2;

/// What callers say. Devices are the kernel's dev_t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShieldCommand {
    LaunchBegins {
        launch: u64,
        uid: u32,
        root: i32,
        device: u32,
    },
    LaunchEnds {
        launch: u64,
    },
    Waits {
        pid: i32,
        tid: i32,
        uid: u32,
        device: u32,
    },
    Stop,
}

/// The callers' end.
pub(super) struct CommandSender {
    /// `None` while it is dropped.
    sender: Option<SyncSender<ShieldCommand>>,
    fd: Arc<OwnedFd>,
    lost: Arc<AtomicU64>,
    /// The [`ShieldCommand::Waits`] that are queued.
    waits: Arc<AtomicUsize>,
}

/// The thread's end.
pub(super) struct CommandReceiver {
    receiver: Receiver<ShieldCommand>,
    fd: Arc<OwnedFd>,
    lost: Arc<AtomicU64>,
    waits: Arc<AtomicUsize>,
}

/// Makes a pair.
///
/// # Errors
/// When the system has no descriptor to give.
pub(super) fn commands() -> io::Result<(CommandSender, CommandReceiver)> {
    let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let lost = Arc::new(AtomicU64::new(0));
    let waits = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = sync_channel(ROOM);
    let sender = CommandSender {
        sender: Some(sender),
        fd: Arc::clone(&fd),
        lost: Arc::clone(&lost),
        waits: Arc::clone(&waits),
    };
    let receiver = CommandReceiver {
        receiver,
        fd,
        lost,
        waits,
    };
    Ok((sender, receiver))
}

impl CommandSender {
    /// Sends a command; false if it found no room, or nobody is there any more.
    pub fn send(&self, command: ShieldCommand) -> bool {
        let sender = self.sender.as_ref();
        let is_wait = matches!(command, ShieldCommand::Waits { .. });
        // Counted before it is sent: the receiver may take it at once.
        let has_room = !is_wait || self.waits.fetch_add(1, Ordering::Relaxed) < ROOM_FOR_WAITS;
        let sent = has_room && sender.is_some_and(|sender| sender.try_send(command).is_ok());
        if !sent {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.waits
                .fetch_sub(usize::from(is_wait), Ordering::Relaxed);
        }
        self.wake();
        sent
    }

    /// Wakes the thread. A counter that is full wakes it, too.
    fn wake(&self) {
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }
}

impl Drop for CommandSender {
    /// The thread ends when nobody can send any more.
    fn drop(&mut self) {
        // It looks as soon as it is woken.
        drop(self.sender.take());
        self.wake();
    }
}

impl CommandReceiver {
    /// The next command; [`ShieldCommand::Stop`] if nobody can send any more.
    pub fn next(&self) -> Option<ShieldCommand> {
        match self.receiver.try_recv() {
            Ok(command) => {
                let is_wait = matches!(command, ShieldCommand::Waits { .. });
                self.waits
                    .fetch_sub(usize::from(is_wait), Ordering::Relaxed);
                Some(command)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(ShieldCommand::Stop),
        }
    }

    /// Takes back the wake-ups, before commands are taken.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    /// Commands that found no room so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl AsFd for CommandReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mailbox_refuses_at_once_and_counts() {
        let (sender, receiver) = commands().unwrap();
        for launch in 0..ROOM as u64 {
            assert!(sender.send(ShieldCommand::LaunchEnds { launch }));
        }
        assert!(!sender.send(ShieldCommand::LaunchEnds { launch: 0 }));
        assert_eq!(receiver.lost(), 1);
        assert_eq!(
            receiver.next(),
            Some(ShieldCommand::LaunchEnds { launch: 0 })
        );
        assert!(sender.send(ShieldCommand::Stop));
        drop(sender);
        assert_eq!(
            std::iter::from_fn(|| receiver.next()).take(ROOM + 9).last(),
            Some(ShieldCommand::Stop)
        );
    }

    #[test]
    fn waits_leave_room_for_launches() {
        let (sender, receiver) = commands().unwrap();
        let wait = ShieldCommand::Waits {
            pid: 1,
            tid: 2,
            uid: 3,
            device: 4,
        };
        let end = ShieldCommand::LaunchEnds { launch: 0 };
        for _ in 0..ROOM_FOR_WAITS {
            assert!(sender.send(wait));
        }
        assert!(!sender.send(wait));
        for _ in ROOM_FOR_WAITS..ROOM {
            assert!(sender.send(end));
        }
        assert!(!sender.send(end));
        // A place that was taken out is free again; one that was refused has not been used.
        assert_eq!(receiver.next(), Some(wait));
        assert!(sender.send(end));
        assert!(!sender.send(wait), "all places are taken");
        assert_eq!(receiver.next(), Some(wait));
        assert!(sender.send(wait));
        assert_eq!(receiver.lost(), 3);
    }
}
