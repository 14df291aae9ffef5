//! Holding programs at their execve, by fanotify's permission events.
//!
//! Live learning has to be attached before the app runs, or the profile misses the first milliseconds of
//! the launch. And where the I/O scheduler would serve an app before its prefetch, the first region of its schedule is
//! read before the app runs. So the executables of such apps and of those that are to be learned, and no other files,
//! are marked, and a process that executes one waits until it is let go. If this process dies, the kernel lets all of
//! them go; for as long as it lives, it must answer.
//!
//! A thread of its own answers, and does nothing else:
//!
//! 1. It hands each program on and lets it go by itself after [`HOLD_LIMIT`], or after the longer time that whoever has
//!    taken it asks for ([`HeldExec::hold_for`]), but after [`LONGEST_HOLD`] in any case. Any thread may let it go
//!    earlier.
//! 2. It opens no file, closes none (a thread beside it does, since to close a deleted file may free all of its blocks),
//!    takes no lock and allocates nothing.
//! 3. If a program's time ran out because nobody took it, no other is held until all that were handed on are taken.
//! 4. It has a table of descriptors of its own. The kernel opens a descriptor in it for each event, and denies the
//!    execve if it cannot: the rest of the process, however many descriptors it uses, takes none of these.
//!
//! The kernel opens the executable in this thread, so files of a file system that another process serves must not be
//! marked: opening one waits for that process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{AtFlags, StatxFlags, makedev, statx};

/// How long a program is held at most, unless whoever has taken it asks for more.
pub const HOLD_LIMIT: Duration = Duration::from_millis(100);

/// How long a program is held at most, whoever asks for more.
pub const LONGEST_HOLD: Duration = crate::model::Hold::LONGEST;

const _: () = assert!(LONGEST_HOLD.as_millis() <= u16::MAX as u128);

/// Programs that are held at a time, at most. Others go on at once.
const MOST_HELD: usize = 16;

/// Events that one read returns. Each comes with an open descriptor.
const MOST_READ: usize = 16;

/// Files that wait to be closed, at most. Each of them has a descriptor.
const MOST_TO_CLOSE: usize = 1024;

/// Set beside the number of a hold whose time ran out.
const LATE: u64 = 1 << 63;

/// The highest ordinary priority: a held program waits for the thread.
const PRIORITY: i32 = -20;

/// The gate cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// fanotify_init(2) failed.
    #[error(
        "fanotify cannot be had ({0}); it needs CAP_SYS_ADMIN and CONFIG_FANOTIFY_ACCESS_PERMISSIONS=y"
    )]
    NoFanotify(io::Error),
    /// There is no thread, or it has no table of descriptors of its own.
    #[error("no thread can answer for programs that are held: {0}")]
    NoThread(io::Error),
    /// fanotify_mark(2) failed.
    #[error("cannot watch the execution of a file: {0}")]
    NoMark(io::Error),
}

/// Files whose execution waits for us. The thread that answers goes on until this process ends: once this is dropped,
/// it lets every program go at once.
pub struct ExecGate {
    shared: Arc<Shared>,
    waiting: Receiver<HeldExec>,
}

/// The marks of a gate, for any thread.
#[derive(Clone)]
pub struct GateMarks(Arc<Shared>);

/// A process that waits in its execve. It goes on when this is dropped, or at its limit.
pub struct HeldExec {
    shared: Arc<Shared>,
    hold: GateHold,
    /// The process, in our pid namespace.
    pub pid: i32,
    /// Device (`st_dev`) and inode number of the file.
    pub inode: (u64, u64),
}

/// One holding of a program.
#[derive(Clone, Copy)]
struct GateHold {
    /// Index in [`Shared::holds`].
    place: usize,
    /// Counts from 1.
    number: u64,
    /// The event's descriptor, in the table of the gate's thread. For other threads it is a number that the answer
    /// names.
    event: RawFd,
}

/// How long a hold lasts for which more than [`HOLD_LIMIT`] was asked. It names the hold, since another one may have
/// begun in its place when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LongerHold {
    number: u64,
    most_ms: u16,
}

