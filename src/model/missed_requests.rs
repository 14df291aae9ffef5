//! What prefetched launches read themselves because their profile lacks it, by what learning could do about it.

use serde::{Deserialize, Serialize};

/// Whether learning another launch would bring a read that the profile lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissKind {
    /// Learning would bring the read: an earlier launch has read the same itself, or nobody keeps a record of that.
    Recurring,
    /// Learning would bring the read: the profile does not know the drive, and what is read from there joins it by
    /// learning alone.
    OtherDrive,
    /// Probably not: no earlier launch has read it itself. Another document, a cache that has just expired.
    Once,
    /// No: the launch has written the file, or it is gone. Such files are not learned.
    Written,
    /// No: metadata of a device that cannot be read, or a file system from which nothing is learned.
    Unreadable,
}

/// Read requests of one launch for what its profile lacks, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissedRequests {
    /// [`MissKind::Recurring`].
    pub recurring: u64,
    /// [`MissKind::OtherDrive`].
    pub other_drive: u64,
    /// [`MissKind::Once`].
    pub once: u64,
    /// [`MissKind::Written`].
    pub written: u64,
    /// [`MissKind::Unreadable`].
    pub unreadable: u64,
}

impl MissedRequests {
    /// Requests of these kinds.
    pub fn of(kinds: impl IntoIterator<Item = MissKind>) -> Self {
        let mut counted = MissedRequests::default();
        for kind in kinds {
            *counted.count_of(kind) += 1;
        }
        counted
    }

    /// An estimate for `all` requests of a launch, where these are the kinds of `known` of them; 0 counts as 1.
    pub fn in_proportion(mut self, all: u64, known: u64) -> Self {
        let counts = [
            &mut self.recurring,
            &mut self.other_drive,
            &mut self.once,
            &mut self.written,
            &mut self.unreadable,
        ];
        for count in counts {
            let scaled = u128::from(*count) * u128::from(all) / u128::from(known.max(1));
            *count = u64::try_from(scaled).unwrap_or(u64::MAX);
        }
        self
    }

    /// Requests that learning another launch would bring.
    pub fn learnable(&self) -> u64 {
        self.recurring.saturating_add(self.other_drive)
    }

    /// Requests that say something about the profile: all but [`MissedRequests::unreadable`], which none could hold.
    pub fn counted(&self) -> u64 {
        let others = self.once.saturating_add(self.written);
        self.learnable().saturating_add(others)
    }

    fn count_of(&mut self, kind: MissKind) -> &mut u64 {
        match kind {
            MissKind::Recurring => &mut self.recurring,
            MissKind::OtherDrive => &mut self.other_drive,
            MissKind::Once => &mut self.once,
            MissKind::Written => &mut self.written,
            MissKind::Unreadable => &mut self.unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind_and_those_that_were_not_noted_in_proportion() {
        use MissKind::*;
        let kinds = [
            Recurring, Once, Recurring, Unreadable, Written, OtherDrive, Recurring,
        ];
        let counted = MissedRequests::of(kinds);
        let expected = MissedRequests {
            recurring: 3,
            other_drive: 1,
            once: 1,
            written: 1,
            unreadable: 1,
        };
        assert_eq!(counted, expected);
        assert_eq!((counted.learnable(), counted.counted()), (4, 6));
        let twice = counted.in_proportion(20, 10);
        assert_eq!((twice.recurring, twice.unreadable), (6, 2));
        let none = MissedRequests::default();
        assert_eq!(none.in_proportion(u64::MAX, 0), none);
        let many = counted.in_proportion(u64::MAX, 1);
        assert_eq!((many.learnable(), many.counted()), (u64::MAX, u64::MAX));
    }
}
