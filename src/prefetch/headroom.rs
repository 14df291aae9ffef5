//! Whether there is still memory to prefetch into, while it is being filled.

use crate::drive::{Memory, MemoryLimits};

/// Bytes of the schedule from one look at memory to the next: small beside any machine's memory, and so
/// much that looking (some 50 µs) costs nothing beside the reading.
const STRIDE: u64 = 8 << 20;

/// Looks at memory before a schedule is read ahead, and again and again while it is.
pub struct Headroom<L> {
    look: L,
    limits: MemoryLimits,
    /// Bytes of the schedule that are yet to be read.
    left: u64,
    /// Bytes until the next look.
    until_look: u64,
}

impl<L: FnMut() -> Memory> Headroom<L> {
    /// For a schedule of so many bytes. `look` reads the state of memory.
    ///
    /// # Errors
    /// Why there is no room for it.
    pub fn new(bytes: u64, limits: MemoryLimits, mut look: L) -> Result<Self, String> {
        match look().refuses(bytes, &limits) {
            Some(why) => Err(why),
            None => Ok(Headroom {
                look,
                limits,
                left: bytes,
                until_look: STRIDE,
            }),
        }
    }

    /// So many bytes were read ahead. Says why the rest is not to be, if memory has become short.
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
    fn what_has_no_room_is_not_begun() {
        let limits = MemoryLimits::default();
        assert!(Headroom::new(GIB, limits, || memory(4 * GIB, 0.0)).is_ok());
        assert!(Headroom::new(GIB, limits, || memory(GIB, 0.0)).is_err());
        assert!(Headroom::new(GIB, limits, || memory(4 * GIB, 50.0)).is_err());
    }

    #[test]
    fn it_stops_in_the_middle_when_memory_becomes_short() {
        for short in [memory(100 * MIB, 0.0), memory(4 * GIB, 50.0)] {
            let now = Cell::new(memory(4 * GIB, 0.0));
            let look = || now.get();
            let mut headroom = Headroom::new(GIB, MemoryLimits::default(), look).unwrap();
            for _ in 0..64 {
                assert_eq!(headroom.read(MIB), None);
            }
            now.set(short);
            let more = (1..).find(|_| headroom.read(MIB).is_some()).unwrap();
            assert!(more * MIB <= STRIDE, "noticed after {more} MiB");
        }
    }

    #[test]
    fn only_what_is_yet_to_be_read_needs_room() {
        let now = Cell::new(memory(200 * MIB, 0.0));
        let look = || now.get();
        let mut headroom = Headroom::new(100 * MIB, MemoryLimits::default(), look).unwrap();
        for read in 1..=100 {
            // All that is read is taken from what was available.
            now.set(memory((200 - read) * MIB, 0.0));
            assert_eq!(headroom.read(MIB), None, "after {read} MiB");
        }
    }

    #[test]
    fn looking_is_rare() {
        let looks = Cell::new(0u64);
        let look = || {
            looks.set(looks.get() + 1);
            memory(4 * GIB, 0.0)
        };
        let mut headroom = Headroom::new(GIB, MemoryLimits::default(), look).unwrap();
        for _ in 0..GIB / 4096 {
            assert_eq!(headroom.read(4096), None);
        }
        assert_eq!(looks.get(), GIB / STRIDE);
    }
}
