//! What launches beside writes wait for.
//!
//! One thread has one detector for all launches, attached only while a launch is under way whose drive is being
//! written: to attach it takes part of a tenth of a second, and its programs run at every context switch of the system.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;

use crate::drive::{Sysfs, WriteCounters};
use crate::judge::for_writes;
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

/// A wait that has lasted for so long is reported to the shield. Waits that last are looked at again after this time or
/// after [`BACK_OFF`] times what the look took, whichever is longer: to list ten thousand tasks takes long.
const TOLD_AFTER: Duration = Duration::from_millis(20);
const BACK_OFF: u32 = 10;

/// Waits that are reported to the shield at one look. The others have their turn at the next ones, if they still last.
const MOST_TOLD: usize = 32;

/// Ended waits for writes that are kept: the holder of a lock runs again before the tasks that wait for the lock.
const MOST_EARLIER: usize = 256;

/// What is known of a launch's waits. The thread writes it, the event loop reads it.
#[derive(Debug, Default)]
pub struct WaitFigures {
    beside_writes: AtomicBool,
    is_watched: AtomicBool,
    /// Waits were lost meanwhile, or the detector has failed.
    is_incomplete: AtomicBool,
    waited_ns: AtomicU64,
}

impl WaitFigures {
    /// Whether its drive was being written when it began.
    pub fn beside_writes(&self) -> bool {
        self.beside_writes.load(Ordering::Relaxed)
    }

    /// How long its tasks have waited for writes since the detector was attached, in microseconds; `None` if it was
    /// not, if it has failed, or if waits of any task were lost meanwhile.
    pub fn waited_us(&self) -> Option<u64> {
        let is_known =
            self.is_watched.load(Ordering::Relaxed) && !self.is_incomplete.load(Ordering::Relaxed);
        is_known.then(|| self.waited_ns.load(Ordering::Relaxed) / 1000)
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
                earlier: Vec::new(),
                lost: 0,
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
    /// The last waits for writes that have ended, [`MOST_EARLIER`] at most.
    earlier: Vec<Wait>,
    /// Waits that the detector had lost at the last look.
    lost: u64,
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
                self.earlier = Vec::new();
                release_heap();
            }
            return;
        }
        if self.detector.is_none() && !self.is_broken {
            match WaitDetector::start(&WaitOptions::default()) {
                Ok(detector) => {
                    self.detector = Some(detector);
                    self.lost = 0;
                    self.mark_watched();
                    tracing::debug!("waits of launches beside writes are seen");
                }
                Err(error) => self.give_up(error),
            }
            // The kernel's type information was unpacked for it.
            release_heap();
        }
        if self.detector.is_some() {
            self.mark_watched();
        }
    }

    /// From now on, waits of the launches beside writes are counted.
    fn mark_watched(&self) {
        for figures in self.beside_writes() {
            figures.is_watched.store(true, Ordering::Relaxed);
        }
    }

    /// The figures of the launches beside writes.
    fn beside_writes(&self) -> impl Iterator<Item = &WaitFigures> {
        let all = self.launches.values().map(|launch| &*launch.figures);
        all.filter(|figures| figures.beside_writes())
    }

    /// Waits of the launches beside writes may be missing in their figures.
    fn mark_incomplete(&self) {
        for figures in self.beside_writes() {
            figures.is_incomplete.store(true, Ordering::Relaxed);
        }
    }

    fn give_up(&mut self, error: impl std::fmt::Display) {
        self.is_broken = true;
        self.detector = None;
        self.mark_incomplete();
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
        let look = Instant::now();
        let waiting = match look >= self.next_tell {
            true => match detector.waiting() {
                Ok(waiting) => Some(waiting),
                Err(error) => return self.give_up(error),
            },
            false => None,
        };
        let lost = detector.lost();
        // It falls, too, when the last list of those that wait was complete and the one before was not.
        if lost != self.lost {
            self.lost = lost;
            self.mark_incomplete();
            tracing::debug!("waits of launches beside writes were lost");
        }
        self.count(ended);
        if let Some(waiting) = waiting {
            self.tell(waiting);
            let now = Instant::now();
            let took = now.saturating_duration_since(look);
            self.next_tell = now + TOLD_AFTER.max(took.saturating_mul(BACK_OFF));
        }
    }

    /// Adds waits that have ended to the figures of their launches, as far as they were for writes.
    fn count(&mut self, ended: Vec<Wait>) {
        let waited = ended_for_writes(&self.earlier, ended);
        for wait in &waited {
            if let Some(launch) = self.launch_of(wait) {
                let waited_ns = &launch.figures.waited_ns;
                waited_ns.fetch_add(wait.duration_ns, Ordering::Relaxed);
            }
        }
        self.earlier.extend(waited);
        let surplus = self.earlier.len().saturating_sub(MOST_EARLIER);
        self.earlier.drain(..surplus);
    }

    /// Tells the shield, once, which tasks of launches wait for asynchronous writes.
    fn tell(&mut self, waiting: Vec<Wait>) {
        let begun: HashMap<u32, u64> = waiting.iter().map(beginning).collect();
        self.told
            .retain(|tid, start_ns| begun.get(tid) == Some(&*start_ns));
        let untold = to_tell(waiting, &self.told, |wait| {
            let launch = self.launch_of(wait)?;
            Some((launch.number, launch.dev))
        });
        for (launch, _, wait) in untold {
            let (tid, start_ns) = beginning(&wait);
            self.outbox.send(Message::ForegroundWaits(launch));
            self.told.insert(tid, start_ns);
        }
    }

    /// The watched launch that the waiting task is part of. A task that has ended is of none.
    fn launch_of(&self, wait: &Wait) -> Option<&ObservedLaunch> {
        self.launches.get(&self.members.launch_of(wait.task.pid)?)
    }
}

