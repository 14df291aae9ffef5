//! A drive with its queue, as its model has it.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::Elevator;
use super::addresses::AddressesAtHand;
use crate::model::DriveModel;

/// What the samples of [`DriveModel::queue`] read, in KiB.
const SMALL_KIB: f64 = 4.0;

/// A way back costs a rotation at least, as one does that is so long, in bytes: the table of seeks is of ways forward,
/// where the drive may read on.
const LEAST_WAY_BACK: u64 = 4 << 20;

/// A seek that costs at least so much of what reading on costs is none: the drive reads on.
const READ_ON: f64 = 0.67;

/// Choosing the nearest request saves no more of a seek than this: seeking itself remains.
const LEAST_SHARE: f64 = 0.4;

/// How long [`Elevator::FavoursReaders`] keeps a drive idle for the app's next read, in µs: bfq's default `slice_idle`. While
/// the app's weight is raised, it is 20 ms (`bfq_arm_slice_timer`, since Linux 5.0); the weight of a launch that starts many
/// processes at once is not (`bfq_handle_burst`). With 20, simulated sweeps beside the app took 1 to 7 % longer.
const SLICE_IDLE_US: f64 = 8_000.0;

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedRequest {
    /// What it is for.
    pub id: u32,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether the app reads this by itself.
    pub by_app: bool,
}

/// The end of a request that is served.
#[derive(Clone, Copy, Debug)]
struct Completion {
    /// In µs.
    at: f64,
    /// What the request was for.
    id: u32,
    /// Whether the app has read it by itself.
    by_app: bool,
}

impl Ord for Completion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Completion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Completion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Completion {}

/// A drive that serves requests.
///
/// As long as any wait, either one is served or the drive idles: [`DriveQueue::next_completion`] then says when that ends, so
/// that a simulation always goes on.
pub(super) struct DriveQueue<'a> {
    model: &'a DriveModel,
    /// Requests that are served at the same time.
    slots: usize,
    /// Of so many, the oldest, the nearest is served next.
    window: usize,
    /// By the number of requests to choose from, less one: the share of a seek's cost that remains.
    shares: Vec<f64>,
    waiting: VecDeque<QueuedRequest>,
    /// Those that are served, the next completion first.
    served: BinaryHeap<Reverse<Completion>>,
    /// Where the heads are.
    head: u64,
    /// When the drive has delivered all that it serves, in µs, as fast as it can.
    delivered_us: f64,
    at_hand: AddressesAtHand,
    /// Whether the app's own reads go first.
    favours_app: bool,
    /// Until then, in µs, only the app's own reads are served.
    idle_until: f64,
    /// Where the last request ends that the app has not made: bfq has a queue for each process, and goes on there from
    /// where it stopped. From where the app's reads have left the heads, a sweep would go past what is behind them, and
    /// an app that waits for such a page would leave the drive to the sweep until its end.
    prefetched_to: u64,
}

impl<'a> DriveQueue<'a> {
    pub fn new(model: &'a DriveModel, elevator: Elevator) -> Self {
        let depth = model.useful_depth() as usize;
        let window = if model.reorders() { depth } else { 1 };
        DriveQueue {
            model,
            slots: match model.is_order_decisive() {
                true => 1,
                false => model.deepest() as usize,
            },
            window,
            shares: (1..=window).map(|count| seek_share(model, count)).collect(),
            waiting: VecDeque::new(),
            served: BinaryHeap::new(),
            head: 0,
            delivered_us: 0.0,
            at_hand: AddressesAtHand::default(),
            favours_app: elevator == Elevator::FavoursReaders && model.has_heads(),
            idle_until: 0.0,
            prefetched_to: 0,
        }
    }

