//! How long an app computes before each of its accesses, from the recorded times.
//!
//! A launch that was recorded with everything cached tells that directly. One that was recorded cold waited for the
//! drive, too: what a read may have taken is subtracted from the time that passed. Single reads take more or less
//! than the model says, so that what is left of a read's cost counts against the next accesses.
//!
//! How the launch was recorded says what it read. An exact lesson read each page by itself, and one as read the entries as
//! they are. Of a live one the log has the pages that were touched, while the kernel read others around them along.

use super::addresses::AddressesAtHand;
use super::drive_queue::{in_parts, way};
use crate::model::ranges::RangeSet;
use crate::model::{DriveModel, Learned, LogEntry, PAGE_SIZE, median};

/// Pages that the kernel reads before a page that was touched, and from it on, by default (`VM_READAHEAD_PAGES`, which
/// `do_sync_mmap_readahead` puts around the page).
const AROUND: u64 = 16;

/// A live launch that took less than this share of what its reads cost one by one had most of them cached.
const MOSTLY_CACHED: f64 = 0.5;

/// Reads of a launch count as so much dearer than the model says. A launch from a slow drive consists of reads, and
/// where single ones take up to twice their mean, as on a disk, the rest would look like computing: of an exact
/// learning run of 67 s, 4 s instead of the 0.2 s that the app computes.
const MARGIN: f64 = 1.3;

/// The same on flash, where reads are alike, beyond what they cost in the launch ([`dearer`]).
const MARGIN_FLASH: f64 = 1.2;

/// Fewer reads do not tell what they cost in a launch.
const LEAST_READS: usize = 32;

/// Reads of a launch are taken for at most so many times as dear as the model says: beyond that, it is the app that
/// computes between them.
const MOST_DEARER: f64 = 2.0;

/// Most reads, at random positions, whose cost is carried on, on a disk with heads: single ones take from nothing to twice
/// their mean.
const MOST_CARRIED: f64 = 32.0;

/// The same on flash, where reads are alike. With as many as on a disk, what apps compute disappeared in it: of ten
/// apps on an emulated eMMC, Chromium was found to compute for 0.04 s, where a warm launch takes 0.48 s.
const MOST_CARRIED_FLASH: f64 = 2.0;

/// The time that the app computes before each access, in µs.
pub(super) fn compute_times(log: &[LogEntry], models: &[DriveModel], learned: Learned) -> Vec<f64> {
    let mut drives: Vec<DriveOfLesson> = models.iter().map(DriveOfLesson::new).collect();
    let mut costs: Vec<ReadCost> = log
        .iter()
        .map(|entry| match drives.get_mut(usize::from(entry.device)) {
            Some(drive) => drive.read_cost(entry, learned),
            None => ReadCost::default(),
        })
        .collect();
    let mut before = 0;
    let passed = log.iter().map(|entry| {
        let time = entry.time_us.max(before);
        (time - std::mem::replace(&mut before, time)) as f64
    });
    let passed: Vec<f64> = passed.collect();
    let launch_us = log.iter().map(|entry| entry.time_us).max().unwrap_or(0) as f64;
    let reads_us: f64 = costs.iter().map(|cost| cost.us).sum();
    if learned == Learned::Live && launch_us < reads_us * MOSTLY_CACHED {
        return passed;
    }
    let dearer = dearer(&passed, &costs);
    for cost in &mut costs {
        cost.us *= if cost.is_flash {
            MARGIN_FLASH * dearer
        } else {
            MARGIN
        };
    }
    // An access is recorded when its read begins.
    let mut left_us: f64 = 0.0;
    passed
        .into_iter()
        .zip(&costs)
        .map(|(passed_us, cost)| {
            let waited_us = left_us.min(passed_us);
            left_us = (left_us - waited_us).min(cost.most_carried_us) + cost.us;
            passed_us - waited_us
        })
        .collect()
}

