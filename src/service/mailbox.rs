//! Messages to the event loop, from other threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

use super::message::Message;

/// Messages that are taken at a time.
const MOST_TAKEN: usize = 64;

/// The loop's end.
pub struct Inbox {
    fd: Arc<OwnedFd>,
    receiver: Receiver<Message>,
}

/// The other threads' end.
#[derive(Clone)]
pub struct Outbox {
    fd: Arc<OwnedFd>,
    sender: Sender<Message>,
}

/// Makes a pair.
///
/// # Errors
/// When the system has no descriptor to give.
pub fn mailbox() -> io::Result<(Outbox, Inbox)> {
    let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    let outbox = Outbox {
        fd: Arc::clone(&fd),
        sender,
    };
    Ok((outbox, Inbox { fd, receiver }))
}

impl Outbox {
    /// Sends a message and wakes the loop; false if the loop is gone.
    pub fn send(&self, message: Message) -> bool {
        if self.sender.send(message).is_err() {
            return false;
        }
        // It can only be refused when the counter is full, and then the loop is awake.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        true
    }
}

impl Inbox {
    /// Readable when there is a message.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The messages that have arrived, [`MOST_TAKEN`] of them at most: then others have their turn.
    pub fn take(&self) -> Vec<Message> {
        let mut count = [0; 8];
        // A message may have come without its wake-up being counted yet.
        let _ = rustix::io::read(&self.fd, &mut count);
        let taken: Vec<Message> = self.receiver.try_iter().take(MOST_TAKEN).collect();
        if taken.len() == MOST_TAKEN {
            // There may be more. It cannot be refused: the counter was just read.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(inbox: &Inbox) -> bool {
        let fd = inbox.fd();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_flood_of_messages_is_taken_in_parts() {
        let (outbox, inbox) = mailbox().unwrap();
        for launch in 0..2 * MOST_TAKEN as u64 {
            outbox.send(Message::Prefetched(launch));
        }
        for _ in 0..2 {
            assert!(is_readable(&inbox));
            assert_eq!(inbox.take().len(), MOST_TAKEN);
        }
        assert!(inbox.take().is_empty() && !is_readable(&inbox));
    }

    #[test]
    fn messages_wake_and_arrive_in_order() {
        let (outbox, inbox) = mailbox().unwrap();
        assert!(!is_readable(&inbox));
        let second = outbox.clone();
        assert!(outbox.send(Message::Prefetched(1)) && second.send(Message::Prefetched(2)));
        assert!(is_readable(&inbox));
        let arrived = inbox.take();
        assert!(matches!(
            arrived[..],
            [Message::Prefetched(1), Message::Prefetched(2)]
        ));
        assert!(!is_readable(&inbox) && inbox.take().is_empty());
        drop(inbox);
        assert!(!outbox.send(Message::Prefetched(3)));
    }
}