impl LongerHold {
    fn new(number: u64, limit: Duration) -> Self {
        let most_ms = limit.clamp(HOLD_LIMIT, LONGEST_HOLD).as_millis() as u16;
        LongerHold { number, most_ms }
    }

    /// Of holds there are far fewer than 2⁴⁸. Of two, the greater is that of the later hold, or the longer one.
    fn packed(self) -> u64 {
        self.number << 16 | u64::from(self.most_ms)
    }

    fn unpacked(packed: u64) -> Self {
        LongerHold {
            number: packed >> 16,
            most_ms: packed as u16,
        }
    }
}

/// What the thread and those who let programs go have in common.
struct Shared {
    fanotify: OwnedFd,
    /// Numbers of the holds under way; 0 or a number with [`LATE`] where there is none. Whoever changes the number of a
    /// hold to one of these answers for the program.
    holds: [AtomicU64; MOST_HELD],
    /// How long holds last that were made longer, as [`LongerHold::packed`]; 0 or an earlier hold's where none was.
    longer: [AtomicU64; MOST_HELD],
    /// Holds that were taken by [`ExecGate::waiting`]: with the dropped ones, all up to this number.
    taken: AtomicU64,
    /// Readable when a program was handed on.
    ready: OwnedFd,
    /// Readable when the thread is to show that it lives. It then reads it.
    asked: OwnedFd,
}

impl ExecGate {
    /// A gate without any files.
    ///
    /// # Errors
    /// [`GateError::NoFanotify`], [`GateError::NoThread`].
    pub fn new() -> Result<Self, GateError> {
        let fanotify = init_fanotify().map_err(GateError::NoFanotify)?;
        let shared = Arc::new(Shared::new(fanotify).map_err(GateError::NoThread)?);
        let (held, waiting) = sync_channel(MOST_HELD);
        let (started, has_started) = sync_channel(1);
        let for_thread = Arc::clone(&shared);
        let run = move || {
            let closer = match take_own_table(&for_thread).and_then(|()| Closer::start()) {
                Ok(closer) => closer,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(()));
            GateThread::new(for_thread, held, closer).run();
        };
        Builder::new()
            .name("pf-gate".to_owned())
            .spawn(run)
            .map_err(GateError::NoThread)?;
        has_started
            .recv()
            .map_err(io::Error::other)
            .and_then(|started| started)
            .map_err(GateError::NoThread)?;
        Ok(ExecGate { shared, waiting })
    }

    /// The marks, which any thread may change.
    pub fn marks(&self) -> GateMarks {
        GateMarks(Arc::clone(&self.shared))
    }

