//! Simulation of a prefetched launch: what a schedule would do to it on drives of these models.
//!
//! Three take part, each at its own pace: the **app** computes for the recorded times and accesses its log entries in
//! order, waiting for those that are not cached; the **prefetch thread** asks for the schedule's entries in theirs, and
//! waits where the queue is full or a file's inode has not arrived; the **drives** serve what is in their queues
//! ([`drive_queue`]). What the app needs and the thread has not asked for, the app reads itself; how soon that is
//! served, and what else is meanwhile, also depends on the kernel's I/O scheduler ([`Elevator`]).
//!
//! The log does not say which metadata a file needs. They are recorded just before the first access of the file's data
//! unless they were read for another before, so those are taken that stand there. Each device counts as a drive of its
//! own. The app is one thread, and its own reads bring nothing else along.

mod addresses;
mod compute_times;
mod drive_queue;
mod run;

use std::collections::HashMap;

use crate::model::{DriveModel, Learned, LogEntry, Place, PrefetchEntry};

use compute_times::compute_times;
use run::Run;

/// Bytes of a sector of disk positions.
const SECTOR_BYTES: u64 = 512;

/// What the I/O scheduler of the drives does with the app's own reads, beside those of the prefetch thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elevator {
    /// They wait among the others: mq-deadline, which sorts all that wait, and none, which leaves the order to the drive.
    #[default]
    Sorts,
    /// On a drive with heads, they go before all others, and behind each, the drive stays idle for up to 8 ms until the
    /// app's next: bfq (`block/bfq-iosched.c`). It raises the weight of a new app 30 times (`bfq_wr_coeff`), and
    /// idles for a process that reads synchronously (`slice_idle`; `bfq_better_to_idle`). So the prefetch thread is hardly
    /// served while the app finds pages that are not cached, until the app waits for a page that the thread has asked for,
    /// or computes for longer than that. Measured on an emulated disk of 7,200 rpm: a sweep in one
    /// region beside the app took 8.0 s of a cold launch of 11.4 s, the same with the app held until it had arrived 2.2 s;
    /// with mq-deadline 2.2 s either way. Flash showed no difference.
    FavoursReaders,
}

/// The app waits for a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppWait {
    /// Position of the access in the launch sequence.
    pub access: usize,
    /// When the wait begins, in µs since prefetching began.
    pub from_us: f64,
    /// When the read has arrived.
    pub until_us: f64,
    /// Whether the app reads it itself, since the prefetch thread had not asked for it.
    pub own: bool,
}

/// How long the queues are from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLength {
    /// In µs since prefetching began.
    pub time_us: f64,
    /// Requests that wait or are served, of all drives.
    pub requests: usize,
}

/// What a schedule does to a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// When the app has done its last access, in µs since prefetching began.
    pub end_us: f64,
    /// How long the app was held, in µs.
    pub held_us: f64,
    /// When the app has made each access, in µs since prefetching began, in the order of the launch sequence.
    pub accessed_us: Vec<f64>,
    /// What the app waited for.
    pub waits: Vec<AppWait>,
    /// The queues over time.
    pub queue: Vec<QueueLength>,
}

/// A launch that is simulated with one schedule after the other.
pub struct LaunchSimulator<'a> {
    log: &'a [LogEntry],
    /// By index in the device table; what is on others costs nothing.
    models: &'a [DriveModel],
    elevator: Elevator,
    compute_us: Vec<f64>,
    /// Positions in the log, in the order of places and pages.
    by_span: Vec<u32>,
    /// The position of the last metadata entry that stands just before the first data of a file.
    opened_by: HashMap<u32, u32>,
}

impl<'a> LaunchSimulator<'a> {
    /// A launch sequence in access order, on devices of these models, whose I/O scheduler is [`Elevator::Sorts`].
    /// `learned`: how its times were recorded.
    pub fn new(log: &'a [LogEntry], models: &'a [DriveModel], learned: Learned) -> Self {
        let mut by_span: Vec<u32> = (0u32..).take(log.len()).collect();
        by_span.sort_unstable_by_key(|&index| (log[index as usize].span, index));
        LaunchSimulator {
            log,
            models,
            elevator: Elevator::default(),
            compute_us: compute_times(log, models, learned),
            by_span,
            opened_by: opened_by(log),
        }
    }

    /// The same with this I/O scheduler.
    pub fn with_elevator(self, elevator: Elevator) -> Self {
        LaunchSimulator { elevator, ..self }
    }

    /// Simulates the launch with a schedule. The app is held until the first `held` entries have arrived.
    pub fn simulate(&self, schedule: &[PrefetchEntry], held: usize) -> Simulation {
        Run::new(self, schedule, held).until_over()
    }

    /// The positions in the log that a schedule entry covers, in the order of pages.
    fn covered(&self, entry: &PrefetchEntry) -> impl Iterator<Item = usize> {
        let span = entry.span;
        let first = self.by_span.partition_point(|&index| {
            let at = self.log[index as usize].span;
            (at.place, at.start) < (span.place, span.start)
        });
        let within = move |index: &usize| {
            let at = self.log[*index].span;
            at.place == span.place && at.start < span.end()
        };
        let behind = self.by_span[first..].iter().map(|&index| index as usize);
        behind.take_while(within)
    }
}

/// For each file, the last metadata entry that stands just before its first data.
fn opened_by(log: &[LogEntry]) -> HashMap<u32, u32> {
    let mut files = HashMap::new();
    let mut before = None;
    for (entry, index) in log.iter().zip(0u32..) {
        match entry.span.place {
            Place::Metadata { .. } => before = Some(index),
            Place::Data { file } => {
                let metadata = before.take();
                files.entry(file).or_insert(metadata);
            }
        }
    }
    let needing = files.into_iter();
    needing
        .filter_map(|(file, metadata)| Some((file, metadata?)))
        .collect()
}

#[cfg(test)]
mod tests;
