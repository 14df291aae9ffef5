//! Which addresses a drive has at hand.

use std::collections::VecDeque;

use crate::model::NearCost;

/// Bytes whose addresses come together.
const AREA: u64 = NearCost::AREA;

/// Areas that a drive has at hand, those that were read last. Small controllers have room for a few, and many drives for
/// all that a launch comes to; how many it is was not measured.
const AT_HAND: usize = 16;

/// The areas that a drive has at hand, the one read last at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressesAtHand(VecDeque<u64>);

impl AddressesAtHand {
    /// A read of these bytes. Says whether the drive had the addresses of all of them.
    pub fn read(&mut self, start: u64, bytes: u64) -> bool {
        let last = start.saturating_add(bytes.max(1) - 1);
        let mut had_all = true;
        for area in start / AREA..=last / AREA {
            match self.0.iter().position(|&held| held == area) {
                Some(index) => drop(self.0.remove(index)),
                None => had_all = false,
            }
            self.0.push_back(area);
            if self.0.len() > AT_HAND {
                self.0.pop_front();
            }
        }
        had_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_last_is_at_hand() {
        let mut at_hand = AddressesAtHand::default();
        assert!(!at_hand.read(0, 4096));
        assert!(at_hand.read(AREA - 4096, 4096));
        assert!(!at_hand.read(AREA - 4096, 8192), "half of it is behind");
        assert!(at_hand.read(AREA - 4096, 8192));
        for area in 2..AT_HAND as u64 {
            assert!(!at_hand.read(area * AREA, 4096));
        }
        assert!(at_hand.read(0, 4096));
        assert!(!at_hand.read(100 * AREA, 4096));
        assert!(!at_hand.read(AREA, 4096), "it was read longest ago");
        assert!(at_hand.read(0, 0));
    }
}
