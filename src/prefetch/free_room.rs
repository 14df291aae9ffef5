//! How much may be read ahead before a launch: only into memory that is free, and only while nobody else reads.

use crate::drive::VmCounters;

/// Bytes read between two looks at memory and at others' reads.
const STRIDE: u64 = 1 << 20;

/// Share of the whole memory that stays free. The kernel begins to evict pages long after that.
const RESERVE_SHARE: u64 = 16;
const LEAST_RESERVE: u64 = 64 << 20;

/// What others may read meanwhile, in bytes, beside as much as is read ahead: where an image lies in a file, each read
/// has the drive below make another.
const OTHERS_READS: u64 = 4 << 20;

const UNKNOWN: &str = "the kernel does not tell how much memory is free";

/// Why no more is to be read ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// As much was read as may be, or memory is not free any more.
    Full(String),
    /// Others use drives.
    Disturbed(String),
}

/// Watches the system while a schedule is read ahead before a launch.
pub struct FreeRoom<L> {
    look: L,
    begun: VmCounters,
    /// Bytes that must stay free.
    reserve: u64,
    /// Bytes that may be read.
    budget: u64,
    /// Bytes that were read at the last look.
    looked_at: u64,
}

impl<L: FnMut() -> Option<VmCounters>> FreeRoom<L> {
    /// Room for `budget` bytes in a memory of `total` bytes. `look` reads the system's counters.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(budget: u64, total: u64, mut look: L) -> Result<Self, String> {
        let begun = look().ok_or(UNKNOWN)?;
        let room = FreeRoom {
            look,
            begun,
            reserve: (total / RESERVE_SHARE).max(LEAST_RESERVE),
            budget,
            looked_at: 0,
        };
        match room.judge(begun, 0) {
            None => Ok(room),
            Some(NoRoom::Full(why) | NoRoom::Disturbed(why)) => Err(why),
        }
    }

    /// Takes how many bytes the drive has read ahead so far. Returns a reason to stop if there is one.
    pub fn read(&mut self, own_bytes: u64) -> Option<NoRoom> {
        if own_bytes < self.looked_at + STRIDE && own_bytes < self.budget {
            return None;
        }
        self.looked_at = own_bytes;
        match (self.look)() {
            Some(now) => self.judge(now, own_bytes),
            None => Some(NoRoom::Full(UNKNOWN.to_owned())),
        }
    }

    fn judge(&self, now: VmCounters, own_bytes: u64) -> Option<NoRoom> {
        if own_bytes >= self.budget {
            return Some(NoRoom::Full("the budget is used up".to_owned()));
        }
        if now.free_bytes < self.reserve + STRIDE {
            return Some(NoRoom::Full(format!(
                "{} MiB of memory are free, and {} stay so",
                now.free_bytes >> 20,
                self.reserve >> 20
            )));
        }
        if now.scanned_pages != self.begun.scanned_pages {
            return Some(NoRoom::Full("the kernel gives pages up".to_owned()));
        }
        let all = now.read_bytes.saturating_sub(self.begun.read_bytes);
        let others = all.saturating_sub(own_bytes);
        (others > own_bytes.saturating_add(OTHERS_READS))
            .then(|| NoRoom::Disturbed(format!("others read {} MiB meanwhile", others >> 20)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn counters(free_bytes: u64, scanned_pages: u64, read_bytes: u64) -> VmCounters {
        VmCounters {
            free_bytes,
            scanned_pages,
            read_bytes,
        }
    }

    /// Reads `read` bytes of a budget of 100 MiB, with these counters at the start and from then on.
    fn after(begun: VmCounters, now: VmCounters, read: u64) -> Option<NoRoom> {
        let seen = Cell::new(begun);
        let mut room = FreeRoom::new(100 * MIB, 4 * GIB, || Some(seen.get())).unwrap();
        seen.set(now);
        room.read(read)
    }

    #[test]
    fn reading_goes_on_while_memory_is_free_and_nobody_else_reads() {
        let begun = counters(2 * GIB, 7, GIB);
        let is_full = |end: &Option<NoRoom>| matches!(end, Some(NoRoom::Full(_)));
        for (now, read, expected) in [
            (counters(GIB, 7, GIB + 50 * MIB), 50 * MIB, false),
            (counters(GIB, 7, GIB + 100 * MIB), 100 * MIB, true),
            (counters(256 * MIB, 7, GIB + 50 * MIB), 50 * MIB, true),
            (counters(GIB, 8, GIB + 50 * MIB), 50 * MIB, true),
        ] {
            assert_eq!(is_full(&after(begun, now, read)), expected, "{now:?}");
        }
        // An image in a file: each read is one of the drive below, too.
        assert_eq!(
            after(begun, counters(GIB, 7, GIB + 20 * MIB), 10 * MIB),
            None
        );
        let disturbed = after(begun, counters(GIB, 7, GIB + 25 * MIB), 10 * MIB);
        assert!(
            matches!(disturbed, Some(NoRoom::Disturbed(_))),
            "{disturbed:?}"
        );
    }

    #[test]
    fn reading_ends_when_nothing_is_known_any_more() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            (looks == 1).then(|| counters(2 * GIB, 0, 0))
        };
        let mut room = FreeRoom::new(GIB, 4 * GIB, look).unwrap();
        assert_eq!(room.read(STRIDE - 1), None);
        assert!(matches!(room.read(STRIDE), Some(NoRoom::Full(_))));
    }

    #[test]
    fn the_system_is_looked_at_after_each_stride() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            Some(counters(2 * GIB, 0, 0))
        };
        let mut room = FreeRoom::new(GIB, 4 * GIB, look).unwrap();
        for read in 0..=16 * 4 {
            assert_eq!(room.read(read * MIB / 4), None);
        }
        assert_eq!(looks.get(), 1 + 16);
    }

    #[test]
    fn there_is_no_room_where_little_is_free_or_nothing_is_known() {
        assert!(FreeRoom::new(GIB, GIB, || Some(counters(64 * MIB, 0, 0))).is_err());
        assert!(FreeRoom::new(GIB, GIB, || None).is_err());
        assert!(FreeRoom::new(0, GIB, || Some(counters(GIB, 0, 0))).is_err());
        assert!(FreeRoom::new(GIB, GIB, || Some(counters(66 * MIB, 0, 0))).is_ok());
    }
}
