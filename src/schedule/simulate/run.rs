//! One simulated launch, event by event.

use super::compute_times::byte;
use super::drive_queue::{DriveQueue, QueuedRequest};
use super::{AppWait, LaunchSimulator, QueueLength, Simulation};
use crate::model::{LogEntry, Place, PrefetchEntry};

/// From the start of the prefetch thread to its first request, in µs: mount table, devices, warm check.
const START_US: f64 = 300.0;

/// What a request costs the prefetch thread, and what opening a file does, in µs.
const CALL_US: f64 = 10.0;
const OPEN_US: f64 = 25.0;

/// Requests that the kernel queues for a drive (`nr_requests`) until the prefetch thread waits: the tags of a SATA drive.
const QUEUE_LIMIT: usize = 32;

/// A schedule entry that covers nothing of the log.
const NOTHING: usize = usize::MAX;

/// Whether pages are cached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    No,
    UnderWay,
    Yes,
}

/// What is read: a schedule entry, or a log entry by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Scheduled(usize),
    Single(usize),
}

/// What one of the two waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// For a point in time.
    None,
    /// For a read.
    Read(Target),
    /// For room in the queue of this drive.
    Room(usize),
    /// For the first entries of the schedule.
    Held,
    /// It has ended.
    Over,
}

/// The prefetch thread or the app.
struct Actor {
    /// When it goes on, in µs, unless it waits for something else.
    at: f64,
    pause: Pause,
    /// Its next entry, in the schedule or in the log.
    next: usize,
}

impl Actor {
    fn due(&self) -> f64 {
        match self.pause {
            Pause::None => self.at,
            _ => f64::INFINITY,
        }
    }

    fn resume(&mut self, at: f64) {
        self.at = at;
        self.pause = Pause::None;
    }
}

pub(super) struct Run<'a> {
    launch: &'a LaunchSimulator<'a>,
    schedule: &'a [PrefetchEntry],
    drives: Vec<DriveQueue<'a>>,
    /// For each log entry, the schedule entry that covers it.
    scheduled_by: Vec<usize>,
    /// For each schedule entry, the log entry that it begins with, which tells where it lies.
    first_covered: Vec<usize>,
    scheduled: Vec<Cached>,
    singles: Vec<Cached>,
    thread: Actor,
    app: Actor,
    held: usize,
    /// Of the entries that the app is held for, those that have not arrived.
    held_left: usize,
    opened: Vec<bool>,
    /// When the app's wait began, and whether it reads by itself.
    wait: Option<(f64, bool)>,
    done: Simulation,
}

impl<'a> Run<'a> {
    pub fn new(
        launch: &'a LaunchSimulator<'a>,
        schedule: &'a [PrefetchEntry],
        held: usize,
    ) -> Self {
        let mut scheduled_by = vec![NOTHING; launch.log.len()];
        let mut first_covered = vec![NOTHING; schedule.len()];
        let mut files = 0;
        for (index, entry) in schedule.iter().enumerate() {
            for covered in launch.covered(entry) {
                scheduled_by[covered] = index;
                if first_covered[index] == NOTHING {
                    first_covered[index] = covered;
                }
            }
            if let Place::Data { file } = entry.span.place {
                files = files.max(file as usize + 1);
            }
        }
        let held = held.min(schedule.len());
        let actor = |at, pause| Actor { at, pause, next: 0 };
        let app_starts = launch.compute_us.first().copied().unwrap_or(0.0);
        let app_pause = if held > 0 { Pause::Held } else { Pause::None };
        Run {
            launch,
            schedule,
            drives: (launch.models.iter())
                .map(|model| DriveQueue::new(model, launch.elevator))
                .collect(),
            scheduled_by,
            first_covered,
            scheduled: vec![Cached::No; schedule.len()],
            singles: vec![Cached::No; launch.log.len()],
            thread: actor(START_US, Pause::None),
            app: actor(app_starts, app_pause),
            held,
            held_left: held,
            opened: vec![false; files],
            wait: None,
            done: Simulation::default(),
        }
    }

    pub fn until_over(mut self) -> Simulation {
        while self.app.pause != Pause::Over {
            let completions = self.drives.iter().map(DriveQueue::next_completion);
            let (drive, complete) = (completions.enumerate())
                .min_by(|(_, a), (_, b)| a.total_cmp(b))
                .unwrap_or((0, f64::INFINITY));
            let (app, thread) = (self.app.due(), self.thread.due());
            // Reads arrive first, then the app acts.
            if complete <= app && complete <= thread && complete.is_finite() {
                self.complete(drive);
            } else if app <= thread && app.is_finite() {
                self.access();
            } else if thread.is_finite() {
                self.prefetch();
            } else {
                // Nothing will happen any more, and the app waits for what does not arrive.
                self.done.end_us = f64::INFINITY;
                break;
            }
        }
        self.done
    }

    /// A drive has completed a read, or has been idle for long enough.
    fn complete(&mut self, drive: usize) {
        let Some((now, id)) = self.drives[drive].complete() else {
            return;
        };
        let target = self.target(id);
        self.arrived(target, now);
        self.note_queue(now);
        if self.thread.pause == Pause::Room(drive) {
            self.thread.resume(now);
        }
    }