/// Who waits and since when, by which waits are told apart.
fn beginning(wait: &Wait) -> (u32, u64) {
    (wait.task.tid, wait.start_ns)
}

/// The waits that were for writes, of those that have ended. `earlier` are such waits that had ended before: a lock's
/// holder may be among them.
fn ended_for_writes(earlier: &[Wait], ended: Vec<Wait>) -> Vec<Wait> {
    let is_lock = |wait: &Wait| wait.cause == WaitCause::Lock;
    let earlier: &[Wait] = match ended.iter().any(is_lock) {
        true => earlier,
        false => &[],
    };
    let known: HashSet<(u32, u64)> = earlier.iter().map(beginning).collect();
    let waits: Vec<Wait> = earlier.iter().cloned().chain(ended).collect();
    let all = for_writes(&waits).into_iter();
    all.filter(|wait| !known.contains(&beginning(wait)))
        .cloned()
        .collect()
}

/// What to tell the shield: the number of the launch, the device, and the wait. Those are told that last, end sooner if
/// writes of others are out of the way, and are not among the ones that were `told`; [`MOST_TOLD`] at most. `launch_of`
/// has the number and the device of the launch that the waiting task is part of.
fn to_tell(
    mut waiting: Vec<Wait>,
    told: &HashMap<u32, u64>,
    launch_of: impl Fn(&Wait) -> Option<(u64, u64)>,
) -> Vec<(u64, u32, Wait)> {
    // A task that writes much itself is throttled for that. Waits for a lock that it holds do not count either.
    waiting.retain(|wait| {
        !matches!(
            wait.cause,
            WaitCause::WritebackThrottle | WaitCause::DirtyThrottle
        )
    });
    let untold = for_writes(&waiting).into_iter().filter(|wait| {
        let lasts = u128::from(wait.duration_ns) >= TOLD_AFTER.as_nanos();
        lasts && told.get(&wait.task.tid) != Some(&wait.start_ns)
    });
    let of_launches = untold.filter_map(|wait| {
        let (launch, dev) = launch_of(wait)?;
        let device = wait.device.unwrap_or_else(|| kernel_dev(dev));
        Some((launch, device, wait.clone()))
    });
    of_launches.take(MOST_TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WaitTask;

    /// A wait that lasts, and began when all others did.
    fn wait(tid: u32, cause: WaitCause, whom: Option<u32>) -> Wait {
        let task = |tid: u32| WaitTask {
            pid: tid,
            tid,
            comm: "app".to_owned(),
            uid: 0,
        };
        Wait {
            task: task(tid),
            cause,
            start_ns: 0,
            duration_ns: TOLD_AFTER.as_nanos() as u64,
            device: None,
            inode: None,
            block: None,
            for_whom: whom.map(task),
            under_way: false,
        }
    }

    /// Whether the first of the waits is told, if all are of a launch and under way.
    fn is_told(waiting: &[Wait]) -> bool {
        let told = to_tell(waiting.to_vec(), &HashMap::new(), |_| Some((1, 2)));
        told.contains(&(1, kernel_dev(2), waiting[0].clone()))
    }

    #[test]
    fn a_read_waits_for_a_write_if_it_was_behind_one() {
        let counts = |cause, whom| !ended_for_writes(&[], vec![wait(1, cause, whom)]).is_empty();
        for (cause, alone, behind) in [
            (WaitCause::Sync, true, true),
            (WaitCause::JournalCommit, true, true),
            (WaitCause::Drive, false, true),
            (WaitCause::Metadata, false, true),
            (WaitCause::DirtyThrottle, true, true),
            (WaitCause::Lock, false, false),
            (WaitCause::MemoryThrottle, false, false),
            (WaitCause::Unknown, false, false),
        ] {
            assert_eq!(counts(cause, None), alone, "{cause}");
            assert_eq!(counts(cause, Some(2)), behind, "{cause}");
        }
        for cause in WaitCause::ALL {
            let is_told = is_told(&[wait(1, cause, Some(2))]);
            assert!(counts(cause, Some(2)) || !is_told, "{cause}");
        }
        assert!(is_told(&[wait(1, WaitCause::Drive, Some(2))]));
        let throttled = wait(1, WaitCause::DirtyThrottle, None);
        assert!(!is_told(&[throttled]), "it writes itself");
    }

    #[test]
    fn a_lock_counts_if_its_holder_waits_for_a_write() {
        let lock = wait(1, WaitCause::Lock, Some(2));
        for (cause, counts, told) in [
            (WaitCause::Sync, true, true),
            (WaitCause::DirtyThrottle, true, false),
            (WaitCause::Drive, false, false),
            (WaitCause::Unknown, false, false),
        ] {
            let holder = wait(2, cause, None);
            let both = [lock.clone(), holder.clone()];
            let ended = ended_for_writes(&[], both.to_vec());
            assert_eq!(ended.contains(&lock), counts, "{cause}");
            // The holder was seen before; it is not counted again.
            let earlier = ended_for_writes(&[], vec![holder]);
            let ended = ended_for_writes(&earlier, vec![lock.clone()]);
            assert_eq!(ended.contains(&lock), counts, "{cause}");
            assert_eq!(ended.len(), usize::from(counts), "{cause}");
            assert_eq!(is_told(&both), told, "{cause}");
        }
        // Threads that fight for a lock.
        let other = wait(2, WaitCause::Lock, Some(1));
        assert!(ended_for_writes(&[], vec![lock.clone(), other.clone()]).is_empty());
        assert!(!is_told(&[lock, other]));
    }

    #[test]
    fn what_is_told_at_a_look_has_a_bound() {
        let crowd = MOST_TOLD as u32 + 8;
        let waiting: Vec<Wait> = (1..=crowd)
            .map(|tid| wait(tid, WaitCause::Sync, None))
            .collect();
        let mut told = HashMap::new();
        for expected in [MOST_TOLD, 8, 0] {
            let untold = to_tell(waiting.clone(), &told, |_| Some((1, 2)));
            assert_eq!(untold.len(), expected);
            told.extend(untold.iter().map(|(_, _, wait)| beginning(wait)));
        }
        // Another wait of a task that is known.
        let again = Wait {
            start_ns: 1,
            ..waiting[0].clone()
        };
        assert_eq!(to_tell(vec![again], &told, |_| Some((1, 2))).len(), 1);
        // Those of no launch are not told.
        assert!(to_tell(waiting, &HashMap::new(), |_| None).is_empty());
    }

    #[test]
    fn a_time_without_the_lost_waits_is_not_told() {
        let figures = WaitFigures::default();
        assert_eq!(figures.waited_us(), None);
        figures.is_watched.store(true, Ordering::Relaxed);
        figures.waited_ns.store(5000, Ordering::Relaxed);
        assert_eq!(figures.waited_us(), Some(5));
        figures.is_incomplete.store(true, Ordering::Relaxed);
        assert_eq!(figures.waited_us(), None);
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
