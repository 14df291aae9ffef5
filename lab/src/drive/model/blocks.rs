//! Which blocks of flash hold data, and what it costs to have an erased one.
//!
//! What is written goes to the end of the open block, wherever its address is, and what was there before
//! is no longer live. When the open block is full and no erased one is left but the reserve, the block with
//! the least live data is collected: its data move to the reserve, which becomes the open block, and it is
//! erased and becomes the reserve. So a drive that is overwritten in sequence moves nothing; one that is
//! full and overwritten at random moves much. Since there are three spare blocks at least, the block that
//! is collected is never full, and the cost of a page is bounded.
//!
//! This tells what collecting costs, not where data lie: reads find them by their address.

use super::units::micros;
use crate::drive::profile;

/// Bytes of which each lies in one block: what a file system writes at least.
const UNIT: u64 = 4096;

/// No block, or no unit.
const NONE: u32 = u32::MAX;

/// Spare blocks at least: the open one, the reserve, and one for what is no longer live.
const LEAST_SPARE: u64 = 3;

#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// The block that holds each unit of the drive.
    place: Vec<u32>,
    /// What was written to each block, in order, and whether it is the open one or erased.
    blocks: Vec<Block>,
    /// Erased blocks.
    erased: Vec<u32>,
    open: u32,
    units_per_block: u32,
    channels: u32,
    erase: u64,
    /// Reading and programming a page that is moved, in ns.
    move_page: u64,
    /// What a page that is programmed in the open block costs besides, in ns.
    surcharge: u64,
    /// Channels that have yet to erase their part of the block that was collected last.
    erasures: u32,
}

#[derive(Clone, Debug, Default)]
struct Block {
    units: Vec<u32>,
    live: u32,
    /// Units taken, padding included.
    taken: u32,
}

impl Blocks {
    /// The blocks of an empty drive of `capacity` bytes. `move_page` is the time to read a page and to
    /// program it, in ns.
    pub(super) fn new(
        blocks: &profile::Blocks,
        channels: u32,
        capacity: u64,
        move_page: u64,
    ) -> Blocks {
        let units = capacity.div_ceil(UNIT);
        let needed = capacity.div_ceil(blocks.bytes);
        let spare = (needed as f64 * blocks.spare_percent / 100.0).ceil() as u64;
        let count = needed + spare.max(LEAST_SPARE);
        Blocks {
            place: vec![NONE; units as usize],
            blocks: vec![Block::default(); count as usize],
            erased: (1..count as u32).rev().collect(),
            open: 0,
            units_per_block: (blocks.bytes / UNIT).max(1) as u32,
            channels,
            erase: micros(blocks.erase_us),
            move_page,
            surcharge: 0,
            erasures: 0,
        }
    }

    /// Notes that `length` bytes at `offset` are written. What is there already is no longer live.
    pub(super) fn write(&mut self, offset: u64, length: u64) {
        for unit in self.units(offset, length.max(1), true) {
            self.forget(unit);
            self.append(unit);
        }
    }

    /// Notes that the page that was begun is programmed as it is: the rest of its `page_bytes` is lost.
    pub(super) fn end_page(&mut self, page_bytes: u64) {
        let units = (page_bytes / UNIT).max(1) as u32;
        let open = &mut self.blocks[self.open as usize];
        open.taken = open.taken.next_multiple_of(units).min(self.units_per_block);
    }

    /// Notes that `length` bytes at `offset` are not needed any more.
    pub(super) fn discard(&mut self, offset: u64, length: u64) {
        for unit in self.units(offset, length, false) {
            self.forget(unit);
        }
    }

    /// The time in ns that a channel spends on erasing and collecting with the next page that it programs.
    pub(super) fn cost(&mut self) -> u64 {
        let erase = if self.erasures > 0 { self.erase } else { 0 };
        self.erasures = self.erasures.saturating_sub(1);
        self.surcharge + erase
    }

    /// The units that bytes touch, or those that they cover.
    fn units(&self, offset: u64, length: u64, touched: bool) -> std::ops::Range<usize> {
        let end = offset.saturating_add(length);
        let (first, end) = match touched {
            true => (offset / UNIT, end.div_ceil(UNIT)),
            false => (offset.div_ceil(UNIT), end / UNIT),
        };
        let all = self.place.len();
        let first = (first as usize).min(all);
        first..(end as usize).clamp(first, all)
    }

    fn forget(&mut self, unit: usize) {
        let block = std::mem::replace(&mut self.place[unit], NONE);
        if let Some(block) = self.blocks.get_mut(block as usize) {
            block.live -= 1;
        }
    }

    fn append(&mut self, unit: usize) {
        if self.blocks[self.open as usize].taken >= self.units_per_block {
            self.open_next();
        }
        self.put(unit as u32);
    }

