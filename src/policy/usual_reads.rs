//! What an app's launches usually have to read.
//!
//! Other programs that run all the time, as those of a desktop, keep libraries in memory that the app uses too: of the schedules
//! of two in ten desktop apps, half was never read, whatever was dropped from the caches. Whether a launch was cold goes by what
//! others of its app read, since launches are compared with each other.

use serde::{Deserialize, Serialize};

/// Launches that are remembered: more than a user starts an app anew between two boots, mostly.
const MOST: usize = 16;

/// What the app's last prefetched launches read, in bytes, oldest first; without warm ones. Other launches also read
/// what the schedule leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsualReads(Vec<u64>);

impl UsualReads {
    /// A prefetched launch that was not warm has read so much.
    pub fn read(&mut self, bytes: u64) {
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(bytes);
    }

    /// The most of them; 0 before the first.
    pub fn most(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_launches_read_at_most_is_usual() {
        let mut reads = UsualReads::default();
        assert_eq!(reads.most(), 0);
        reads.read(100);
        reads.read(20);
        assert_eq!(reads.most(), 100);
        for _ in 0..MOST {
            reads.read(20);
        }
        assert_eq!(reads.most(), 20, "the first one is long ago");
        assert_eq!(reads.0.len(), MOST);
    }
}
