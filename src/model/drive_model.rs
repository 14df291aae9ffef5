//! What a drive can do, in µs: what a request costs, what its bytes cost, what the way to them costs, and what
//! several requests at once gain.
//!
//! A model is measured by a probe ([`DriveModel::fit`]) or, until then, guessed from the drive's class
//! ([`DriveModel::guess`]). Figures are those that a process sees: the way through the kernel is in them.

mod fit;

pub use fit::{FitError, ProbeSample, ReadPattern};

use serde::{Deserialize, Serialize};

use super::{DriveClass, PAGE_SIZE};

/// Where a model's figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A probe has measured them.
    Measured,
    /// They are figures of the drive's class.
    Guessed,
}

/// What it costs to move the heads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekCost {
    /// From the end of one request to the beginning of the next, forward, in bytes.
    pub distance: u64,
    /// What that adds to the request, the wait for the sector included, in µs.
    pub us: f64,
}

/// What requests cost when several are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedCost {
    /// Requests in flight.
    pub depth: u32,
    /// Time from one completion to the next, of 4 KiB requests at random positions, in µs.
    pub request_us: f64,
}

/// What reads cost whose addresses the drive has at hand: at random positions, all within some MiB. Flash keeps its table
/// of addresses in flash, too, and most drives have room for a part of it only, so that a read far from all others waits
/// for a page of that table. What a launch reads lies together in files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearCost {
    /// Bytes of each read.
    pub bytes: u64,
    /// What one takes that is alone in flight, in µs.
    pub alone_us: f64,
    /// Time from one completion to the next with the queue filled, in µs.
    pub queued_us: f64,
}

/// A drive's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveModel {
    /// Measured or guessed.
    pub origin: Origin,
    /// What a request costs by itself, without its bytes and without a seek, in µs.
    pub request_us: f64,
    /// What a KiB of a request costs by itself, in µs.
    pub kib_us: f64,
    /// What a KiB costs in sequence with the queue filled, in µs: the most that the drive delivers.
    pub stream_kib_us: f64,
    /// Seeks, by rising distance; empty for a drive without heads.
    pub seeks: Vec<SeekCost>,
    /// Costs by rising depth, from depth 1 on.
    pub queue: Vec<QueuedCost>,
    /// Costs of near reads by rising size; empty for a drive with heads, and where they were not measured.
    #[serde(default)]
    pub near: Vec<NearCost>,
}

/// The KiB of the requests in [`DriveModel::queue`].
const SMALL_KIB: f64 = 4.0;

/// A depth helps as long as requests cost this much more at it than at the best depth.
const NEARLY_BEST: f64 = 1.1;

/// Near reads help each other if the filled queue takes less than this share of the time: the way through the kernel
/// alone is hidden by the next request, too.
const NEAR_QUEUED: f64 = 0.75;

/// The queue of a disk with heads reorders if the best depth takes less than this share of the time.
const REORDERED: f64 = 0.8;

/// The largest request that a model without measured sizes tells the cost of, in bytes.
const LARGEST_GUESSED: u64 = 128 << 10;

/// Largest hole that is looked at, in pages: 16 MiB.
const MOST_HOLE_PAGES: u64 = 4096;

/// Bounds of a sound model.
const MOST_US: f64 = 1e8;
const MOST_SEEKS: usize = 32;
const MOST_DEPTHS: usize = 16;
const MOST_SIZES: usize = 16;
const MOST_DEPTH: u32 = 4096;

impl NearCost {
    /// Bytes within which reads are near: what a page of a drive's table of addresses is for, as far as is known of such
    /// tables, or more.
    pub const AREA: u64 = 4 << 20;
}

