//! Waits summed up: by cause, by process, by file or device, and for whom. Plain data in, plain data out.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::{Wait, WaitCause, WaitTask};

/// Processes, and files, that have a sum of their own. Further ones share [`Tally::rest`], so that watching for
/// days stays small.
const MOST_KEYS: usize = 4096;

/// Processes for whom the waits of one sum are told apart.
const MOST_FOR_WHOM: usize = 256;

/// A process whose tasks wait, or for whom others do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct WaitProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the task. Threads of one process that have names of their own count apart.
    pub name: String,
}

impl From<&WaitTask> for WaitProcess {
    fn from(task: &WaitTask) -> Self {
        WaitProcess {
            pid: task.pid,
            name: task.comm.clone(),
        }
    }
}

impl fmt::Display for WaitProcess {
    /// Name and id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}[{}]", self.name, self.pid))
    }
}

/// What a wait was about, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitedPlace {
    /// The kernel's dev_t, `(major << 20) | minor`.
    pub device: Option<u32>,
    /// Number of the inode, if it is known.
    pub inode: Option<u64>,
}

impl From<&Wait> for WaitedPlace {
    fn from(wait: &Wait) -> Self {
        WaitedPlace {
            device: wait.device,
            inode: wait.inode,
        }
    }
}

/// Some waits, summed up. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitSum {
    /// How many.
    pub count: u64,
    /// Of these, how many have not ended.
    pub under_way: u64,
    /// How long all of them took, added up: tasks that wait at once count each.
    pub total_ns: u64,
    /// How long the longest took.
    pub worst_ns: u64,
    /// Time of waits by the process that they were for, 256 at most. A further process replaces the one with the least
    /// time if the wait for it is longer than that.
    pub for_whom: BTreeMap<WaitProcess, u64>,
}

impl WaitSum {
    fn add(&mut self, wait: &Wait) {
        self.count += 1;
        self.under_way += u64::from(wait.under_way);
        self.total_ns = self.total_ns.saturating_add(wait.duration_ns);
        self.worst_ns = self.worst_ns.max(wait.duration_ns);
        let Some(whom) = wait.for_whom.as_ref().map(WaitProcess::from) else {
            return;
        };
        if self.for_whom.len() >= MOST_FOR_WHOM && !self.for_whom.contains_key(&whom) {
            let least = self.for_whom.iter().min_by_key(|(_, time)| **time);
            let shorter = least.filter(|(_, time)| **time < wait.duration_ns);
            let Some(replaced) = shorter.map(|(replaced, _)| replaced.clone()) else {
                return;
            };
            self.for_whom.remove(&replaced);
        }
        let time = self.for_whom.entry(whom).or_default();
        *time = time.saturating_add(wait.duration_ns);
    }

    /// The process that was waited for longest, and for how long.
    pub fn mostly_for(&self) -> Option<(&WaitProcess, u64)> {
        // Of equal ones the first, so that a table does not flicker.
        let longest = self.for_whom.iter().rev().max_by_key(|(_, time)| **time);
        longest.map(|(whom, time)| (whom, *time))
    }
}

/// Sums by some key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<K> {
    sums: BTreeMap<K, WaitSum>,
    /// Waits of the keys that came when there were 4096 others.
    pub rest: WaitSum,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Tally {
            sums: BTreeMap::new(),
            rest: WaitSum::default(),
        }
    }
}

impl<K: Ord> Tally<K> {
    fn add(&mut self, key: K, wait: &Wait) {
        if self.sums.len() < MOST_KEYS || self.sums.contains_key(&key) {
            self.sums.entry(key).or_default().add(wait);
        } else {
            self.rest.add(wait);
        }
    }

    /// Each key with its sum, the longest total first; those of equal totals in the keys' order.
    pub fn rows(&self) -> Vec<(&K, &WaitSum)> {
        let mut rows: Vec<_> = self.sums.iter().collect();
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
        rows
    }
}

