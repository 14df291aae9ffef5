//! Who makes pages dirty: the processes that wrote most between two looks, by cgroup.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::groups::Groups;
use crate::policy::WriterLook;

/// Most processes that are looked at.
const MOST_PROCESSES: usize = 4096;
/// Most cgroups that are looked at closely.
const MOST_GROUPS: usize = 8;
/// A process that writes less, in bytes per second, is no writer.
const LEAST: u64 = 256 << 10;
/// The looks are this far apart at least.
pub(super) const EVERY: Duration = Duration::from_millis(400);

/// The looks.
#[derive(Default)]
pub(super) struct Writers {
    last: Option<(Duration, HashMap<i32, u64>)>,
    known: Vec<WriterLook>,
}

impl Writers {
    /// The writers since the last look, largest first, and the cgroups of `limited` in any case. The first look finds
    /// none.
    pub fn look(&mut self, now: Duration, groups: &Groups, limited: &[String]) -> Vec<WriterLook> {
        let since = self.last.as_ref().map(|(at, _)| now.saturating_sub(*at));
        if since.is_some_and(|since| since < EVERY) {
            return self.known.clone();
        }
        let counts: HashMap<i32, u64> = processes()
            .filter_map(|pid| Some((pid, dirtied(pid)?)))
            .collect();
        let written = match (&self.last, since) {
            (Some((_, before)), Some(since)) => rates(before, &counts, since),
            _ => Vec::new(),
        };
        self.last = Some((now, counts));
        let by_group = by_group(written, |pid| groups.of(pid), limited);
        let looks = by_group.into_iter().map(|(group, written)| WriterLook {
            uid: groups.user(&group),
            anonymous: groups.anonymous(&group),
            has_weight: groups.has_weight(&group),
            written,
            group,
        });
        self.known = looks.collect();
        self.known.clone()
    }

    /// Forgets what was seen: the next look is a first one.
    pub fn forget(&mut self) {
        *self = Writers::default();
    }
}

/// Ids of processes.
pub(super) fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.take(MOST_PROCESSES)
}

/// What a process has made dirty or written directly since it began, in bytes (proc(5)).
fn dirtied(pid: i32) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?)
}

fn parse(io: &str) -> Option<u64> {
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

/// What processes wrote between two looks, in bytes per second, largest first.
fn rates(before: &HashMap<i32, u64>, now: &HashMap<i32, u64>, since: Duration) -> Vec<(i32, u64)> {
    let ms = since.as_millis().max(1);
    let rate = |bytes: u64| u64::try_from(u128::from(bytes) * 1000 / ms).unwrap_or(u64::MAX);
    let rates = now.iter().filter_map(|(pid, bytes)| {
        // Another process may have the same id by now: its count is lower, or too high by what it began with.
        Some((*pid, rate(bytes.checked_sub(*before.get(pid)?)?)))
    });
    let mut rates: Vec<(i32, u64)> = rates.filter(|(_, rate)| *rate >= LEAST).collect();
    rates.sort_unstable_by_key(|&(pid, rate)| (std::cmp::Reverse(rate), pid));
    rates
}

/// The same by cgroup, the largest ones and those of `limited`.
fn by_group(
    rates: Vec<(i32, u64)>,
    group_of: impl Fn(i32) -> Option<String>,
    limited: &[String],
) -> Vec<(String, u64)> {
    let mut groups: Vec<(String, u64)> = limited.iter().map(|group| (group.clone(), 0)).collect();
    let most = MOST_GROUPS + groups.len();
    for (pid, rate) in rates.into_iter().take(4 * MOST_GROUPS) {
        let Some(group) = group_of(pid) else {
            continue;
        };
        if let Some((_, sum)) = groups.iter_mut().find(|(known, _)| *known == group) {
            *sum = sum.saturating_add(rate);
        } else if groups.len() < most {
            groups.push((group, rate));
        }
    }
    groups.sort_by_key(|(_, rate)| std::cmp::Reverse(*rate));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_biggest_writers_are_summed_by_cgroup() {
        assert_eq!(
            parse("wchar: 9\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n"),
            Some(4096)
        );
        let before = HashMap::from([(1, 0), (2, 10 << 20), (3, 5), (4, 9 << 20)]);
        let now = HashMap::from([(1, 4 << 20), (2, 11 << 20), (3, 6), (4, 0), (5, 99 << 20)]);
        let rates = rates(&before, &now, Duration::from_millis(500));
        assert_eq!(
            rates,
            [(1, 8 << 20), (2, 2 << 20)],
            "3 is small, 4 and 5 are new"
        );
        let groups = by_group(rates, |pid| Some(format!("/{}", pid % 2)), &["/x".into()]);
        let expected = [("/1", 8 << 20), ("/0", 2 << 20), ("/x", 0)];
        assert_eq!(
            groups,
            expected.map(|(group, rate)| (group.to_owned(), rate))
        );
    }

    #[test]
    fn this_process_is_found() {
        assert!(processes().any(|pid| pid == rustix::process::getpid().as_raw_pid()));
    }
}