impl DriveModel {
    /// Figures of the class. With command queuing: a SATA drive of the 860 QVO's class; without: the MicroSD
    /// card of the FAST '23 paper (§5.3); with heads: a desktop disk of 7,200 rpm.
    pub fn guess(class: DriveClass) -> DriveModel {
        let queue = |costs: &[(u32, f64)]| {
            let cost = |&(depth, request_us)| QueuedCost { depth, request_us };
            costs.iter().map(cost).collect()
        };
        let (request_us, kib_us, stream_kib_us, queue) = match class {
            DriveClass::CommandQueuing => {
                let costs = queue(&[(1, 133.0), (8, 21.0), (32, 11.0)]);
                (125.0, 2.0, 1.9, costs)
            }
            DriveClass::NoCommandQueuing => (833.0, 29.0, 29.0, queue(&[(1, 950.0)])),
            DriveClass::Rotational => {
                let costs = queue(&[(1, 12_800.0), (8, 7_700.0), (32, 5_300.0)]);
                (130.0, 6.8, 6.8, costs)
            }
        };
        let distances = [
            (0, 0.0),
            (1 << 16, 450.0),
            (1 << 20, 5_200.0),
            (1 << 24, 6_500.0),
            (1 << 28, 8_000.0),
            (1 << 32, 9_000.0),
            (1 << 36, 12_000.0),
            (1 << 39, 16_000.0),
        ];
        let seek = |&(distance, us)| SeekCost { distance, us };
        DriveModel {
            origin: Origin::Guessed,
            request_us,
            kib_us,
            stream_kib_us,
            seeks: match class {
                DriveClass::Rotational => distances.iter().map(seek).collect(),
                _ => Vec::new(),
            },
            queue,
            near: Vec::new(),
        }
    }

    /// Whether what a request costs depends on how far away it is, as only heads make it.
    pub fn has_heads(&self) -> bool {
        !self.seeks.is_empty()
    }

    /// Requests in flight up to which more of them help; 1: the drive serves one after the other.
    pub fn useful_depth(&self) -> u32 {
        let best = self.best_queued_us();
        let helps = |cost: &&QueuedCost| cost.request_us <= best * NEARLY_BEST;
        self.queue.iter().find(helps).map_or(1, |cost| cost.depth)
    }

    /// Whether the drive, or the kernel's queue before it, serves what is in flight in an order of its own, nearest
    /// first.
    pub fn reorders(&self) -> bool {
        self.has_heads() && self.best_queued_us() < self.queued_us(1) * REORDERED
    }

    /// Whether the drive works on several requests at a time. Far from each other they may all wait for its table of
    /// addresses.
    pub fn is_queued(&self) -> bool {
        let helps = |near: &NearCost| near.queued_us < near.alone_us * NEAR_QUEUED;
        self.useful_depth() > 1 || self.near.first().is_some_and(helps)
    }

    /// Whether the order of requests decides how long the drive takes for them: heads have ways to go, and where one
    /// request follows another, what is not needed yet delays what is.
    pub fn is_order_decisive(&self) -> bool {
        self.has_heads() || !self.is_queued()
    }

    /// What a read takes that is alone in flight and near others, in µs; on a drive without heads.
    pub fn near_us(&self, bytes: u64) -> f64 {
        match self.near.is_empty() {
            true => self.request_us + bytes as f64 / 1024.0 * self.kib_us,
            false => self.near_cost(bytes, |near| near.alone_us),
        }
    }

    /// Time from one completion to the next of near reads with the queue filled, in µs; on a drive without heads.
    pub fn near_queued_us(&self, bytes: u64) -> f64 {
        let more_kib = bytes as f64 / 1024.0 - SMALL_KIB;
        match self.near.is_empty() {
            true => self.far_best_us() + more_kib * self.stream_kib_us,
            false => self.near_cost(bytes, |near| near.queued_us),
        }
    }

    /// The largest read whose cost [`DriveModel::near_us`] and [`DriveModel::near_queued_us`] tell, in bytes. A larger one
    /// costs what reads of that size do: the kernel cuts requests that are larger than the drive takes.
    pub fn largest_read(&self) -> u64 {
        let measured = self.near.last().map(|near| near.bytes);
        measured.unwrap_or(LARGEST_GUESSED).max(PAGE_SIZE)
    }

    /// What being far from all others adds to a read that is alone in flight, and to the time from one completion to the
    /// next with the queue filled, in µs.
    pub fn far_us(&self) -> (f64, f64) {
        match self.near.is_empty() {
            true => (0.0, 0.0),
            false => {
                let alone = self.queued_us(1) - self.near_us(PAGE_SIZE);
                let queued = self.far_best_us() - self.near_queued_us(PAGE_SIZE);
                (alone.max(0.0), queued.max(0.0))
            }
        }
    }

