//! Who waits while a benchmark runs: the product's detector on a thread of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use paralfetch::kernel::{WaitDetector, WaitOptions};
use paralfetch::model::{Wait, WaitCause, WaitTask};

use super::shielding::ShieldProcess;
use crate::record::Waited;

/// Interval at which the detector is read.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for the detector's programs.
const LOADING: Duration = Duration::from_secs(60);

/// A wait that has lasted for so long is told the shield, as the service does. As often, those that last are looked at.
const LASTS: Duration = Duration::from_millis(20);

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

/// What the detector's thread leaves: what it has seen, and the shield that it told.
type Watched = Result<(Seen, Option<ShieldProcess>)>;

/// A detector at work; detached when this is dropped.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Watched>>,
}

impl Watcher {
    /// Attaches the detector, and returns once it sees. `shield` learns of each wait that is for writes,
    /// while it lasts; its waits are on `device`, the kernel's dev_t, where the detector does not say.
    ///
    /// # Errors
    /// When the detector cannot be attached.
    pub fn start(options: WaitOptions, shield: Option<(ShieldProcess, u32)>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (ready, is_ready) = channel();
        let thread = thread::Builder::new()
            .name("waits".to_owned())
            .spawn(move || watch(&options, shield, &flag, &ready))?;
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

    /// Detaches it: what it has seen, and the shield back.
    ///
    /// # Errors
    /// When the detector failed.
    pub fn finish(mut self) -> Result<(Seen, Option<ShieldProcess>)> {
        self.stop()
            .unwrap_or_else(|| Err(anyhow!("reading the detector has panicked")))
    }

    fn stop(&mut self) -> Option<Watched> {
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

fn watch(
    options: &WaitOptions,
    shield: Option<(ShieldProcess, u32)>,
    stop: &AtomicBool,
    ready: &Sender<()>,
) -> Watched {
    let mut detector = WaitDetector::start(options).context("cannot see who waits")?;
    // Nobody listens any more if this took too long: then it is to stop, too.
    let listening = ready.send(()).is_ok();
    let mut sums = Sums::default();
    let mut shield = shield.map(|(shield, device)| (shield, News::new(device)));
    let mut next_tell = Instant::now();
    while listening && !stop.load(Ordering::Relaxed) {
        let ended = detector.poll(LOOK)?;
        let now = Instant::now();
        if let Some((shield, news)) = &mut shield
            && now >= next_tell
        {
            next_tell = now + LASTS;
            for (task, device) in news.of(&detector.waiting()?) {
                shield.waits(task.pid, task.tid, device)?;
            }
        }
        ended.iter().for_each(|wait| sums.add(wait));
    }
    // What ended since, and what goes on.
    detector
        .poll(Duration::ZERO)?
        .iter()
        .for_each(|wait| sums.add(wait));
    detector.waiting()?.iter().for_each(|wait| sums.add(wait));
    let seen = Seen {
        waits: sums.waited(),
        lost: detector.lost(),
        missing: detector.missing().to_vec(),
    };
    Ok((seen, shield.map(|(shield, _)| shield)))
}

/// Which waits the shield does not know yet.
#[derive(Debug)]
struct News {
    /// Where waits are that the detector knows no device of, the kernel's dev_t.
    device: u32,
    /// When those that it knows began, by thread.
    told: HashMap<u32, u64>,
}

impl News {
    fn new(device: u32) -> Self {
        News {
            device,
            told: HashMap::new(),
        }
    }

    /// Of the waits under way, each that has lasted and is for another's write, once: the task and the device.
    fn of<'a>(&mut self, waiting: &'a [Wait]) -> Vec<(&'a WaitTask, u32)> {
        let mut news = Vec::new();
        let lasts = |wait: &&Wait| {
            u128::from(wait.duration_ns) >= LASTS.as_nanos() && is_for_writes(wait.cause)
        };
        for wait in waiting.iter().filter(lasts) {
            if self.told.insert(wait.task.tid, wait.start_ns) != Some(wait.start_ns) {
                news.push((&wait.task, wait.device.unwrap_or(self.device)));
            }
        }
        news
    }
}

/// Whether others' writes are the reason. Limits on dirty memory slow down who writes himself.
fn is_for_writes(cause: WaitCause) -> bool {
    !matches!(
        cause,
        WaitCause::WritebackThrottle
            | WaitCause::DirtyThrottle
            | WaitCause::MemoryThrottle
            | WaitCause::Unknown
    )
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

    #[test]
    fn who_is_slowed_down_for_his_own_writes_waits_for_nobody_else() {
        let own = |cause: &&WaitCause| !is_for_writes(**cause);
        assert_eq!(WaitCause::ALL.iter().filter(own).count(), 4);
    }

    #[test]
    fn the_shield_learns_of_each_wait_once() {
        let mut news = News::new(7);
        let short = wait(WaitCause::Sync, 5, None);
        let own = wait(WaitCause::DirtyThrottle, 500, None);
        assert!(news.of(&[short, own]).is_empty());
        let mut long = wait(WaitCause::JournalCommit, 25, None);
        assert_eq!(news.of(std::slice::from_ref(&long))[0].1, 7);
        assert!(news.of(std::slice::from_ref(&long)).is_empty());
        long.start_ns = 9;
        long.device = Some(8);
        assert_eq!(news.of(&[long])[0].1, 8, "its next wait");
    }
}
