//! Who waits while a benchmark runs: the wait detector on a thread of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use paralfetch_waits::{Wait, WaitCause, WaitDetector, WaitOptions, WaitTask};

use crate::record::Waited;

/// Interval at which the detector is read.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for the detector's programs.
const LOADING: Duration = Duration::from_secs(60);

/// Most names of whom was waited for.
const NAMES: usize = 3;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// By type, the longest in total first.
    pub waits: Vec<Waited>,
    /// Waits that the detector lost.
    pub lost: u64,
    /// What this kernel cannot tell, a sentence each.
    pub missing: Vec<String>,
}

/// A detector at work; detached when this is dropped.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Seen>>>,
}

impl Watcher {
    /// Attaches the detector, and returns once it sees.
    ///
    /// # Errors
    /// When the detector cannot be attached.
    pub fn start(options: WaitOptions) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (ready, is_ready) = channel();
        let thread = thread::Builder::new()
            .name("waits".to_owned())
            .spawn(move || watch(&options, &flag, &ready))?;
        let watcher = Watcher {
            stop,
            thread: Some(thread),
        };
        match is_ready.recv_timeout(LOADING) {
            Ok(()) => Ok(watcher),
            Err(_) => Err(watcher
                .finish()
                .err()
                .unwrap_or_else(|| anyhow!("the detector was not ready in time"))),
        }
    }

    /// Detaches it: what it has seen.
    ///
    /// # Errors
    /// When the detector failed.
    pub fn finish(mut self) -> Result<Seen> {
        self.stop()
            .unwrap_or_else(|| Err(anyhow!("reading the detector has panicked")))
    }

    fn stop(&mut self) -> Option<Result<Seen>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.stop() {
            eprintln!("lab: {error:#}");
        }
    }
}

fn watch(options: &WaitOptions, stop: &AtomicBool, ready: &Sender<()>) -> Result<Seen> {
    let mut detector = WaitDetector::start(options).context("cannot see who waits")?;
    // Nobody listens any more if this took too long: then it is to stop, too.
    let listening = ready.send(()).is_ok();
    let mut sums = Sums::default();
    while listening && !stop.load(Ordering::Relaxed) {
        detector.poll(LOOK)?.iter().for_each(|wait| sums.add(wait));
    }
    // What ended since, and what goes on.
    detector
        .poll(Duration::ZERO)?
        .iter()
        .for_each(|wait| sums.add(wait));
    detector.waiting()?.iter().for_each(|wait| sums.add(wait));
    Ok(Seen {
        waits: sums.waited(),
        lost: detector.lost(),
        missing: detector.missing().to_vec(),
    })
}

/// Sums of waits by type.
#[derive(Debug, Default)]
struct Sums(BTreeMap<WaitCause, (Waited, HashMap<String, u64>)>);

impl Sums {
    fn add(&mut self, wait: &Wait) {
        let (sum, names) = self.0.entry(wait.cause).or_default();
        let ms = wait.duration_ns as f64 / 1e6;
        sum.count += 1;
        sum.total_ms += ms;
        sum.worst_ms = sum.worst_ms.max(ms);
        if let Some(WaitTask { comm, .. }) = &wait.for_whom {
            *names.entry(comm.clone()).or_default() += 1;
        }
    }

    fn waited(self) -> Vec<Waited> {
        let mut all: Vec<Waited> = self
            .0
            .into_iter()
            .map(|(cause, (sum, names))| {
                let mut names: Vec<(String, u64)> = names.into_iter().collect();
                names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
                names.truncate(NAMES);
                Waited {
                    cause: cause.name().to_owned(),
                    for_whom: names.into_iter().map(|(name, _)| name).collect(),
                    ..sum
                }
            })
            .collect();
        all.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(cause: WaitCause, ms: u64, whom: Option<&str>) -> Wait {
        let task = |comm: &str| WaitTask {
            pid: 1,
            tid: 1,
            comm: comm.to_owned(),
            uid: 0,
        };
        Wait {
            task: task("m1"),
            cause,
            start_ns: 0,
            duration_ns: ms * 1_000_000,
            device: None,
            inode: None,
            block: None,
            for_whom: whom.map(task),
            under_way: false,
        }
    }

    #[test]
    fn waits_are_summed_by_type() {
        let mut sums = Sums::default();
        for (cause, ms, whom) in [
            (WaitCause::Metadata, 5, Some("kworker")),
            (WaitCause::Sync, 900, None),
            (WaitCause::Metadata, 15, Some("jbd2")),
            (WaitCause::Metadata, 10, Some("jbd2")),
        ] {
            sums.add(&wait(cause, ms, whom));
        }
        let found = sums.waited();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].cause.as_str(), found[0].total_ms),
            ("sync", 900.0)
        );
        let metadata = &found[1];
        assert_eq!(
            (metadata.count, metadata.total_ms, metadata.worst_ms),
            (3, 30.0, 15.0)
        );
        assert_eq!(metadata.for_whom, ["jbd2", "kworker"]);
    }
}