    /// Readable when a program waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.ready.as_fd()
    }

    /// The programs that were held since the last call. Never waits.
    pub fn waiting(&self) -> impl Iterator<Item = HeldExec> {
        let mut count = [0; 8];
        // Empty if the thread has handed one on and not counted it yet.
        let _ = rustix::io::read(&self.shared.ready, &mut count);
        self.waiting.try_iter().inspect(|held| {
            self.shared.taken.store(held.hold.number, Ordering::Release);
        })
    }

    /// Asks the thread to show that it lives.
    pub fn ask(&self) {
        // Refused only if it was asked 2^64 times.
        let _ = rustix::io::write(&self.shared.asked, &1u64.to_ne_bytes());
    }

    /// Whether the thread has answered since it was last asked.
    pub fn has_answered(&self) -> bool {
        let mut fds = [PollFd::new(&self.shared.asked, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }
}

impl GateMarks {
    /// From now on, execution of this file waits for us. Its file system must not be served by another process.
    ///
    /// # Errors
    /// [`GateError::NoMark`].
    pub fn add(&self, file: BorrowedFd<'_>) -> Result<(), GateError> {
        self.mark(libc::FAN_MARK_ADD, file)
    }

    /// From now on, execution of this file does not wait for us.
    ///
    /// # Errors
    /// [`GateError::NoMark`]; also if the file was not added.
    pub fn remove(&self, file: BorrowedFd<'_>) -> Result<(), GateError> {
        self.mark(libc::FAN_MARK_REMOVE, file)
    }

    fn mark(&self, action: u32, file: BorrowedFd<'_>) -> Result<(), GateError> {
        // The descriptor may have been opened with O_PATH, and fanotify_mark(2) does not take such a
        // descriptor as its directory: the name in /proc leads to the same file.
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        // SAFETY: the path ends in a zero and outlives the call.
        let done = unsafe {
            libc::fanotify_mark(
                self.0.fanotify.as_raw_fd(),
                action,
                libc::FAN_OPEN_EXEC_PERM,
                libc::AT_FDCWD,
                path.as_ptr().cast(),
            )
        };
        if done < 0 {
            return Err(GateError::NoMark(io::Error::last_os_error()));
        }
        Ok(())
    }
}

impl HeldExec {
    /// Lets the program go, if it is still held.
    pub fn let_go(&self) {
        self.shared.end(self.hold, 0);
    }

    /// Holds the program until so long after it was held first, [`LONGEST_HOLD`] at most, unless it is let go earlier.
    /// It never shortens the time. Does nothing if the program has been let go.
    pub fn hold_for(&self, limit: Duration) {
        if self.is_held() {
            self.shared.make_longer(self.hold, limit);
        }
    }

    /// Whether nobody has let the program go yet.
    pub fn is_held(&self) -> bool {
        let number = self.shared.holds[self.hold.place].load(Ordering::Acquire);
        number == self.hold.number
    }

    /// Whether the gate has let the program go because its time was over, as far as that is still known.
    pub fn was_late(&self) -> bool {
        let number = self.shared.holds[self.hold.place].load(Ordering::Acquire);
        number == self.hold.number | LATE
    }
}

impl Drop for HeldExec {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Shared {
    fn new(fanotify: OwnedFd) -> io::Result<Self> {
        let counter = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Shared {
            fanotify,
            holds: Default::default(),
            longer: Default::default(),
            taken: AtomicU64::new(0),
            ready: counter()?,
            asked: counter()?,
        })
    }

    /// Changes nothing if a later hold in this place was made longer meanwhile.
    fn make_longer(&self, hold: GateHold, limit: Duration) {
        let longer = LongerHold::new(hold.number, limit).packed();
        self.longer[hold.place].fetch_max(longer, Ordering::AcqRel);
    }

    /// For how long a program is held.
    fn limit(&self, hold: GateHold) -> Duration {
        let longer = LongerHold::unpacked(self.longer[hold.place].load(Ordering::Acquire));
        match longer.number == hold.number {
            true => Duration::from_millis(longer.most_ms.into()),
            false => HOLD_LIMIT,
        }
    }

    /// Lets the program go and notes `end` for the hold; false if that was done before.
    fn end(&self, hold: GateHold, end: u64) -> bool {
        let ended = self.holds[hold.place]
            .compare_exchange(hold.number, end, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if ended {
            self.allow(hold.event);
        }
        ended
    }

    fn allow(&self, event: RawFd) {
        let answer = libc::fanotify_response {
            fd: event,
            response: libc::FAN_ALLOW,
        };
        // SAFETY: a plain struct, and its size. The kernel takes the descriptor as the event's number and does not
        // look it up. The write only fails if the process does not wait any more.
        unsafe {
            libc::write(
                self.fanotify.as_raw_fd(),
                std::ptr::from_ref(&answer).cast(),
                size_of::<libc::fanotify_response>(),
            )
        };
    }
}

/// The thread that answers.
struct GateThread {
    shared: Arc<Shared>,
    held: SyncSender<HeldExec>,
    closer: Closer,
    /// The holds under way, by place, with the time at which they began.
    under_way: [Option<(GateHold, Instant)>; MOST_HELD],
    /// Number of the last hold.
    last: u64,
    /// The hold whose time ran out before anybody took it.
    unanswered: Option<u64>,
}

impl GateThread {
    fn new(shared: Arc<Shared>, held: SyncSender<HeldExec>, closer: Closer) -> Self {
        GateThread {
            shared,
            held,
            closer,
            under_way: [None; MOST_HELD],
            last: 0,
            unanswered: None,
        }
    }

    fn run(mut self) {
        // A program would wait for a thread that has unwound for as long as this process lives.
        let _abort = AbortOnPanic;
        loop {
            let now = Instant::now();
            let until = self.let_late_ones_go(now);
            let timeout = until.and_then(|until| Timespec::try_from(until).ok());
            let shared = Arc::clone(&self.shared);
            let mut fds = [
                PollFd::new(&shared.fanotify, PollFlags::IN),
                PollFd::new(&shared.asked, PollFlags::IN),
            ];
            if poll(&mut fds, timeout.as_ref()).is_err() {
                continue;
            }
            if !fds[0].revents().is_empty() {
                self.take_events();
            }
            if !fds[1].revents().is_empty() {
                let _ = rustix::io::read(&shared.asked, &mut [0; 8]);
            }
        }
    }

    /// Closes the files of programs that were let go, and lets those go whose time is over. Returns the time until
    /// there is more to do: nobody tells the thread that another one has let a program go, so it looks every
    /// [`HOLD_LIMIT`], and no file stays open for as long as its program might have been held.
    fn let_late_ones_go(&mut self, now: Instant) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for under_way in &mut self.under_way {
            let Some((hold, begun)) = *under_way else {
                continue;
            };
            let held = now.saturating_duration_since(begun);
            let left = self.shared.limit(hold).saturating_sub(held);
            let number = self.shared.holds[hold.place].load(Ordering::Acquire);
            if number == hold.number && !left.is_zero() {
                next = Some(next.unwrap_or(HOLD_LIMIT).min(left));
                continue;
            }
            let was_late = self.shared.end(hold, hold.number | LATE);
            if was_late && self.shared.taken.load(Ordering::Acquire) < hold.number {
                self.unanswered = Some(self.last);
            }
            self.closer.close(hold.event);
            *under_way = None;
        }
        next
    }

    fn take_events(&mut self) {
        const SIZE: usize = size_of::<libc::fanotify_event_metadata>();
        let mut buffer = [MaybeUninit::<libc::fanotify_event_metadata>::uninit(); MOST_READ];
        // SAFETY: the length is the buffer's, and it is aligned for the events that the kernel writes.
        let read = unsafe {
            libc::read(
                self.shared.fanotify.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                size_of_val(&buffer),
            )
        };
        // After an error, such as an interruption, the events that are left are read next time.
        let read = usize::try_from(read).unwrap_or(0);
        for event in buffer.iter().take(read / SIZE) {
            // SAFETY: the kernel has written so many whole events; without further flags in
            // fanotify_init they are all of this size.
            let event = unsafe { event.assume_init_ref() };
            if event.fd >= 0 && !self.hold(event.fd, event.pid) {
                self.shared.allow(event.fd);
                self.closer.close(event.fd);
            }
        }
    }

    /// Hands the program on; false if it is not held.
    fn hold(&mut self, event: RawFd, pid: i32) -> bool {
        let taken = self.shared.taken.load(Ordering::Acquire);
        if self.unanswered.is_some_and(|number| taken < number) {
            return false;
        }
        self.unanswered = None;
        let Some(place) = self.under_way.iter().position(Option::is_none) else {
            return false;
        };
        // SAFETY: the descriptor is open until the hold ends.
        let Some(inode) = inode_of(unsafe { BorrowedFd::borrow_raw(event) }) else {
            return false;
        };
        let hold = GateHold {
            place,
            number: self.last + 1,
            event,
        };
        self.under_way[place] = Some((hold, Instant::now()));
        self.shared.holds[place].store(hold.number, Ordering::Release);
        let held = HeldExec {
            shared: Arc::clone(&self.shared),
            hold,
            pid,
            inode,
        };
        // One that is refused is dropped, and so let go.
        if self.held.try_send(held).is_ok() {
            self.last = hold.number;
            let _ = rustix::io::write(&self.shared.ready, &1u64.to_ne_bytes());
        }
        true
    }
}

/// Gives the calling thread a table of descriptors of its own, with what the gate's thread needs and nothing else.
fn take_own_table(shared: &Shared) -> io::Result<()> {
    // SAFETY: the thread has no other descriptors than those that are kept; those of other threads stay open in their
    // table.
    if unsafe { libc::unshare(libc::CLONE_FILES) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut kept = [&shared.fanotify, &shared.ready, &shared.asked].map(AsRawFd::as_raw_fd);
    kept.sort_unstable();
    // A panic is written to the standard error.
    let mut first = libc::STDERR_FILENO + 1;
    for fd in kept {
        close_range(first, fd - 1)?;
        first = fd + 1;
    }
    close_range(first, RawFd::MAX)?;
    // Without CAP_SYS_NICE it is no more urgent than others.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    Ok(())
}

/// Closes the events' files in a thread of its own, which has the descriptors of the gate's thread.
struct Closer(SyncSender<RawFd>);

impl Closer {
    /// Starts the thread: the calling thread's table of descriptors is its table, too.
    fn start() -> io::Result<Self> {
        let (files, to_close) = sync_channel::<RawFd>(MOST_TO_CLOSE);
        Builder::new()
            .name("pf-close".to_owned())
            .spawn(move || to_close.into_iter().for_each(close_event))?;
        Ok(Closer(files))
    }

    /// Has a file closed. Waits for nothing, unless too many are to be closed.
    fn close(&self, event: RawFd) {
        if self.0.try_send(event).is_err() {
            close_event(event);
        }
    }
}

/// Ends the process when it is dropped in a panic.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn init_fanotify() -> io::Result<OwnedFd> {
    let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    let file_flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NONBLOCK;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::fanotify_init(flags, file_flags as u32) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just given to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Device and inode number, as they are in memory: the file system is not asked.
fn inode_of(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(file, "", flags, StatxFlags::INO).ok()?;
    Some((
        makedev(found.stx_dev_major, found.stx_dev_minor),
        found.stx_ino,
    ))
}

/// Closes an event's file, in the calling thread's table.
fn close_event(event: RawFd) {
    // SAFETY: the kernel has opened it for the gate's thread alone, which has it closed once.
    unsafe { libc::close(event) };
}

/// Closes the descriptors from `first` to `last` in the calling thread's table.
fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the caller uses none of them.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::IntoRawFd;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    /// A gate with one marked program, and a second one that is not marked.
    fn gate() -> Option<(tempfile::TempDir, ExecGate, PathBuf)> {
        let gate = match ExecGate::new() {
            Ok(gate) => gate,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::copy("/bin/true", &program).unwrap();
        gate.marks()
            .add(File::open(&program).unwrap().as_fd())
            .unwrap();
        Some((dir, gate, program))
    }

    /// Executes the program in a thread of its own, which tells whether it has succeeded.
    fn execute(program: &Path) -> std::thread::JoinHandle<bool> {
        let program = program.to_owned();
        std::thread::spawn(move || Command::new(program).status().unwrap().success())
    }

    fn next(gate: &ExecGate) -> HeldExec {
        let mut fds = [PollFd::from_borrowed_fd(gate.fd(), PollFlags::IN)];
        poll(&mut fds, None).unwrap();
        gate.waiting().next().unwrap()
    }

    #[test]
    fn a_program_is_held_until_it_is_let_go() {
        let Some((_dir, gate, program)) = gate() else {
            return;
        };
        let launched = execute(&program);
        let held = next(&gate);
        let stat = rustix::fs::stat(&program).unwrap();
        assert_eq!(held.inode, (stat.st_dev, stat.st_ino));
        drop(held);
        assert!(launched.join().unwrap());
    }

    /// Executes the program and has it held for longer, with a time before it was held.
    fn hold_longer(
        gate: &ExecGate,
        program: &Path,
        limit: Duration,
    ) -> (std::thread::JoinHandle<bool>, HeldExec, Instant) {
        loop {
            let before = Instant::now();
            let launched = execute(program);
            let held = next(gate);
            held.hold_for(limit);
            if held.is_held() {
                return (launched, held, before);
            }
            // This host was so busy that the program was let go before.
            assert!(launched.join().unwrap());
        }
    }

    #[test]
    fn the_gate_lets_a_program_go_that_is_held_for_longer() {
        let Some((_dir, gate, program)) = gate() else {
            return;
        };
        let limit = 4 * HOLD_LIMIT;
        let (launched, held, before) = hold_longer(&gate, &program, limit);
        assert!(launched.join().unwrap());
        assert!(before.elapsed() >= limit);
        assert!(held.was_late() && !held.is_held());
        // It was taken, so others are held.
        let launched = execute(&program);
        drop(next(&gate));
        assert!(launched.join().unwrap());
    }

    #[test]
    fn a_program_that_is_held_for_longer_can_be_let_go_earlier() {
        let Some((_dir, gate, program)) = gate() else {
            return;
        };
        let (launched, held, _) = hold_longer(&gate, &program, LONGEST_HOLD);
        // The gate has looked at it at least once.
        std::thread::sleep(2 * HOLD_LIMIT);
        assert!(held.is_held() && !launched.is_finished());
        held.let_go();
        assert!(launched.join().unwrap());
        assert!(!held.was_late() && !held.is_held());
    }

    #[test]
    fn no_hold_is_longer_than_the_longest() {
        let longer = |limit| LongerHold::new(7, limit);
        assert_eq!(longer(Duration::MAX).most_ms, 5_000);
        assert_eq!(longer(Duration::ZERO).most_ms, 100);
        let hold = longer(Duration::from_millis(2_345));
        assert_eq!(LongerHold::unpacked(hold.packed()), hold);
        assert_ne!(LongerHold::unpacked(0).number, 1, "holds count from 1");
    }

    /// A gate whose thread does not run, so that a test has its clock. Its answers go nowhere.
    struct StoppedGate {
        gate: ExecGate,
        thread: GateThread,
        begun: Instant,
    }

    impl StoppedGate {
        fn new() -> Self {
            let answers = File::options().write(true).open("/dev/null").unwrap();
            let shared = Arc::new(Shared::new(answers.into()).unwrap());
            let (held, waiting) = sync_channel(MOST_HELD);
            let closer = Closer::start().unwrap();
            let thread = GateThread::new(Arc::clone(&shared), held, closer);
            StoppedGate {
                gate: ExecGate { shared, waiting },
                thread,
                begun: Instant::now(),
            }
        }

        /// Whether a program that is executed is held. All holds begin at the same time.
        fn execute(&mut self) -> bool {
            let event = rustix::io::fcntl_dupfd_cloexec(&self.gate.shared.ready, 0).unwrap();
            let event = event.into_raw_fd();
            let is_held = self.thread.hold(event, 1);
            match is_held {
                true => self
                    .thread
                    .under_way
                    .iter_mut()
                    .flatten()
                    .for_each(|(_, begun)| *begun = self.begun),
                false => close_event(event),
            }
            is_held
        }

        fn hold(&mut self) -> HeldExec {
            assert!(self.execute());
            self.gate.waiting().next().unwrap()
        }

        /// Runs the thread, so long after the holds have begun.
        fn run_at(&mut self, held: Duration) -> Option<Duration> {
            self.thread.let_late_ones_go(self.begun + held)
        }
    }

    #[test]
    fn a_hold_lasts_as_long_as_was_asked_for_and_no_longer() {
        let mut gate = StoppedGate::new();
        let millisecond = Duration::from_millis(1);
        for (asked, limit) in [
            (&[][..], HOLD_LIMIT),
            (&[Duration::ZERO], HOLD_LIMIT),
            (&[4 * HOLD_LIMIT], 4 * HOLD_LIMIT),
            (&[4 * HOLD_LIMIT, 2 * HOLD_LIMIT], 4 * HOLD_LIMIT),
            (&[Duration::MAX], LONGEST_HOLD),
        ] {
            let held = gate.hold();
            asked.iter().for_each(|&asked| held.hold_for(asked));
            assert_eq!(gate.run_at(Duration::ZERO), Some(HOLD_LIMIT));
            assert_eq!(gate.run_at(limit - millisecond), Some(millisecond));
            assert!(held.is_held(), "{asked:?}");
            assert_eq!(gate.run_at(limit), None);
            assert!(!held.is_held() && held.was_late(), "{asked:?}");
            assert_eq!(gate.thread.unanswered, None, "it was taken");
        }
    }

    #[test]
    fn a_hold_that_is_over_makes_no_other_longer() {
        let mut gate = StoppedGate::new();
        let late = gate.hold();
        gate.run_at(HOLD_LIMIT);
        late.hold_for(LONGEST_HOLD);
        assert!(late.was_late());
        let over = gate.hold();
        over.let_go();
        over.hold_for(LONGEST_HOLD);
        assert_eq!(gate.run_at(Duration::ZERO), None);
        let held = gate.hold();
        assert_eq!((held.hold.place, over.hold.place), (0, 0));
        assert_eq!(gate.gate.shared.longer[0].load(Ordering::Relaxed), 0);
        // It was let go just after `hold_for` had looked.
        gate.gate.shared.make_longer(over.hold, LONGEST_HOLD);
        assert_eq!(gate.gate.shared.limit(held.hold), HOLD_LIMIT);
        held.hold_for(2 * HOLD_LIMIT);
        gate.gate.shared.make_longer(over.hold, LONGEST_HOLD);
        assert_eq!(gate.gate.shared.limit(held.hold), 2 * HOLD_LIMIT);
    }

    #[test]
    fn longer_holds_keep_no_others_from_being_held_while_there_is_place() {
        let mut gate = StoppedGate::new();
        let mut long: Vec<HeldExec> = (0..MOST_HELD).map(|_| gate.hold()).collect();
        long.iter().for_each(|held| held.hold_for(LONGEST_HOLD));
        gate.run_at(2 * HOLD_LIMIT);
        assert!(!gate.execute(), "there is no place");
        drop(long.pop());
        gate.run_at(2 * HOLD_LIMIT);
        // One that nobody takes.
        assert!(gate.execute());
        gate.run_at(2 * HOLD_LIMIT);
        assert!(!gate.execute());
        assert_eq!(gate.gate.waiting().count(), 1);
        drop(gate.hold());
        // The long ones were not touched, and their end is nothing that others pay for.
        assert!(long.iter().all(HeldExec::is_held));
        assert_eq!(gate.run_at(LONGEST_HOLD), None);
        assert!(long.iter().all(HeldExec::was_late));
        drop(gate.hold());
    }

    #[test]
    fn a_program_that_nobody_lets_go_is_let_go_and_none_is_held_until_it_was_taken() {
        let Some((_dir, gate, program)) = gate() else {
            return;
        };
        // The loop takes nothing: the thread's own clock ends the hold.
        assert!(execute(&program).join().unwrap());
        for _ in 0..50 {
            assert!(execute(&program).join().unwrap());
        }
        let waited: Vec<HeldExec> = gate.waiting().collect();
        assert_eq!(waited.len(), 1, "the others were not held");
        assert!(!waited[0].is_held() && waited[0].was_late());
        // Now that it was taken, programs are held again.
        let launched = execute(&program);
        let held = next(&gate);
        held.let_go();
        assert!(!held.is_held() && !held.was_late() && launched.join().unwrap());
        // A hold that was taken and not ended in time is no sign of a loop that does not run.
        let launched = execute(&program);
        let held = next(&gate);
        assert!(launched.join().unwrap() && !held.is_held());
        let launched = execute(&program);
        drop(next(&gate));
        assert!(launched.join().unwrap());
    }

    #[test]
    fn a_gate_that_is_dropped_holds_nobody() {
        let Some((_dir, gate, program)) = gate() else {
            return;
        };
        drop(gate);
        assert!(execute(&program).join().unwrap());
    }

    #[test]
    fn the_thread_answers_when_it_is_asked() {
        let Some((_dir, gate, _program)) = gate() else {
            return;
        };
        gate.ask();
        while !gate.has_answered() {
            std::thread::yield_now();
        }
    }
    #[test]
    fn a_file_whose_last_close_takes_long_is_not_waited_for() {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sending = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiving, _) = listener.accept().unwrap();
        sending.set_nonblocking(true).unwrap();
        let (mut sent, data) = (0, [7; 1 << 16]);
        while let Ok(count) = sending.write(&data) {
            sent += count;
        }
        sending.set_nonblocking(false).unwrap();
        // close(2) waits for an hour unless all is read before, which is read below.
        let linger = Some(Duration::from_secs(3600));
        rustix::net::sockopt::set_socket_linger(&sending, linger).unwrap();
        let closer = Closer::start().unwrap();
        closer.close(sending.into_raw_fd());
        let mut received = Vec::new();
        receiving.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent);
    }
}
