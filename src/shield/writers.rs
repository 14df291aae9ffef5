//! Who makes pages dirty: the processes that wrote most between two looks, by cgroup.
//!
//! What a process has written is read on a thread of its own. The kernel lets a read of /proc/PID/io wait for an execve
//! of that process, and the execve may wait for a FUSE file system that never answers. While that thread waits, no
//! writers are found.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::groups::Groups;
use crate::policy::WriterLook;

/// Most processes that are looked at.
const MOST_PROCESSES: usize = 4096;
/// Most cgroups that are looked at closely.
const MOST_GROUPS: usize = 8;
/// A process that writes less, in bytes per second, is no writer.
const LEAST: u64 = 256 << 10;
/// The looks are this far apart at least.
const EVERY: Duration = Duration::from_millis(400);
/// How long a look waits for the walk through the processes.
const PATIENCE: Duration = Duration::from_millis(50);
/// Name of the thread that walks.
const THREAD: &str = "pf-writers";

/// What processes have made dirty since they began, in bytes.
type DirtiedBytes = HashMap<i32, u64>;

/// The looks.
#[derive(Default)]
pub(super) struct Writers {
    walker: Option<ProcessWalker>,
    /// When the last walk was asked for, and what was found.
    last: Option<(Duration, DirtiedBytes)>,
    known: Vec<WriterLook>,
}

/// The thread that walks through the processes. It ends when this is dropped, and nobody waits for that.
struct ProcessWalker {
    questions: SyncSender<Instant>,
    /// How long each walk took since it was asked for, and what was found.
    answers: Receiver<(Duration, DirtiedBytes)>,
    /// When the walk was asked for that is under way.
    asked: Option<Duration>,
}

/// One walk through all processes.
struct ProcessWalk {
    /// When it was asked for.
    asked: Duration,
    /// How long it took.
    took: Duration,
    dirtied: DirtiedBytes,
}

impl Writers {
    /// The writers since the last look, largest first, and the cgroups of `limited` in any case. The first look finds
    /// none, nor does one whose walk takes longer than it may: a later look finds what that walk found.
    pub fn look(&mut self, now: Duration, groups: &Groups, limited: &[String]) -> Vec<WriterLook> {
        let since = self.last.as_ref().map(|(at, _)| now.saturating_sub(*at));
        if since.is_some_and(|since| since < EVERY) {
            return self.known.clone();
        }
        if self.walker.is_none() {
            // Where there is no thread to be had, there are no writers.
            self.walker = ProcessWalker::start(dirtied_by_all).ok();
        }
        let walk = self.walker.as_mut().and_then(|walker| walker.walk(now));
        let written = walk.map_or_else(Vec::new, |walk| self.written(walk));
        let by_group = by_group(written, |pid| groups.of(pid), limited);
        let looks = by_group.into_iter().map(|(group, written)| WriterLook {
            uid: groups.user(&group),
            memory: groups.memory(&group),
            has_weight: groups.has_weight(&group),
            written,
            group,
        });
        self.known = looks.collect();
        self.known.clone()
    }

    /// What processes wrote between the last walk and this one.
    fn written(&mut self, walk: ProcessWalk) -> Vec<(i32, u64)> {
        let last = self.last.as_ref();
        let written = last.map_or_else(Vec::new, |(at, before)| {
            // The longest time that may lie between two counts: no rate is taken for more than it is.
            let since = (walk.asked + walk.took).saturating_sub(*at);
            rates(before, &walk.dirtied, since)
        });
        self.last = Some((walk.asked, walk.dirtied));
        written
    }

    /// Forgets what was seen: the next look is a first one. The thread stays, for it may be stuck: another one would
    /// be, too.
    pub fn forget(&mut self) {
        self.last = None;
        self.known.clear();
    }
}

impl ProcessWalker {
    /// Starts the thread. `count` is the walk.
    ///
    /// # Errors
    /// When the system has no thread to give.
    fn start(mut count: impl FnMut() -> DirtiedBytes + Send + 'static) -> io::Result<Self> {
        let (questions, asked) = sync_channel::<Instant>(1);
        let (answer, answers) = sync_channel(1);
        Builder::new().name(THREAD.to_owned()).spawn(move || {
            for asked in asked {
                let dirtied = count();
                if answer.send((asked.elapsed(), dirtied)).is_err() {
                    return;
                }
            }
        })?;
        Ok(ProcessWalker {
            questions,
            answers,
            asked: None,
        })
    }

    /// Asks for a walk and waits for it a little. While one is under way, no other is asked for and nothing is waited
    /// for. `None` if none has ended.
    fn walk(&mut self, now: Duration) -> Option<ProcessWalk> {
        let patience = match self.asked {
            Some(_) => Duration::ZERO,
            None => {
                self.questions.try_send(Instant::now()).ok()?;
                self.asked = Some(now);
                PATIENCE
            }
        };
        let (took, dirtied) = self.answers.recv_timeout(patience).ok()?;
        Some(ProcessWalk {
            asked: self.asked.take()?,
            took,
            dirtied,
        })
    }
}

/// Ids of processes.
pub(super) fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.take(MOST_PROCESSES)
}

fn dirtied_by_all() -> DirtiedBytes {
    let dirtied = processes().filter_map(|pid| Some((pid, dirtied(pid)?)));
    dirtied.collect()
}

/// What a process has made dirty or written directly since it began, in bytes (proc(5)). This may take for ever.
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
fn rates(before: &DirtiedBytes, now: &DirtiedBytes, since: Duration) -> Vec<(i32, u64)> {
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
    use std::sync::mpsc::TrySendError;

    use super::*;

    /// What `find` finds within some seconds.
    fn soon<T>(mut find: impl FnMut() -> Option<T>) -> T {
        for _ in 0..10_000 {
            if let Some(found) = find() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it takes too long");
    }

    #[test]
    fn a_walk_that_is_stuck_keeps_nobody_and_its_late_answer_is_used() {
        let (release, stuck) = sync_channel::<()>(0);
        let walker = ProcessWalker::start(move || {
            let _ = stuck.recv();
            HashMap::from([(1, 8 << 20)])
        });
        let mut writers = Writers {
            walker: Some(walker.unwrap()),
            last: Some((Duration::from_secs(9), HashMap::from([(1, 0)]))),
            known: Vec::new(),
        };
        let walk = |writers: &mut Writers, now: u64| {
            let walker = writers.walker.as_mut();
            walker.and_then(|walker| walker.walk(Duration::from_secs(now)))
        };
        for now in 10..60 {
            assert!(walk(&mut writers, now).is_none());
        }
        release.send(()).unwrap();
        let late = soon(|| walk(&mut writers, 60));
        assert_eq!(late.asked, Duration::from_secs(10), "the only question");
        let since = late.asked + late.took - Duration::from_secs(9);
        let rate = (8 << 20) * 1000 / since.as_millis() as u64;
        assert_eq!(writers.written(late), [(1, rate)]);

        // The thread ends with the walker, but for what it is stuck in.
        assert!(walk(&mut writers, 61).is_none());
        drop(writers);
        let _ = release.send(());
        soon(|| match release.try_send(()) {
            Err(TrySendError::Disconnected(())) => Some(()),
            _ => None,
        });
    }

    #[test]
    fn this_process_is_walked_through() {
        let mut walker = ProcessWalker::start(dirtied_by_all).unwrap();
        let walk = soon(|| walker.walk(Duration::from_secs(1)));
        let own = rustix::process::getpid().as_raw_pid();
        assert!(walk.dirtied.contains_key(&own));
    }

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