/// What an access of a launch cost.
#[derive(Clone, Copy, Debug, Default)]
struct ReadCost {
    /// In µs; 0 if it read nothing.
    us: f64,
    /// How much of the costs before is carried on at most, in µs.
    most_carried_us: f64,
    is_flash: bool,
}

/// How many times as long as the model says the reads of a launch from flash took, by the median: the drive was measured
/// at another time, and other programs and guests of the host share drive and processors. 1 if they were faster, or few.
fn dearer(passed_us: &[f64], costs: &[ReadCost]) -> f64 {
    // An access is recorded when its read begins.
    let reads = passed_us.iter().skip(1).zip(costs);
    let reads = reads.filter(|(_, cost)| cost.is_flash && cost.us > 0.0);
    let ratios: Vec<f64> = reads.map(|(passed_us, cost)| passed_us / cost.us).collect();
    match median(&ratios) {
        Some(ratio) if ratios.len() >= LEAST_READS => ratio.clamp(1.0, MOST_DEARER),
        _ => 1.0,
    }
}

/// A drive while a launch is recorded, on which no two reads are under way at once.
struct DriveOfLesson<'a> {
    model: &'a DriveModel,
    /// Where the heads are, in bytes.
    head: u64,
    at_hand: AddressesAtHand,
    /// What reads of a live launch have brought in, in pages of the disk.
    cached: RangeSet,
}

impl<'a> DriveOfLesson<'a> {
    fn new(model: &'a DriveModel) -> Self {
        DriveOfLesson {
            model,
            head: 0,
            at_hand: AddressesAtHand::default(),
            cached: RangeSet::default(),
        }
    }

    /// What the reads that an entry stands for cost by the model.
    fn read_cost(&mut self, entry: &LogEntry, learned: Learned) -> ReadCost {
        let (start, bytes) = (byte(entry.lba), entry.span.bytes());
        ReadCost {
            us: match learned {
                Learned::Exact => self.pages_us(start, entry.span.len),
                Learned::AsRead => self.request_us(start, bytes),
                Learned::Live => self.around_us(start / PAGE_SIZE, entry.span.len),
            },
            most_carried_us: self.most_carried_us(),
            is_flash: !self.model.has_heads(),
        }
    }

    /// What a touch of these pages of the disk costs, with what is read around them.
    fn around_us(&mut self, start: u64, pages: u64) -> f64 {
        let missing = self.cached.missing(&(start..start.saturating_add(pages)));
        let (Some(first), Some(last)) = (missing.first(), missing.last()) else {
            return 0.0;
        };
        let from = first.start.saturating_sub(AROUND);
        let to = last.end.max(first.start.saturating_add(AROUND));
        self.cached.insert(from..to);
        let bytes = (to - from).saturating_mul(PAGE_SIZE);
        self.request_us(from.saturating_mul(PAGE_SIZE), bytes)
    }

    /// Reads of single pages, one after the other.
    fn pages_us(&mut self, start: u64, pages: u64) -> f64 {
        let first_us = self.request_us(start, PAGE_SIZE);
        let others = pages.saturating_sub(1);
        let other_us = match self.model.has_heads() {
            true => self.model.request_cost_us(PAGE_SIZE, Some(0)),
            false => self.model.near_us(PAGE_SIZE),
        };
        let rest = others.saturating_mul(PAGE_SIZE);
        self.head = self.head.saturating_add(rest);
        let far_us = self.addresses_us(start.saturating_add(PAGE_SIZE), rest);
        first_us + others as f64 * other_us + far_us
    }

    /// One read, which the block layer cuts into requests.
    fn request_us(&mut self, start: u64, bytes: u64) -> f64 {
        let distance = way(self.head, start);
        self.head = start.saturating_add(bytes);
        match self.model.has_heads() {
            true => self.model.request_cost_us(bytes, Some(distance)),
            false => {
                let far_us = self.addresses_us(start, bytes);
                far_us + in_parts(self.model, bytes, |bytes| self.model.near_us(bytes))
            }
        }
    }

