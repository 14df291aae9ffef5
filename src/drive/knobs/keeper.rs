//! The keeper: a process that restores the knobs of one that was killed, or that hangs.
//!
//! It is told over a pipe, a byte at a time, when knobs are changed. The pipe is closed when the process that writes
//! to it ends in any way.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::record;
use super::setting::KnobError;
use super::{lock_now, restore_record};

/// What the keeper is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Notice {
    /// A knob is about to be changed: the keeper's limit begins, unless it has begun.
    Begin = b'\n',
    /// A knob is about to be changed: the limit begins anew.
    Renew = b'+',
    /// No knob is changed any more: the limit ends.
    AllRestored = b'-',
}

/// How long the keeper waits for the lock of a process that has closed its pipe. A dying process closes all of its
/// files at once, but some of them are slow to close.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// How often it looks meanwhile.
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// The process that changes knobs has this of its keeper.
pub(super) struct Keeper {
    command: Command,
    process: Child,
}

impl Keeper {
    pub fn start(mut command: Command) -> io::Result<Self> {
        let process = spawn(&mut command)?;
        Ok(Keeper { command, process })
    }

    /// Tells the keeper. It reads at once, or not at all: this does not wait.
    pub fn tell(&mut self, notice: Notice) -> io::Result<()> {
        match self.process.stdin.as_mut() {
            Some(pipe) => pipe.write_all(&[notice as u8]),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Starts another one in place of one that has ended.
    pub fn start_again(&mut self) -> io::Result<()> {
        let process = spawn(&mut self.command)?;
        std::mem::replace(&mut self.process, process).wait()?;
        Ok(())
    }

    /// Has the keeper end, once it has restored what is left to restore, for which it needs the lock.
    pub fn end(mut self) -> io::Result<()> {
        drop(self.process.stdin.take());
        self.process.wait().map(drop)
    }
}

/// systemd asks all processes of a service that is stopped to end: the keeper has to restore its knobs first, and
/// never takes the signal.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let before = SigSet::from(Signal::SIGTERM).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let process = command.stdin(Stdio::piped()).spawn();
    before.thread_set_mask()?;
    let process = process?;
    if let Some(pipe) = &process.stdin {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    Ok(process)
}

/// The keeper process: waits until its standard input is closed, as it is once the process that changed the
/// knobs has ended in any way, and restores the knobs that are still recorded. A process that hangs, was stopped, or
/// waits for something that other processes hold up gets no longer than `limit` (of CLOCK_MONOTONIC): then its knobs are
/// restored, too. Bytes on standard input tell when that begins: with the first knob that is changed, or anew with each
/// one that is changed by [`Knobs::change`](super::Knobs::change).
///
/// # Errors
/// When a knob cannot be written or the record cannot be read.
pub fn keep(dir: &Path, limit: Duration) -> Result<(), KnobError> {
    // For a keeper that was not started by `Knobs`.
    let _ = SigSet::from(Signal::SIGTERM).thread_block();
    let stdin = io::stdin();
    while !is_closed(&stdin, limit) {
        // A process that hangs keeps its lock: the record is the one to restore. What cannot be restored stays
        // recorded for the end.
        let _ = restore_record(dir);
    }
    let deadline = Instant::now() + LOCK_LIMIT;
    while record::exists(dir) {
        // A dying process closes its pipe and its lock one after the other. If a new run has the lock, it has
        // restored this record and may have written its own, which must be left alone.
        match lock_now(dir)? {
            Some(_lock) => return restore_record(dir).map(drop),
            None if Instant::now() < deadline => thread::sleep(LOCK_LOOK),
            None => break,
        }
    }
    Ok(())
}

/// Waits until the pipe that tells changes is closed, or the limit of a change has passed. Whether it is closed.
fn is_closed(notices: &impl AsFd, limit: Duration) -> bool {
    let mut deadline: Option<Instant> = None;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(notices, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return true,
        }
        let mut byte = [0];
        match rustix::io::read(notices, &mut byte) {
            Ok(1..) => deadline = next_deadline(deadline, byte[0], Instant::now() + limit),
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return true,
        }
    }
}

/// The keeper's deadline after this byte, with `latest` as one that begins now.
fn next_deadline(deadline: Option<Instant>, byte: u8, latest: Instant) -> Option<Instant> {
    match byte {
        byte if byte == Notice::AllRestored as u8 => None,
        byte if byte == Notice::Renew as u8 => Some(latest),
        _ => deadline.or(Some(latest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_waited_for_until_its_limit_and_the_end_of_the_process_without_one() {
        let (notices, process) = io::pipe().unwrap();
        rustix::io::write(&process, &[Notice::Begin as u8]).unwrap();
        assert!(!is_closed(&notices, Duration::from_millis(1)), "it hangs");
        rustix::io::write(&process, &[Notice::Begin as u8, Notice::AllRestored as u8]).unwrap();
        drop(process);
        assert!(is_closed(&notices, Duration::from_millis(1)));
    }

    #[test]
    fn the_limit_begins_with_the_first_change_or_anew_with_each() {
        let first = Instant::now();
        let later = first + Duration::from_secs(1);
        let next = |deadline, notice| next_deadline(deadline, notice as u8, later);
        assert_eq!(next(None, Notice::Begin), Some(later));
        assert_eq!(next(Some(first), Notice::Begin), Some(first));
        assert_eq!(next(Some(first), Notice::Renew), Some(later));
        assert_eq!(next(Some(first), Notice::AllRestored), None);
    }
}
