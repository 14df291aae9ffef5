//! Watches available memory while a schedule is read ahead.

use crate::drive::{Memory, MemoryLimits};

/// Bytes of the schedule between two looks at memory: little beside any machine's memory, and enough to
/// make the cost of a look (some 50 µs) negligible.
const STRIDE: u64 = 8 << 20;

/// Checks memory before a schedule is read ahead, and every [`STRIDE`] bytes while it is.
pub struct Headroom<L> {
    look: L,
    limits: MemoryLimits,
    /// Bytes of the schedule that remain to be read.
    left: u64,
    /// Bytes until the next look.
    until_look: u64,
}

impl<L: FnMut() -> Memory> Headroom<L> {
    /// For a schedule of `bytes` bytes. `look` reads the state of memory.
    ///
    /// # Errors
    /// Why there is no room for it.
    pub fn new(bytes: u64, limits: MemoryLimits, mut look: L) -> Result<Self, String> {
        let refused = look().refuses(bytes, &limits);
        refused.map_or(Ok(()), Err)?;
        Ok(Headroom {
            look,
            limits,
            left: bytes,
            until_look: STRIDE,
        })
    }

    /// Counts `bytes` as read ahead. Returns a reason to stop if memory has become short.
    pub fn read(&mut self, bytes: u64) -> Option<String> {
        self.left = self.left.saturating_sub(bytes);
        self.until_look = self.until_look.saturating_sub(bytes);
        if self.until_look > 0 || self.left == 0 {
            return None;
        }
        self.until_look = STRIDE;
        (self.look)().refuses(self.left, &self.limits)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn memory(available: u64, pressure: f64) -> Memory {
        Memory {
            available: Some(available),
            pressure: Some(pressure),
        }
    }

    #[test]
    fn a_schedule_without_room_is_refused() {
        let limits = MemoryLimits::default();
        for (available, pressure, is_room) in [
            (4 * GIB, 0.0, true),
            (GIB, 0.0, false),
            (4 * GIB, 50.0, false),
        ] {
            let headroom = Headroom::new(GIB, limits, || memory(available, pressure));
            assert_eq!(headroom.is_ok(), is_room);
        }
    }

    #[test]
    fn a_memory_shortage_is_noticed_within_a_stride() {
        for short in [memory(100 * MIB, 0.0), memory(4 * GIB, 50.0)] {
            let (now, looks) = (Cell::new(memory(4 * GIB, 0.0)), Cell::new(0));
            let look = || {
                looks.set(looks.get() + 1);
                now.get()
            };
            let mut headroom = Headroom::new(GIB, MemoryLimits::default(), look).unwrap();
            for _ in 0..64 {
                assert_eq!(headroom.read(MIB), None);
            }
            assert_eq!(looks.get(), 1 + 64 * MIB / STRIDE);
            now.set(short);
            let more = (1..).find(|_| headroom.read(MIB).is_some()).unwrap();
            assert!(more * MIB <= STRIDE, "noticed after {more} MiB");
        }
    }

    #[test]
    fn only_the_rest_of_the_schedule_needs_room() {
        let now = Cell::new(memory(200 * MIB, 0.0));
        let look = || now.get();
        let mut headroom = Headroom::new(100 * MIB, MemoryLimits::default(), look).unwrap();
        for read in 1..=100 {
            // Pages that were read reduce the available memory.
            now.set(memory((200 - read) * MIB, 0.0));
            assert_eq!(headroom.read(MIB), None, "after {read} MiB");
        }
    }
}