    /// Requests that wait or are served.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.served.len()
    }

    /// Takes a request at the time `now`, in µs.
    pub fn push(&mut self, request: QueuedRequest, now: f64) {
        self.waiting.push_back(request);
        self.serve(now, false);
    }

    /// When the next request is complete, or the drive has been idle for long enough while requests wait, in µs; infinite if
    /// there is none.
    pub fn next_completion(&self) -> f64 {
        match self.served.peek() {
            Some(Reverse(next)) => next.at,
            None if self.waiting.is_empty() => f64::INFINITY,
            None => self.idle_until,
        }
    }

    /// Ends the request that is complete next and serves others. Says when that is, and what it was for; `None` if
    /// the drive was idle, and only begins with what waits.
    pub fn complete(&mut self) -> Option<(f64, u32)> {
        let Some(Reverse(done)) = self.served.pop() else {
            self.serve(self.idle_until, false);
            return None;
        };
        if done.by_app && self.favours_app {
            self.idle_until = done.at + SLICE_IDLE_US;
        }
        self.serve(done.at, true);
        Some((done.at, done.id))
    }

    /// Begins with requests. `have_waited`: for another to be complete.
    fn serve(&mut self, now: f64, have_waited: bool) {
        while self.served.len() < self.slots {
            let Some((request, count)) = self.take_next(now) else {
                return;
            };
            let at = match self.model.has_heads() {
                true => now + self.heads_us(&request, count),
                false => self.flash_done(&request, now, have_waited),
            };
            self.head = request.start.saturating_add(request.bytes);
            self.served.push(Reverse(Completion {
                at,
                id: request.id,
                by_app: request.by_app,
            }));
        }
    }

    /// Takes the request that is served next, and says of how many it was chosen. `None` if there is none, or if
    /// the drive is kept idle for the app's next read.
    fn take_next(&mut self, now: f64) -> Option<(QueuedRequest, usize)> {
        if self.favours_app {
            if let Some(own) = self.waiting.iter().position(|request| request.by_app) {
                return Some((self.waiting.remove(own)?, 1));
            }
            if now < self.idle_until {
                return None;
            }
        }
        let from = match self.favours_app {
            true => self.prefetched_to,
            false => self.head,
        };
        let count = self.waiting.len().min(self.window);
        let candidates = self.waiting.iter().take(count).enumerate();
        let (nearest, _) = candidates.min_by_key(|(_, request)| way(from, request.start))?;
        let request = self.waiting.remove(nearest)?;
        self.prefetched_to = request.start.saturating_add(request.bytes);
        Some((request, count))
    }

    /// What a request costs a disk with heads that has chosen it among `count`.
    fn heads_us(&self, request: &QueuedRequest, count: usize) -> f64 {
        let bytes_us = kib(request.bytes) * self.model.kib_us;
        let way = way(self.head, request.start);
        let seek_us = self.model.seek_us(way);
        let reads_on = seek_us >= self.model.passing_us(way) * READ_ON;
        let share = match reads_on {
            true => 1.0,
            false => self.shares[count - 1],
        };
        self.model.request_us + bytes_us + seek_us * share
    }

    /// When a drive without heads has served a request that it begins with now. With a queue it works on several, and
    /// delivers them as fast as it does with the queue filled. One that serves a request at a time is as fast as that where
    /// the request has waited for the one before: the way to the drive and back is over meanwhile.
    fn flash_done(&mut self, request: &QueuedRequest, now: f64, has_waited: bool) -> f64 {
        let model = self.model;
        let (far_us, far_queued_us) = match self.at_hand.read(request.start, request.bytes) {
            true => (0.0, 0.0),
            false => model.far_us(),
        };
        let occupied_us = in_parts(model, request.bytes, |bytes| model.near_queued_us(bytes));
        if self.slots == 1 {
            return match has_waited {
                true => now + far_queued_us + occupied_us,
                false => {
                    now + far_us + in_parts(model, request.bytes, |bytes| model.near_us(bytes))
                }
            };
        }
        self.delivered_us = self.delivered_us.max(now) + far_queued_us + occupied_us;
        let latency_us = far_us + model.near_us(request.bytes.min(model.largest_read()));
        self.delivered_us.max(now + latency_us)
    }
}

/// The sum of what the parts of a request cost that the model knows.
pub(super) fn in_parts(model: &DriveModel, bytes: u64, us: impl Fn(u64) -> f64) -> f64 {
    let part = model.largest_read();
    let rest = bytes % part;
    let rest_us = if rest > 0 { us(rest) } else { 0.0 };
    (bytes / part) as f64 * us(part) + rest_us
}

/// The way of the heads, in bytes forward.
pub(super) fn way(head: u64, start: u64) -> u64 {
    match start.checked_sub(head) {
        Some(forward) => forward,
        None => (head - start).max(LEAST_WAY_BACK),
    }
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

/// What remains of the cost of a seek if the drive has chosen among `count` requests: it also chooses by the sectors
/// that come next under the heads, which the mean cost of a way does not tell.
fn seek_share(model: &DriveModel, count: usize) -> f64 {
    let farthest = model.seeks.last().map_or(0, |seek| seek.distance);
    // The nearest of `count` random positions, from one that is random too; a third of the way for one.
    let nearest = farthest / (2 * count as u64 + 1);
    let seek_us = model.seek_us(nearest);
    let alone_us = model.request_us + SMALL_KIB * model.kib_us;
    let left_us = model.queued_us(count as u32) - alone_us;
    match seek_us > 0.0 {
        true => (left_us / seek_us).clamp(LEAST_SHARE, 1.0),
        false => 1.0,
    }
}