    /// What finding the addresses of a read costs, on flash.
    fn addresses_us(&mut self, start: u64, bytes: u64) -> f64 {
        if self.model.has_heads() || bytes == 0 || self.at_hand.read(start, bytes) {
            return 0.0;
        }
        self.model.far_us().0
    }

    /// How much of the costs of reads is carried on at most, in µs.
    fn most_carried_us(&self) -> f64 {
        let reads = match self.model.has_heads() {
            true => MOST_CARRIED,
            false => MOST_CARRIED_FLASH,
        };
        self.model.request_cost_us(PAGE_SIZE, None) * reads
    }
}

/// First byte of a sector.
pub(super) fn byte(sector: u64) -> u64 {
    sector.saturating_mul(super::SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DriveClass;
    use crate::schedule::generate::data;

    fn log(times: &[u64]) -> Vec<LogEntry> {
        let entry = |(index, &time_us): (usize, &u64)| LogEntry {
            time_us,
            ..data(0, index as u64 * 10, 1, index as u64 * 10)
        };
        times.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn a_cached_launch_tells_what_the_app_computes() {
        let models = [DriveModel::guess(DriveClass::NoCommandQueuing)];
        let launch = log(&[100, 300, 350]);
        let times = compute_times(&launch, &models, Learned::Live);
        assert_eq!(times, [100.0, 200.0, 50.0]);
    }

    #[test]
    fn a_cold_launch_that_was_learned_live_read_pages_around_those_it_touched() {
        let model = DriveModel::guess(DriveClass::Rotational);
        let seek_us = model.request_cost_us(2 * AROUND * PAGE_SIZE, Some(1 << 30));
        // Sixteen places far from each other. Of each, eight pages were touched at once, in no order.
        let pages = (0..128u64).map(|index| (index / 8, 28 + index % 8 * 3 % 8));
        let entries = pages.map(|(cluster, page)| LogEntry {
            time_us: ((cluster + u64::from(page > 28)) as f64 * seek_us) as u64,
            ..data(0, cluster << 20 | page, 1, (cluster << 20) + page)
        });
        let launch: Vec<LogEntry> = entries.collect();
        let times = compute_times(&launch, &[model], Learned::Live);
        assert!(times.iter().sum::<f64>() < seek_us * 2.0, "{times:?}");
    }

    #[test]
    fn reads_that_were_dearer_in_the_lesson_than_in_the_probe_are_no_computing() {
        let models = [DriveModel::guess(DriveClass::NoCommandQueuing)];
        let read = models[0].near_us(PAGE_SIZE);
        let launch = |dearer: f64| {
            log(&std::array::from_fn::<_, 100, _>(|n| {
                (n as f64 * read * dearer) as u64
            }))
        };
        let computed_us = |dearer| {
            compute_times(&launch(dearer), &models, Learned::Exact)
                .iter()
                .sum::<f64>()
        };
        assert!(computed_us(1.1) < read);
        assert!(computed_us(1.9) < read);
        // That is an app which computes.
        assert!(computed_us(4.0) > 100.0 * read);
    }

    #[test]
    fn reads_are_no_computing_and_what_is_left_of_one_counts_against_the_next_accesses() {
        let models = [DriveModel::guess(DriveClass::NoCommandQueuing)];
        let read = models[0].near_us(PAGE_SIZE);
        let us = |reads: f64| (reads * read) as u64;
        // A short read, a long one, and one with computing behind it.
        let launch = log(&[0, us(0.5), us(2.0), us(6.0)]);
        let computed_us = (6.0 - 3.0 * MARGIN_FLASH) * read;
        for learned in [Learned::AsRead, Learned::Exact] {
            let times = compute_times(&launch, &models, learned);
            assert_eq!(times[..3], [0.0; 3], "{learned:?}");
            assert!(
                (times[3] - computed_us).abs() < 2.0,
                "{learned:?} {times:?}"
            );
        }
    }
}
