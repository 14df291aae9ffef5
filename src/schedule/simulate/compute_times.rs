//! How long an app computes before each of its accesses, from the recorded times.
//!
//! A launch that was recorded with everything cached tells that directly. One that was recorded cold waited for the
//! drive, too: what a read may have taken is subtracted from the time that passed. Single reads take more or less
//! than the model says, so that what is left of a read's cost counts against the next accesses.

use super::addresses::AddressesAtHand;
use super::drive_queue::{in_parts, way};
use crate::model::{DriveModel, Learned, LogEntry, PAGE_SIZE};

/// A live launch that took less than this share of what its reads cost one by one had most of them cached.
const MOSTLY_CACHED: f64 = 0.5;

/// Reads of a launch count as so much dearer than the model says. A launch from a slow drive consists of reads, and
/// where single ones take up to twice their mean, as on a disk, the rest would look like computing: of an exact
/// learning run of 67 s, 4 s instead of the 0.2 s that the app computes.
const MARGIN: f64 = 1.3;

/// Most reads, at random positions, whose cost is carried on, on a disk with heads: single ones take from nothing to twice
/// their mean.
const MOST_CARRIED: f64 = 32.0;

/// The same on flash, where reads are alike. With as many as on a disk, what apps compute disappeared in it: of ten
/// apps on an emulated eMMC, Chromium was found to compute for 0.04 s, where a warm launch takes 0.48 s.
const MOST_CARRIED_FLASH: f64 = 2.0;

/// The time that the app computes before each access, in µs.
pub(super) fn compute_times(log: &[LogEntry], models: &[DriveModel], learned: Learned) -> Vec<f64> {
    let costs = read_costs(log, models, learned == Learned::Exact);
    let mut before = 0;
    let passed = log.iter().map(|entry| {
        let time = entry.time_us.max(before);
        (time - std::mem::replace(&mut before, time)) as f64
    });
    let launch_us = log.iter().map(|entry| entry.time_us).max().unwrap_or(0) as f64;
    let reads_us: f64 = costs.iter().map(|(cost, _)| cost).sum();
    if learned == Learned::Live && launch_us < reads_us * MOSTLY_CACHED {
        return passed.collect();
    }
    // An access is recorded when its read begins.
    let mut left_us: f64 = 0.0;
    passed
        .zip(&costs)
        .map(|(passed_us, &(cost_us, most_us))| {
            let waited_us = left_us.min(passed_us);
            left_us = (left_us - waited_us).min(most_us) + cost_us * MARGIN;
            passed_us - waited_us
        })
        .collect()
}

/// What the read of each entry costs if none other is under way, and how much of such costs is carried on at most, in µs.
/// `by_page`: each page was read by itself.
fn read_costs(log: &[LogEntry], models: &[DriveModel], by_page: bool) -> Vec<(f64, f64)> {
    let mut heads = vec![0; models.len()];
    let mut at_hand = vec![AddressesAtHand::default(); models.len()];
    log.iter()
        .map(|entry| {
            let device = usize::from(entry.device);
            let (Some(model), Some(head)) = (models.get(device), heads.get_mut(device)) else {
                return (0.0, 0.0);
            };
            let most = match model.has_heads() {
                true => MOST_CARRIED,
                false => MOST_CARRIED_FLASH,
            };
            let most_us = model.request_cost_us(PAGE_SIZE, None) * most;
            if !model.has_heads() {
                let (start, bytes) = (byte(entry.lba), entry.span.bytes());
                let far_us = match at_hand[device].read(start, bytes) {
                    true => 0.0,
                    false => model.far_us().0,
                };
                let near_us = match by_page {
                    false => in_parts(bytes, |bytes| model.near_us(bytes)),
                    true => entry.span.len as f64 * model.near_us(PAGE_SIZE),
                };
                return (far_us + near_us, most_us);
            }
            let distance = Some(way(*head, byte(entry.lba)));
            *head = byte(entry.lba_end());
            let cost_us = match by_page {
                false => model.request_cost_us(entry.span.bytes(), distance),
                true => {
                    let others = (entry.span.len - 1) as f64;
                    model.request_cost_us(PAGE_SIZE, distance)
                        + others * model.request_cost_us(PAGE_SIZE, Some(0))
                }
            };
            (cost_us, most_us)
        })
        .collect()
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
    fn reads_are_no_computing_and_what_is_left_of_one_counts_against_the_next_accesses() {
        let models = [DriveModel::guess(DriveClass::NoCommandQueuing)];
        let read = models[0].near_us(PAGE_SIZE);
        let us = |reads: f64| (reads * read) as u64;
        // A short read, a long one, and one with computing behind it.
        let launch = log(&[0, us(0.5), us(2.0), us(6.0)]);
        let computed_us = (6.0 - 3.0 * MARGIN) * read;
        for learned in [Learned::AsRead, Learned::Exact, Learned::Live] {
            let times = compute_times(&launch, &models, learned);
            assert_eq!(times[..3], [0.0; 3], "{learned:?}");
            assert!(
                (times[3] - computed_us).abs() < 2.0,
                "{learned:?} {times:?}"
            );
        }
    }
}
