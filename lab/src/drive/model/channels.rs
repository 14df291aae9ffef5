//! The channels of a flash drive: each does one thing at a time, in the order in which it is asked.

/// When each channel is free, in ns.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    /// When the last thing that the channel was given ends.
    free: Vec<u64>,
    /// When the last of its reads ends; kept if reads interrupt programs.
    reads: Vec<u64>,
    /// What it takes to interrupt a program, if a read does.
    suspend: Option<u64>,
    /// Whose turn it is to program a page.
    turn: usize,
}

impl Channels {
    /// So many free ones. `suspend` is the time in ns in which a read interrupts a program.
    pub(super) fn new(count: usize, suspend: Option<u64>) -> Channels {
        Channels {
            free: vec![0; count],
            reads: vec![0; count],
            suspend,
            turn: 0,
        }
    }

    /// Has a channel read for `duration` from `from` on, and returns the end.
    pub(super) fn read(&mut self, channel: usize, from: u64, duration: u64) -> u64 {
        let free = self.free[channel];
        let Some(suspend) = self.suspend else {
            let end = from.max(free) + duration;
            self.free[channel] = end;
            return end;
        };
        let start = from.max(self.reads[channel]);
        let interrupts = free > start;
        let end = start + duration + if interrupts { suspend } else { 0 };
        // What is interrupted ends as much later. Who waits for it was told the earlier time.
        self.free[channel] = if interrupts {
            free + (end - start)
        } else {
            end
        };
        self.reads[channel] = end;
        end
    }

    /// Has the channel whose turn it is program for `duration` from `from` on, and returns the end.
    pub(super) fn program(&mut self, from: u64, duration: u64) -> u64 {
        let channel = self.turn;
        self.turn = (self.turn + 1) % self.free.len();
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
    fn reads_wait_for_programs_unless_they_interrupt_them() {
        let mut channels = Channels::new(2, None);
        assert_eq!(channels.program(0, 1000), 1000);
        assert_eq!(channels.read(0, 10, 100), 1100);
        assert_eq!(channels.read(1, 10, 100), 110);

        let mut channels = Channels::new(1, Some(5));
        assert_eq!(channels.program(0, 1000), 1000);
        assert_eq!(channels.read(0, 10, 100), 115, "5 to interrupt");
        assert_eq!(
            channels.read(0, 20, 100),
            220,
            "again, after the first read"
        );
        assert_eq!(
            channels.program(0, 1000),
            2210,
            "the first one ends 210 later"
        );
        let mut channels = Channels::new(1, Some(5));
        assert_eq!(channels.read(0, 10, 100), 110, "nothing to interrupt");
        assert_eq!(channels.read(0, 20, 100), 210);
    }
}
