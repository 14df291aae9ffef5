//! What launches beside writes wait for.
//!
//! One thread has one detector for all launches, attached only while a launch is under way whose drive is being
//! written: to attach it takes part of a tenth of a second, and its programs run at every context switch of the system.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;

use crate::drive::{Sysfs, WriteCounters};
use crate::kernel::{LaunchMembers, WaitDetector, WaitOptions, kernel_dev};
use crate::model::{Wait, WaitCause};
use crate::policy::DriveLook;
use crate::service::mailbox::Outbox;
use crate::service::message::Message;
use crate::service::own_process::{release_heap, start_behind};

/// How often the drive of a launch is looked at, and how many times.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 3;

/// How long the detector is waited for at a time: as long the beginning of another launch waits.
const POLL: Duration = Duration::from_millis(50);

/// The thread's nice value.
const BEHIND_LAUNCHES: i32 = 10;

/// A wait that has lasted for so long is reported to the shield. As often, those that last are looked at.
const TOLD_AFTER: Duration = Duration::from_millis(20);

/// What is known of a launch's waits. The thread writes it, the event loop reads it.
#[derive(Debug, Default)]
pub struct WaitFigures {
    beside_writes: AtomicBool,
    is_watched: AtomicBool,
    waited_ns: AtomicU64,
}

impl WaitFigures {
    /// Whether its drive was being written when it began.
    pub fn beside_writes(&self) -> bool {
        self.beside_writes.load(Ordering::Relaxed)
    }

    /// How long its tasks have waited for writes since the detector was attached, in microseconds; `None` if it was
    /// not.
    pub fn waited_us(&self) -> Option<u64> {
        let is_watched = self.is_watched.load(Ordering::Relaxed);
        is_watched.then(|| self.waited_ns.load(Ordering::Relaxed) / 1000)
    }
}

/// A launch that is watched.
pub struct ObservedLaunch {
    number: u64,
    /// The device of its app, encoded as `st_dev`.
    dev: u64,
    figures: Arc<WaitFigures>,
    looks: u32,
    /// When it was looked at last, and what its drive had written by then.
    last: Option<(Instant, WriteCounters)>,
    next_look: Instant,
}

impl ObservedLaunch {
    /// A launch that begins now.
    pub fn new(number: u64, dev: u64, figures: Arc<WaitFigures>) -> Self {
        ObservedLaunch {
            number,
            dev,
            figures,
            looks: 0,
            last: None,
            next_look: Instant::now(),
        }
    }

    /// Whether it is not known yet if its drive is being written.
    fn is_undecided(&self) -> bool {
        self.looks <= LOOKS && !self.figures.beside_writes()
    }

    /// Looks at its drive, if that is due.
    fn look(&mut self, sysfs: &Sysfs, now: Instant) {
        if !self.is_undecided() || now < self.next_look {
            return;
        }
        self.looks += 1;
        self.next_look = now + LOOK;
        let Some(counters) = sysfs.write_counters(self.dev) else {
            return;
        };
        let written = self.last.replace((now, counters)).and_then(|(at, last)| {
            let bytes = counters.bytes.saturating_sub(last.bytes);
            let ms = now.saturating_duration_since(at).as_millis() as u64;
            bytes.saturating_mul(1000).checked_div(ms)
        });
        let drive = DriveLook {
            writes_in_flight: counters.in_flight,
            written,
            ..DriveLook::default()
        };
        if drive.is_written() {
            self.figures.beside_writes.store(true, Ordering::Relaxed);
        }
    }
}

enum WatchCommand {
    Begins(ObservedLaunch),
    Ends(u64),
}

/// The thread that watches launches.
pub struct WriteWaits(Sender<WatchCommand>);

impl WriteWaits {
    /// Starts the thread, which ends when this is dropped.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(members: LaunchMembers, sysfs: Sysfs, outbox: Outbox) -> io::Result<WriteWaits> {
        let (sender, commands) = channel();
        let work = move || {
            // It may take a tenth of a second of processor time when the detector is attached: the launch goes first.
            // That can only fail for a thread that is gone.
            let _ = setpriority_process(None, BEHIND_LAUNCHES);
            let watch = LaunchWatcher {
                commands,
                members,
                sysfs,
                outbox,
                launches: HashMap::new(),
                detector: None,
                is_broken: false,
                next_tell: Instant::now(),
                told: HashMap::new(),
            };
            watch.run();
        };
        start_behind(|| Builder::new().name("pf-waits".to_owned()).spawn(work))?;
        Ok(WriteWaits(sender))
    }

    /// A launch begins. If the thread is gone, its waits are not known.
    pub fn begins(&self, launch: ObservedLaunch) {
        let _ = self.0.send(WatchCommand::Begins(launch));
    }

    /// A launch is over.
    pub fn ends(&self, launch: u64) {
        let _ = self.0.send(WatchCommand::Ends(launch));
    }
}