/// Waits, summed up in three ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// All of them.
    pub all: WaitSum,
    /// By what was waited for.
    pub by_cause: Tally<WaitCause>,
    /// By who waited.
    pub by_process: Tally<WaitProcess>,
    /// By what the wait was about.
    pub by_place: Tally<WaitedPlace>,
    /// The longest wait; of equal ones the first.
    pub worst: Option<Wait>,
}

impl WaitTotals {
    /// Adds a wait.
    pub fn add(&mut self, wait: &Wait) {
        self.all.add(wait);
        self.by_cause.add(wait.cause, wait);
        self.by_process.add(WaitProcess::from(&wait.task), wait);
        self.by_place.add(WaitedPlace::from(wait), wait);
        let is_worse = |worst: &Wait| wait.duration_ns > worst.duration_ns;
        if self.worst.as_ref().is_none_or(is_worse) {
            self.worst = Some(wait.clone());
        }
    }

    /// The totals with waits that are still under way, for a picture of this moment.
    pub fn with<'a>(&self, under_way: impl IntoIterator<Item = &'a Wait>) -> Self {
        let mut totals = self.clone();
        under_way.into_iter().for_each(|wait| totals.add(wait));
        totals
    }
}

impl<'a> FromIterator<&'a Wait> for WaitTotals {
    fn from_iter<I: IntoIterator<Item = &'a Wait>>(waits: I) -> Self {
        WaitTotals::default().with(waits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn task(pid: u32, comm: &str) -> WaitTask {
        WaitTask {
            pid,
            tid: pid,
            comm: comm.to_owned(),
            uid: 0,
        }
    }

    fn wait(pid: u32, cause: WaitCause, duration_ns: u64, whom: Option<u32>) -> Wait {
        Wait {
            task: task(pid, "app"),
            cause,
            start_ns: 5,
            duration_ns,
            device: Some(8 << 20),
            inode: Some(u64::from(pid) % 3),
            block: None,
            for_whom: whom.map(|pid| task(pid, "dd")),
            under_way: pid == 1,
        }
    }

    #[test]
    fn waits_are_summed_by_cause_process_and_file() {
        let waits = [
            wait(1, WaitCause::Sync, 30, Some(9)),
            wait(2, WaitCause::JournalCommit, 50, None),
            wait(1, WaitCause::Sync, 10, Some(8)),
        ];
        let totals: WaitTotals = waits.iter().collect();
        assert_eq!((totals.all.count, totals.all.total_ns), (3, 90));
        assert_eq!((totals.all.worst_ns, totals.all.under_way), (50, 2));
        assert_eq!(totals.worst, Some(waits[1].clone()));
        let causes = totals.by_cause.rows().into_iter();
        let causes: Vec<_> = causes.map(|(cause, sum)| (*cause, sum.total_ns)).collect();
        // The longest total comes first.
        assert_eq!(
            causes,
            [(WaitCause::JournalCommit, 50), (WaitCause::Sync, 40)]
        );
        let (process, sum) = totals.by_process.rows()[1];
        assert_eq!(process.to_string(), "app[1]");
        let (whom, time) = sum.mostly_for().unwrap();
        assert_eq!((whom.pid, time), (9, 30));
        let (place, _) = totals.by_place.rows()[0];
        assert_eq!((place.device, place.inode), (Some(8 << 20), Some(2)));
    }

    #[test]
    fn the_number_of_rows_is_bounded_and_the_sums_are_not() {
        let pids = 0..MOST_KEYS as u32 + 100;
        let waits = pids.map(|pid| wait(pid, WaitCause::Lock, 1, Some(pid)));
        let waits: Vec<Wait> = waits.collect();
        let totals: WaitTotals = waits.iter().collect();
        assert_eq!(totals.by_process.rows().len(), MOST_KEYS);
        assert_eq!(totals.by_process.rest.count, 100);
        assert_eq!(totals.all.count, waits.len() as u64);
        assert_eq!(totals.all.for_whom.len(), MOST_FOR_WHOM);
    }

    #[test]
    fn a_longer_wait_for_a_further_process_replaces_the_shortest() {
        let first = (0..MOST_FOR_WHOM as u32).map(|whom| (whom, if whom == 3 { 4 } else { 5 }));
        let waits = first.chain([(5000, 4), (6000, 6), (7000, 5)]);
        let waits: Vec<Wait> = waits
            .map(|(whom, duration_ns)| wait(1, WaitCause::Lock, duration_ns, Some(whom)))
            .collect();
        let sum = waits.iter().collect::<WaitTotals>().all;
        let (whom, time) = sum.mostly_for().unwrap();
        assert_eq!((whom.pid, time), (6000, 6));
        assert_eq!(sum.for_whom.len(), MOST_FOR_WHOM);
        let is_gone = |pid: u32| sum.for_whom.keys().all(|whom| whom.pid != pid);
        assert!(is_gone(3) && is_gone(5000) && is_gone(7000));
    }

    fn any_wait() -> impl Strategy<Value = Wait> {
        let causes = select(WaitCause::ALL.to_vec());
        let durations = prop_oneof![0..1000_u64, Just(u64::MAX)];
        (0..9_u32, causes, durations, option::of(0..60_u32))
            .prop_map(|(pid, cause, duration_ns, whom)| wait(pid, cause, duration_ns, whom))
    }

    proptest! {
        #[test]
        fn all_sums_agree(waits in vec(any_wait(), 0..80)) {
            let totals: WaitTotals = waits.iter().collect();
            let all = &totals.all;
            prop_assert_eq!(all.count, waits.len() as u64);
            prop_assert_eq!(all.worst_ns, waits.iter().map(|wait| wait.duration_ns).max().unwrap_or(0));
            prop_assert_eq!(totals.worst.as_ref().map_or(0, |worst| worst.duration_ns), all.worst_ns);
            let agrees = |sums: Vec<&WaitSum>| {
                let saturated = |of: fn(&WaitSum) -> u64| {
                    sums.iter().fold(0_u64, |sum, part| sum.saturating_add(of(part)))
                };
                saturated(|sum| sum.count) == all.count
                    && saturated(|sum| sum.total_ns) == all.total_ns
                    && saturated(|sum| sum.under_way) == all.under_way
                    && sums.iter().map(|sum| sum.worst_ns).max().unwrap_or(0) == all.worst_ns
                    && sums.windows(2).all(|pair| pair[0].total_ns >= pair[1].total_ns)
                    && sums.iter().all(|sum| sum.for_whom.values().all(|time| *time <= sum.total_ns))
            };
            fn sums<K: Ord>(tally: &Tally<K>) -> Vec<&WaitSum> {
                tally.rows().into_iter().map(|(_, sum)| sum).collect()
            }
            prop_assert!(agrees(sums(&totals.by_cause)));
            prop_assert!(agrees(sums(&totals.by_process)));
            prop_assert!(agrees(sums(&totals.by_place)));
        }

        #[test]
        fn a_long_wait_is_never_hidden_by_short_ones(
            waits in vec((0..1000_u32, 0..1000_u64), MOST_FOR_WHOM..2 * MOST_FOR_WHOM),
        ) {
            let mut sum = WaitSum::default();
            let mut times: BTreeMap<u32, u64> = BTreeMap::new();
            for (whom, duration_ns) in waits {
                sum.add(&wait(1, WaitCause::Sync, duration_ns, Some(whom)));
                *times.entry(whom).or_default() += duration_ns;
            }
            prop_assert!(sum.for_whom.len() <= MOST_FOR_WHOM);
            prop_assert!(sum.for_whom.iter().all(|(whom, time)| *time <= times[&whom.pid]));
            prop_assert!(sum.for_whom.values().sum::<u64>() <= sum.total_ns);
            prop_assert!(sum.mostly_for().is_some_and(|(_, time)| time >= sum.worst_ns));
        }

        #[test]
        fn a_picture_of_the_moment_adds_and_changes_nothing(
            ended in vec(any_wait(), 0..20),
            under_way in vec(any_wait(), 0..20),
        ) {
            let totals: WaitTotals = ended.iter().collect();
            let both: WaitTotals = ended.iter().chain(&under_way).collect();
            prop_assert_eq!(totals.with(&under_way), both);
        }
    }
}
