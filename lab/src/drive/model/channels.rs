//! The channels of a flash drive: each does one thing at a time, in the order in which it is asked.

/// When each channel is free, in ns.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    /// When the last thing that the channel was given ends.
    free: Vec<u64>,
    /// Whose turn it is to program a page.
    turn: usize,
}

impl Channels {
    /// `count` channels, all of them free.
    pub(super) fn new(count: usize) -> Channels {
        Channels {
            free: vec![0; count],
            turn: 0,
        }
    }

    /// Has a channel read for `duration` from `from` on, and returns the end.
    pub(super) fn read(&mut self, channel: usize, from: u64, duration: u64) -> u64 {
        self.work(channel, from, duration)
    }

    /// Has the channel whose turn it is program for `duration` from `from` on, and returns the end.
    pub(super) fn program(&mut self, from: u64, duration: u64) -> u64 {
        let channel = self.turn;
        self.turn = (self.turn + 1) % self.free.len();
        self.work(channel, from, duration)
    }

    fn work(&mut self, channel: usize, from: u64, duration: u64) -> u64 {
        let end = from.max(self.free[channel]) + duration;
        self.free[channel] = end;
        end
    }

    /// Keeps all channels busy until `until` with what is not for the host.
    pub(super) fn occupy(&mut self, until: u64) {
        for free in &mut self.free {
            *free = until.max(*free);
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.free.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_for_programs_of_their_channel() {
        let mut channels = Channels::new(2);
        assert_eq!(channels.program(0, 1000), 1000);
        assert_eq!(channels.read(0, 10, 100), 1100);
        assert_eq!(channels.read(1, 10, 100), 110);
    }
}