    /// Puts a unit at the end of the open block.
    fn put(&mut self, unit: u32) {
        let open = &mut self.blocks[self.open as usize];
        open.units.push(unit);
        open.live += 1;
        open.taken += 1;
        self.place[unit as usize] = self.open;
    }

    /// Opens an erased block, or collects one.
    fn open_next(&mut self) {
        self.surcharge = 0;
        let Some(next) = self.erased.pop() else {
            return;
        };
        self.open = next;
        if !self.erased.is_empty() {
            return;
        }
        let Some(victim) = self.least_live() else {
            return;
        };
        let units = std::mem::take(&mut self.blocks[victim as usize]).units;
        for unit in units {
            if self.place[unit as usize] == victim {
                self.put(unit);
            }
        }
        self.erased.push(victim);
        self.erasures = self.channels;
        let moved = self.blocks[next as usize].taken;
        let left = self.units_per_block.saturating_sub(moved).max(1);
        self.surcharge = self.move_page * u64::from(moved) / u64::from(left);
    }

    /// The block with the least live data of those that are neither open nor erased.
    fn least_live(&self) -> Option<u32> {
        let written = |block: &u32| *block != self.open && self.blocks[*block as usize].taken > 0;
        (0..self.blocks.len() as u32)
            .filter(written)
            .min_by_key(|block| self.blocks[*block as usize].live)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: u64 = 16 * UNIT;
    const CAPACITY: u64 = 20 * BLOCK;

    fn blocks() -> Blocks {
        let profile = profile::Blocks {
            bytes: BLOCK,
            erase_us: 3.0,
            spare_percent: 7.0,
        };
        Blocks::new(&profile, 2, CAPACITY, 1000)
    }

    impl Blocks {
        fn check(&self) {
            let mapped = self.place.iter().filter(|place| **place != NONE).count();
            let live: u32 = self.blocks.iter().map(|block| block.live).sum();
            assert_eq!(mapped, live as usize);
            for block in &self.blocks {
                assert!(block.live <= block.taken && block.taken <= self.units_per_block);
                assert!(block.units.len() <= block.taken as usize);
            }
            assert!(!self.erased.is_empty(), "there is always a reserve");
            for erased in &self.erased {
                assert_eq!(self.blocks[*erased as usize].taken, 0);
            }
        }
    }

    #[test]
    fn an_overwrite_in_sequence_erases_and_moves_nothing() {
        let mut blocks = blocks();
        let mut cost = 0;
        for round in 0..3 {
            for offset in (0..CAPACITY).step_by(BLOCK as usize) {
                blocks.write(offset, BLOCK);
                cost += blocks.cost() + blocks.cost() + blocks.cost();
                blocks.check();
            }
            // Twenty blocks and three spare ones: in the first round nothing is to be erased.
            assert_eq!(cost > 0, round > 0, "{cost} after round {round}");
        }
        // From the 23rd block on, each costs an erasure on both channels.
        assert_eq!(cost, (60 - 22) * 2 * 3000);
    }

    #[test]
    fn random_overwrites_of_a_full_drive_move_what_is_live() {
        let mut blocks = blocks();
        blocks.write(0, CAPACITY);
        let mut state = 1_u64;
        let mut surcharges = 0;
        for _ in 0..5000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            blocks.write((state >> 33) % (CAPACITY / UNIT) * UNIT, UNIT);
            surcharges += blocks.surcharge;
        }
        blocks.check();
        // 20 of 23 blocks are live, and one of these is the reserve: of a full block 20/22 at most, and
        // the best one is emptier. Each page then moves up to ten.
        let each = surcharges / 5000;
        assert!((1000..10_000).contains(&each), "{each}");
    }

    #[test]
    fn what_is_discarded_need_not_be_moved() {
        let mut blocks = blocks();
        blocks.write(0, CAPACITY);
        blocks.discard(0, CAPACITY);
        blocks.check();
        for offset in (0..CAPACITY).step_by(UNIT as usize * 3) {
            blocks.write(offset, UNIT);
            assert_eq!(blocks.surcharge, 0);
        }
        blocks.check();
        // A unit that is discarded in part only stays.
        blocks.write(0, UNIT);
        let open = blocks.open;
        blocks.discard(1, UNIT);
        assert_eq!(blocks.place[0], open);
    }

    proptest! {
        #[test]
        fn books_balance(writes in prop::collection::vec(
            (0..CAPACITY, 0..3 * BLOCK, 0..4_u8), 1..200,
        )) {
            let mut blocks = blocks();
            for (offset, length, what) in writes {
                match what {
                    0 => blocks.discard(offset, length),
                    1 => {
                        blocks.write(offset, length);
                        blocks.end_page(4 * UNIT);
                    }
                    _ => blocks.write(offset, length),
                }
                blocks.cost();
                blocks.check();
                // The collected block is never full.
                prop_assert!(blocks.surcharge <= 1000 * 15);
            }
        }
    }
}