    fn arrived(&mut self, target: Target, now: f64) {
        match target {
            Target::Single(index) => self.singles[index] = Cached::Yes,
            Target::Scheduled(index) => {
                self.scheduled[index] = Cached::Yes;
                if index < self.held {
                    self.held_left -= 1;
                }
            }
        }
        if self.thread.pause == Pause::Read(target) {
            self.thread.resume(now);
        }
        if self.app.pause == Pause::Held && self.held_left == 0 {
            self.done.held_us = now;
            let compute_us = self.app.at;
            self.app.resume(now + compute_us);
        }
        if self.app.pause == Pause::Read(target) {
            if let Some((from_us, own)) = self.wait.take()
                && now > from_us
            {
                self.done.waits.push(AppWait {
                    access: self.app.next,
                    from_us,
                    until_us: now,
                    own,
                });
            }
            self.app.resume(now);
        }
    }

    /// The app accesses its next entry.
    fn access(&mut self) {
        let (index, now) = (self.app.next, self.app.at);
        let Some(entry) = self.launch.log.get(index) else {
            self.done.end_us = now;
            self.app.pause = Pause::Over;
            return;
        };
        let (target, cached) = self.state(index);
        match cached {
            Cached::Yes => {
                self.done.accessed_us.push(now);
                self.app.next += 1;
                let compute_us = self.launch.compute_us.get(index + 1);
                self.app.at = now + compute_us.copied().unwrap_or(0.0);
            }
            Cached::UnderWay => self.app_waits(target, false),
            Cached::No => {
                self.app_waits(Target::Single(index), true);
                self.request(Target::Single(index), *entry, entry.span.bytes(), now, true);
            }
        }
    }

    fn app_waits(&mut self, target: Target, own: bool) {
        self.wait = Some((self.app.at, own));
        self.app.pause = Pause::Read(target);
    }

    /// Whether a log entry is cached, and by which read.
    fn state(&self, index: usize) -> (Target, Cached) {
        let single = (Target::Single(index), self.singles[index]);
        match self.scheduled_by[index] {
            _ if single.1 == Cached::Yes => single,
            NOTHING => single,
            by => match self.scheduled[by] {
                Cached::No => single,
                cached => (Target::Scheduled(by), cached),
            },
        }
    }

    /// The prefetch thread turns to its next entry.
    fn prefetch(&mut self) {
        let (index, now) = (self.thread.next, self.thread.at);
        let Some(entry) = self.schedule.get(index) else {
            self.thread.pause = Pause::Over;
            return;
        };
        let first = self.first_covered[index];
        let Some(&at) = self.launch.log.get(first) else {
            self.thread.next += 1;
            self.scheduled[index] = Cached::UnderWay;
            self.arrived(Target::Scheduled(index), now);
            return;
        };
        if let Place::Data { file } = entry.span.place
            && !self.open(file, now)
        {
            return;
        }
        let drive = usize::from(at.device);
        if self
            .drives
            .get(drive)
            .is_some_and(|queue| queue.len() >= QUEUE_LIMIT)
        {
            self.thread.pause = Pause::Room(drive);
            return;
        }
        self.thread.next += 1;
        self.thread.at = self.thread.at.max(now) + CALL_US;
        self.request(Target::Scheduled(index), at, entry.span.bytes(), now, false);
    }

    /// Opens a file for the prefetch thread; false if it has to wait for the file's metadata first.
    fn open(&mut self, file: u32, now: f64) -> bool {
        if self.opened[file as usize] {
            return true;
        }
        if let Some(&metadata) = self.launch.opened_by.get(&file) {
            let (target, cached) = self.state(metadata as usize);
            match cached {
                Cached::Yes => {}
                Cached::UnderWay => {
                    self.thread.pause = Pause::Read(target);
                    return false;
                }
                Cached::No => {
                    self.thread.pause = Pause::Read(target);
                    let entry = self.launch.log[metadata as usize];
                    self.request(target, entry, entry.span.bytes(), now, false);
                    return false;
                }
            }
        }
        self.opened[file as usize] = true;
        self.thread.at = now + OPEN_US;
        true
    }

    /// Reads `bytes` from where `at` lies. `by_app`: the app asks, not the prefetch thread.
    fn request(&mut self, target: Target, at: LogEntry, bytes: u64, now: f64, by_app: bool) {
        let id = self.id(target);
        match target {
            Target::Scheduled(index) => self.scheduled[index] = Cached::UnderWay,
            Target::Single(index) => self.singles[index] = Cached::UnderWay,
        }
        let Some(queue) = self.drives.get_mut(usize::from(at.device)) else {
            return self.arrived(target, now);
        };
        let start = byte(at.lba);
        let request = QueuedRequest {
            id,
            start,
            bytes,
            by_app,
        };
        queue.push(request, now);
        self.note_queue(now);
    }

    fn note_queue(&mut self, time_us: f64) {
        let requests = self.drives.iter().map(DriveQueue::len).sum();
        self.done.queue.push(QueueLength { time_us, requests });
    }

    fn id(&self, target: Target) -> u32 {
        let id = match target {
            Target::Scheduled(index) => index,
            Target::Single(index) => self.schedule.len() + index,
        };
        u32::try_from(id).unwrap_or(u32::MAX)
    }

    fn target(&self, id: u32) -> Target {
        let id = id as usize;
        match id.checked_sub(self.schedule.len()) {
            None => Target::Scheduled(id),
            Some(index) => Target::Single(index),
        }
    }
}
