//! A resource that does one thing at a time, with gaps that later comers may fill.

/// When a resource is busy, from the past that still matters into the future.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// Disjoint, in order, never touching; `(start, end)` in ns.
    busy: Vec<(u64, u64)>,
}

impl Timeline {
    /// Takes the first gap of `duration` at or after `ready`, and returns its end. All in ns.
    pub(super) fn reserve(&mut self, ready: u64, duration: u64) -> u64 {
        let mut index = self.busy.partition_point(|&(_, end)| end <= ready);
        let mut start = ready;
        while let Some(&(next, end)) = self.busy.get(index) {
            if start + duration <= next {
                break;
            }
            start = end;
            index += 1;
        }
        let end = start + duration;
        self.insert(index, start, end);
        end
    }

    /// Forgets intervals that ended at or before `before`: no later request can start that early.
    pub(super) fn forget(&mut self, before: u64) {
        let gone = self.busy.partition_point(|&(_, end)| end <= before);
        self.busy.drain(..gone);
    }

    /// Inserts a free interval at `index`, joined to its neighbours where they touch.
    fn insert(&mut self, index: usize, start: u64, end: u64) {
        let touches_next = self.busy.get(index).is_some_and(|next| next.0 == end);
        let touches_last = index > 0 && self.busy[index - 1].1 == start;
        match (touches_last, touches_next) {
            (true, true) => {
                self.busy[index - 1].1 = self.busy[index].1;
                self.busy.remove(index);
            }
            (true, false) => self.busy[index - 1].1 = end,
            (false, true) => self.busy[index].0 = start,
            (false, false) => self.busy.insert(index, (start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn later_comers_fill_gaps() {
        let mut line = Timeline::default();
        assert_eq!(line.reserve(100, 10), 110);
        assert_eq!(line.reserve(0, 50), 50);
        assert_eq!(line.reserve(0, 60), 170);
        assert_eq!(line.reserve(0, 50), 100);
        assert_eq!(line.busy, [(0, 170)]);
        line.forget(170);
        assert_eq!(line.busy, []);
    }

    proptest! {
        #[test]
        fn nothing_overlaps(requests in prop::collection::vec((0..500_u64, 1..40_u64), 1..60)) {
            let mut line = Timeline::default();
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (ready, duration) in requests {
                let end = line.reserve(ready, duration);
                let start = end - duration;
                prop_assert!(start >= ready);
                prop_assert!(taken.iter().all(|&(from, to)| end <= from || to <= start));
                taken.push((start, end));
                prop_assert!(line.busy.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