    fn far_best_us(&self) -> f64 {
        self.queued_us(self.useful_depth())
    }

    fn near_cost(&self, bytes: u64, us: impl Fn(&NearCost) -> f64) -> f64 {
        interpolate(
            (self.near.iter()).map(|near| (near.bytes as f64, us(near))),
            bytes as f64,
        )
    }

    /// The deepest queue that was measured, in requests.
    pub fn deepest(&self) -> u32 {
        self.queue.last().map_or(1, |cost| cost.depth)
    }

    /// What a request that is alone in flight takes, in µs. `distance` is from the end of the request before it, in
    /// bytes; `None`: somewhere else on the drive.
    pub fn request_cost_us(&self, bytes: u64, distance: Option<u64>) -> f64 {
        let kib = bytes as f64 / 1024.0;
        match distance {
            Some(distance) => self.request_us + kib * self.kib_us + self.seek_us(distance),
            // A line through the sizes would not do: a stick senses the pages of a large read together.
            None if !self.near.is_empty() => self.far_us().0 + self.near_us(bytes),
            None => (self.queued_us(1) + (kib - SMALL_KIB) * self.kib_us).max(0.0),
        }
    }

    /// What the way to a request costs, in µs; 0 without heads. Between the distances of the table, seeks grow with the
    /// distance's logarithm. From the nearer of the two, the drive can also read on: the way never costs more than the
    /// bytes that pass then.
    pub fn seek_us(&self, distance: u64) -> f64 {
        let mut nearest = self.seeks.iter().rev();
        let nearer = nearest.find(|seek| seek.distance <= distance);
        let read_on_us = nearer.map_or(f64::INFINITY, |from| {
            from.us + self.passing_us(distance) - self.passing_us(from.distance)
        });
        self.table_seek_us(distance).min(read_on_us)
    }

    /// What reading on over so many bytes adds to a request, in µs. They pass while the request is on its way.
    pub fn passing_us(&self, distance: u64) -> f64 {
        (distance as f64 / 1024.0 * self.kib_us - self.request_us).max(0.0)
    }

    /// A seek by the table alone.
    fn table_seek_us(&self, distance: u64) -> f64 {
        let place = |distance: u64| ((distance + 1) as f64).log2();
        interpolate(
            self.seeks
                .iter()
                .map(|seek| (place(seek.distance), seek.us)),
            place(distance),
        )
    }

    /// Time from one completion to the next of 4 KiB requests at random positions, in µs, with `depth` of them in
    /// flight.
    pub fn queued_us(&self, depth: u32) -> f64 {
        interpolate(
            (self.queue.iter()).map(|cost| (f64::from(cost.depth).log2(), cost.request_us)),
            f64::from(depth.max(1)).log2(),
        )
    }

    fn best_queued_us(&self) -> f64 {
        let costs = self.queue.iter().map(|cost| cost.request_us);
        costs.fold(f64::INFINITY, f64::min)
    }

    /// Largest hole that is worth reading, in pages: cheaper than a request of its own behind it.
    ///
    /// With heads, a hole costs what passes under them, and leaving it out a seek across it. That is the largest hole to
    /// think of: the drive reads on across smaller ones by itself, for the same time and without the bytes. Where requests
    /// help each other, both costs are those with the queue filled: there, bytes are the limit sooner.
    pub fn hole_pages(&self) -> u64 {
        let page_kib = PAGE_SIZE as f64 / 1024.0;
        if self.has_heads() {
            let page_us = self.kib_us * page_kib;
            let is_worth = |pages: u64| {
                let seek_us = self.table_seek_us(pages * PAGE_SIZE);
                pages as f64 * page_us <= self.request_us + seek_us
            };
            let mut holes = (1..=MOST_HOLE_PAGES).rev();
            return holes.find(|&pages| is_worth(pages)).unwrap_or(0);
        }
        let (request_us, kib_us) = match self.useful_depth() {
            1 => (self.request_us, self.kib_us),
            _ => {
                let bytes_us = SMALL_KIB * self.stream_kib_us;
                (self.best_queued_us() - bytes_us, self.stream_kib_us)
            }
        };
        let pages = (request_us / (kib_us * page_kib)).round().max(0.0);
        (pages as u64).min(MOST_HOLE_PAGES)
    }