/// The thread's own.
struct LaunchWatcher {
    commands: Receiver<WatchCommand>,
    members: LaunchMembers,
    sysfs: Sysfs,
    outbox: Outbox,
    launches: HashMap<u64, ObservedLaunch>,
    detector: Option<WaitDetector>,
    /// The detector cannot be had.
    is_broken: bool,
    /// When the waits that last are looked at next.
    next_tell: Instant,
    /// When the waits began that the shield knows, by thread.
    told: HashMap<u32, u64>,
}

impl LaunchWatcher {
    fn run(mut self) {
        while self.take_commands() {
            let now = Instant::now();
            for launch in self.launches.values_mut() {
                launch.look(&self.sysfs, now);
            }
            self.attach_or_detach();
            self.take_waits();
        }
    }

    /// Takes what the event loop has to say; waits for it if there is nothing else to do. False if the loop is gone.
    fn take_commands(&mut self) -> bool {
        if self.detector.is_none() {
            let undecided = self.launches.values().filter(|it| it.is_undecided());
            let next = undecided.map(|launch| launch.next_look).min();
            let first = match next {
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    self.commands.recv_timeout(left)
                }
                None => self.commands.recv().map_err(RecvTimeoutError::from),
            };
            match first {
                Ok(command) => self.take(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, command: WatchCommand) {
        match command {
            WatchCommand::Begins(launch) => drop(self.launches.insert(launch.number, launch)),
            WatchCommand::Ends(number) => drop(self.launches.remove(&number)),
        }
    }

    /// Has the detector attached while there are launches beside writes.
    fn attach_or_detach(&mut self) {
        let is_needed = self.launches.values().any(|it| it.figures.beside_writes());
        if !is_needed {
            if self.detector.take().is_some() {
                tracing::debug!("waits are not looked at any more");
                self.told.clear();
                release_heap();
            }
            return;
        }
        if self.detector.is_none() && !self.is_broken {
            match WaitDetector::start(&WaitOptions::default()) {
                Ok(detector) => {
                    tracing::debug!("waits of launches beside writes are seen");
                    self.detector = Some(detector);
                }
                Err(error) => self.give_up(error),
            }
            // The kernel's type information was unpacked for it.
            release_heap();
        }
        if self.detector.is_some() {
            let beside = self.launches.values().map(|launch| &launch.figures);
            for figures in beside.filter(|figures| figures.beside_writes()) {
                figures.is_watched.store(true, Ordering::Relaxed);
            }
        }
    }

    fn give_up(&mut self, error: impl std::fmt::Display) {
        self.is_broken = true;
        self.detector = None;
        let warning = format!("what launches wait for is not seen: {error}");
        self.outbox.send(Message::Warning(warning));
    }

    /// Takes the waits that have ended, and reports those that last.
    fn take_waits(&mut self) {
        let Some(detector) = &mut self.detector else {
            return;
        };
        let ended = match detector.poll(POLL) {
            Ok(ended) => ended,
            Err(error) => return self.give_up(error),
        };
        let now = Instant::now();
        let waiting = match now >= self.next_tell {
            true => match detector.waiting() {
                Ok(waiting) => Some(waiting),
                Err(error) => return self.give_up(error),
            },
            false => None,
        };
        for wait in ended.iter().filter(|wait| is_for_write(wait)) {
            if let Some(launch) = self.launch_of(wait) {
                let waited_ns = &launch.figures.waited_ns;
                waited_ns.fetch_add(wait.duration_ns, Ordering::Relaxed);
            }
        }
        let Some(waiting) = waiting else {
            return;
        };
        self.next_tell = now + TOLD_AFTER;
        self.told
            .retain(|tid, start_ns| waiting.iter().any(|wait| is_same(wait, *tid, *start_ns)));
        for wait in waiting {
            self.tell(&wait);
        }
    }

    /// Tells the shield, once, of a task of a launch that waits for an asynchronous write.
    fn tell(&mut self, wait: &Wait) {
        let lasts = u128::from(wait.duration_ns) >= TOLD_AFTER.as_nanos();
        let is_known = self.told.get(&wait.task.tid) == Some(&wait.start_ns);
        if !lasts || is_known || !is_for_anothers_write(wait) {
            return;
        }
        let Some(launch) = self.launch_of(wait) else {
            return;
        };
        let device = wait.device.unwrap_or_else(|| kernel_dev(launch.dev));
        let task = wait.task.clone();
        self.outbox.send(Message::ForegroundWaits { task, device });
        self.told.insert(wait.task.tid, wait.start_ns);
    }

    /// The watched launch that the waiting task is part of. A task that has ended is of none.
    fn launch_of(&self, wait: &Wait) -> Option<&ObservedLaunch> {
        self.launches.get(&self.members.launch_of(wait.task.pid)?)
    }
}

fn is_same(wait: &Wait, tid: u32, start_ns: u64) -> bool {
    (wait.task.tid, wait.start_ns) == (tid, start_ns)
}

/// Whether it was a wait for a write. Reads wait for the drive, too; they count if they were behind another task's
/// writes.
fn is_for_write(wait: &Wait) -> bool {
    use WaitCause as C;
    match wait.cause {
        C::WritebackThrottle | C::DirtyThrottle => true,
        _ => is_for_anothers_write(wait),
    }
}

/// Whether it is a wait that ends sooner if writes of others are out of the way. Not those of a task that writes much
/// itself, which is throttled for that.
fn is_for_anothers_write(wait: &Wait) -> bool {
    use WaitCause as C;
    match wait.cause {
        C::Sync | C::Data | C::Discard => true,
        C::JournalHandle | C::JournalCommit | C::JournalBuffer | C::JournalSpace => true,
        C::Metadata | C::Tag | C::Lock | C::Scheduler | C::Drive => wait.for_whom.is_some(),
        C::WritebackThrottle | C::DirtyThrottle | C::MemoryThrottle | C::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WaitTask;

    fn wait(cause: WaitCause, is_for_somebody: bool) -> Wait {
        let task = WaitTask {
            pid: 1,
            tid: 1,
            comm: "app".to_owned(),
            uid: 0,
        };
        Wait {
            cause,
            start_ns: 0,
            duration_ns: 1,
            device: None,
            inode: None,
            block: None,
            for_whom: is_for_somebody.then(|| task.clone()),
            task,
            under_way: false,
        }
    }

    #[test]
    fn a_read_waits_for_a_write_if_it_was_behind_one() {
        for (cause, alone, behind) in [
            (WaitCause::Sync, true, true),
            (WaitCause::JournalCommit, true, true),
            (WaitCause::Drive, false, true),
            (WaitCause::Metadata, false, true),
            (WaitCause::DirtyThrottle, true, true),
            (WaitCause::MemoryThrottle, false, false),
            (WaitCause::Unknown, false, false),
        ] {
            assert_eq!(is_for_write(&wait(cause, false)), alone, "{cause}");
            assert_eq!(is_for_write(&wait(cause, true)), behind, "{cause}");
        }
        for cause in WaitCause::ALL {
            let [counts, is_told] =
                [is_for_write, is_for_anothers_write].map(|is_so| is_so(&wait(cause, true)));
            assert!(counts || !is_told, "{cause}");
        }
        let throttled = wait(WaitCause::DirtyThrottle, true);
        assert!(!is_for_anothers_write(&throttled), "it writes itself");
    }

    #[test]
    fn a_launch_is_looked_at_a_few_times_and_not_again() {
        let sysfs = Sysfs::at(std::path::Path::new("/no/such/directory"));
        let mut launch = ObservedLaunch::new(1, 2, Arc::default());
        let begun = launch.next_look;
        let mut looked = 0;
        while launch.is_undecided() {
            launch.look(&sysfs, begun + LOOK * looked);
            looked += 1;
            assert_eq!(launch.looks, looked);
        }
        assert_eq!(looked, LOOKS + 1);
        assert!(!launch.figures.beside_writes());
        assert_eq!(launch.figures.waited_us(), None);
    }
}