    /// Whether its figures are such as a drive can have: finite, not negative, in order, and few enough.
    pub fn is_sound(&self) -> bool {
        let within = |us: f64| (0.0..=MOST_US).contains(&us);
        let costs_something = |us: f64| within(us) && us > 0.0;
        let rises = |pair: &[SeekCost]| pair[0].distance < pair[1].distance;
        let deeper = |pair: &[QueuedCost]| pair[0].depth < pair[1].depth;
        let larger = |pair: &[NearCost]| pair[0].bytes < pair[1].bytes;
        within(self.request_us)
            && costs_something(self.kib_us)
            && costs_something(self.stream_kib_us)
            && self.seeks.len() <= MOST_SEEKS
            && self.seeks.iter().all(|seek| within(seek.us))
            && self.seeks.windows(2).all(rises)
            && self.queue.first().is_some_and(|cost| cost.depth == 1)
            && self.queue.len() <= MOST_DEPTHS
            && (self.queue.iter())
                .all(|cost| cost.depth <= MOST_DEPTH && costs_something(cost.request_us))
            && self.queue.windows(2).all(deeper)
            && self.near.len() <= MOST_SIZES
            && (self.near.iter())
                .all(|near| costs_something(near.alone_us) && costs_something(near.queued_us))
            && self.near.windows(2).all(larger)
    }

    /// The model in words, in one line.
    pub fn describe(&self) -> String {
        let depth = self.useful_depth();
        let kind = match (self.has_heads(), depth) {
            (true, _) => "disk with heads",
            (false, 1) => "no heads, one request at a time",
            (false, _) => "no heads, several requests at a time",
        };
        let mut parts = vec![format!(
            "a request costs {} and a KiB {}",
            duration(self.request_us),
            duration(self.kib_us)
        )];
        if let (Some(first), Some(last)) = (
            self.seeks.iter().find(|seek| seek.us > 0.0),
            self.seeks.last(),
        ) {
            parts.push(format!(
                "seeks cost {} ({}) to {} ({})",
                duration(first.us),
                distance(first.distance),
                duration(last.us),
                distance(last.distance)
            ));
        }
        parts.push(match depth {
            1 => format!(
                "a random 4 KiB takes {}, more requests at once do not help",
                duration(self.queued_us(1))
            ),
            _ => format!(
                "a random 4 KiB takes {} alone and {} with {depth} in flight{}",
                duration(self.queued_us(1)),
                duration(self.queued_us(depth)),
                match self.reorders() {
                    true => ", which are reordered",
                    false => "",
                }
            ),
        });
        parts.push(format!(
            "{:.0} MB/s in sequence",
            1024.0 / self.stream_kib_us
        ));
        parts.push(match self.hole_pages() {
            pages if self.has_heads() => {
                format!("holes of more than {pages} pages are never worth reading")
            }
            0 => "no hole is worth reading".to_owned(),
            1 => "holes of 1 page are worth reading".to_owned(),
            pages => format!("holes of up to {pages} pages are worth reading"),
        });
        let origin = match self.origin {
            Origin::Measured => "measured",
            Origin::Guessed => "a guess",
        };
        format!("{kind} ({origin}): {}", parts.join("; "))
    }
}

/// The value at `at` of the line through `points`, which are in order; before the first and behind the last, theirs. 0
/// of no points.
fn interpolate(points: impl Iterator<Item = (f64, f64)>, at: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (place, value) in points {
        if at <= place {
            return match before {
                Some((from, low)) if place > from => {
                    low + (value - low) * (at - from) / (place - from)
                }
                _ => value,
            };
        }
        before = Some((place, value));
    }
    before.map_or(0.0, |(_, value)| value)
}

/// µs in words, such as `7.4 µs`, `133 µs` and `8.2 ms`.
fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 2000.0 => format!("{us:.0} µs"),
        us => format!("{:.1} ms", us / 1000.0),
    }
}

/// Bytes in words, such as `64 KiB`.
fn distance(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        bytes if bytes < 1 << 30 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests;
