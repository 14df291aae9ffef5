//! Watching waits for a while: [`WaitLog`] in the caller's thread, [`WaitWatch`] in one of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use paralfetch::kernel::TraceError;
use paralfetch::process::Clocks;
use rustix::process::getpid;

use crate::{DetectorCost, Wait, WaitDetector, WaitNames, WaitOptions, WaitTotals};

/// Most waits that are kept one by one, of some 200 bytes each; the totals have all of them.
const MOST_WAITS: usize = 1 << 14;

/// Most waits under way at the end that are kept beside them.
const MOST_UNDER_WAY: usize = 1 << 12;

/// Name of the thread of a [`WaitWatch`].
const WATCH_THREAD: &str = "waits";

/// Time between two looks of a watch: a file that was waited for is to be still open.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end of a watch may take: loading the programs takes some tenths of a second, and a machine under
/// load longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names of files that are looked for at one look. The others have none.
const MOST_LOOK_UPS: usize = 64;

/// Time between two looks for the names of files that tasks of the whole system wait for: listing who waits costs
/// some tens of microseconds.
const NAMING: Duration = Duration::from_secs(1);

/// What was seen of waits.
#[derive(Debug, Default)]
pub struct SeenWaits {
    /// When watching began, CLOCK_MONOTONIC in nanoseconds: of what ended before nothing is known.
    pub since_ns: u64,
    /// When it ended, by the same clock.
    pub until_ns: u64,
    /// The waits, in the order in which they ended, 16,384 at most. Those that had not ended by the end come last, the
    /// longest first, 4096 at most. The totals have the others, too.
    pub waits: Vec<Wait>,
    /// All of them summed up.
    pub totals: WaitTotals,
    /// Names of what they were about.
    pub names: WaitNames,
    /// Waits that were lost.
    pub lost: u64,
    /// What this kernel cannot tell, a clause each.
    pub missing: Vec<String>,
    /// What watching has cost, apart from the start.
    pub cost: DetectorCost,
    /// Processor time that the start took, most of it for loading the programs.
    pub start_cost: Duration,
}

impl SeenWaits {
    /// Waits that only the totals have.
    pub fn unlisted(&self) -> u64 {
        let listed = self.waits.len() as u64;
        self.totals.all.count.saturating_sub(listed)
    }

    /// Adds waits that have ended: to the totals, and if `keeps`, one by one as far as there is room.
    fn add_ended(&mut self, ended: &[Wait], keeps: bool) {
        let room = MOST_WAITS.saturating_sub(self.waits.len());
        self.add(ended, if keeps { room } else { 0 });
    }

    /// Adds, in the end, the waits that are under way, which have room of their own.
    fn add_under_way(&mut self, under_way: &[Wait], keeps: bool) {
        self.add(under_way, if keeps { MOST_UNDER_WAY } else { 0 });
    }

    fn add(&mut self, waits: &[Wait], most_kept: usize) {
        waits.iter().for_each(|wait| self.totals.add(wait));
        let kept = waits.iter().take(most_kept);
        self.waits.extend(kept.cloned());
    }
}

/// A detector, with what it has seen so far. This process's own waits are left out.
pub struct WaitLog {
    detector: WaitDetector,
    seen: SeenWaits,
    own_pid: u32,
    /// Whether waits are kept one by one.
    keeps: bool,
    /// Time between two looks at who waits, and the last one.
    naming: Duration,
    named: Option<Instant>,
}

impl WaitLog {
    /// Starts the detector. If `keeps` is false, only totals are kept, and the caller has the waits from
    /// [`WaitLog::look`].
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn start(options: &WaitOptions, keeps: bool) -> Result<Self, TraceError> {
        let detector = WaitDetector::start(options)?;
        Ok(WaitLog {
            seen: SeenWaits {
                since_ns: Clocks::now().monotonic_ns,
                missing: detector.missing().to_vec(),
                start_cost: detector.cost().reader,
                ..SeenWaits::default()
            },
            detector,
            own_pid: getpid().as_raw_pid().unsigned_abs(),
            keeps,
            naming: match options.only {
                Some(_) => Duration::ZERO,
                None => NAMING,
            },
            named: None,
        })
    }

    /// Fetches the waits that have ended since the last look; waits for one for up to `timeout` if there is none.
    ///
    /// # Errors
    /// When the detector cannot be read.
    pub fn look(&mut self, timeout: Duration) -> Result<Vec<Wait>, TraceError> {
        let mut ended = self.detector.poll(timeout)?;
        ended.retain(|wait| wait.task.pid != self.own_pid);
        // While a task waits, its file is open for sure.
        let mut under_way = Vec::new();
        if self.named.is_none_or(|at| at.elapsed() >= self.naming) {
            under_way = self.waiting()?;
            self.named = Some(Instant::now());
        }
        let to_name = under_way.iter().chain(&ended).take(MOST_LOOK_UPS);
        to_name.for_each(|wait| self.seen.names.look(wait));
        self.seen.add_ended(&ended, self.keeps);
        Ok(ended)
    }

    /// Waits under way, the longest first.
    ///
    /// # Errors
    /// When the detector cannot be read.
    pub fn waiting(&self) -> Result<Vec<Wait>, TraceError> {
        let mut under_way = self.detector.waiting()?;
        under_way.retain(|wait| wait.task.pid != self.own_pid);
        Ok(under_way)
    }

    /// What was seen so far; waits under way are not among it, and losses and cost are known at the end.
    pub fn seen(&self) -> &SeenWaits {
        &self.seen
    }

    /// Waits that were lost so far.
    pub fn lost(&self) -> u64 {
        self.detector.lost()
    }

    /// Ends watching. Waits that are still under way count with the time that they have taken.
    ///
    /// # Errors
    /// When the detector cannot be read.
    pub fn finish(mut self) -> Result<SeenWaits, TraceError> {
        self.look(Duration::ZERO)?;
        let under_way = self.waiting()?;
        self.seen.add_under_way(&under_way, self.keeps);
        let mut seen = self.seen;
        seen.until_ns = Clocks::now().monotonic_ns;
        seen.lost = self.detector.lost();
        seen.cost = self.detector.cost();
        seen.cost.reader = seen.cost.reader.saturating_sub(seen.start_cost);
        Ok(seen)
    }
}

/// Watches waits in a thread of its own, beside something that must not wait for it. It ends when this is dropped.
pub struct WaitWatch {
    /// Closed to end the watch.
    stop: SyncSender<()>,
    attached: Receiver<()>,
    seen: Receiver<Result<SeenWaits, String>>,
}

impl WaitWatch {
    /// Starts the thread and returns at once; the thread loads and attaches the detector. What cannot be had is told by
    /// [`WaitWatch::finish`].
    pub fn start(options: WaitOptions) -> Self {
        let (stop, stopped) = sync_channel(0);
        let (send, seen) = sync_channel(1);
        let (tell, attached) = sync_channel(1);
        let sender = send.clone();
        let watching = move || {
            let seen = watch(&options, &tell, &stopped).map_err(|error| error.to_string());
            // The receiver may have given up.
            let _ = sender.send(seen);
        };
        // Not joined: nobody should wait for it.
        let started = thread::Builder::new()
            .name(WATCH_THREAD.to_owned())
            .spawn(watching);
        if let Err(error) = started {
            // The channel has room for it.
            let _ = send.try_send(Err(format!("cannot start a thread: {error}")));
        }
        WaitWatch {
            stop,
            attached,
            seen,
        }
    }

    /// Waits until the detector is attached, for callers that have time, or until it is known that it cannot be had. False
    /// if neither is so after `limit`.
    pub fn until_attached(&self, limit: Duration) -> bool {
        self.attached.recv_timeout(limit) != Err(RecvTimeoutError::Timeout)
    }

    /// Ends watching, which takes some tenths of a second, and returns what was seen.
    ///
    /// # Errors
    /// Why nothing is known, in one line.
    pub fn finish(self) -> Result<SeenWaits, String> {
        drop(self.stop);
        let seen = self.seen.recv_timeout(PATIENCE);
        seen.unwrap_or_else(|_| Err("the detector did not end in time".to_owned()))
    }
}

/// Watches until the other end of `stopped` is closed.
fn watch(
    options: &WaitOptions,
    attached: &SyncSender<()>,
    stopped: &Receiver<()>,
) -> Result<SeenWaits, TraceError> {
    let mut log = WaitLog::start(options, true)?;
    // Nobody may be interested.
    let _ = attached.send(());
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        log.look(Duration::ZERO)?;
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WaitCause, WaitTask};

    fn waits(count: usize, under_way: bool) -> Vec<Wait> {
        let wait = Wait {
            task: WaitTask {
                pid: 1,
                tid: 1,
                comm: "app".to_owned(),
                uid: 0,
            },
            cause: WaitCause::Sync,
            start_ns: 0,
            duration_ns: 1,
            device: None,
            inode: None,
            block: None,
            for_whom: None,
            under_way,
        };
        vec![wait; count]
    }

    #[test]
    fn waits_under_way_are_kept_when_others_have_no_room() {
        let mut seen = SeenWaits::default();
        seen.add_ended(&waits(MOST_WAITS - 1, false), true);
        assert_eq!(seen.unlisted(), 0);
        seen.add_ended(&waits(5, false), true);
        assert_eq!((seen.waits.len(), seen.unlisted()), (MOST_WAITS, 4));
        seen.add_under_way(&waits(MOST_UNDER_WAY + 3, true), true);
        assert_eq!(seen.waits.len(), MOST_WAITS + MOST_UNDER_WAY);
        assert_eq!(seen.unlisted(), 4 + 3);
        assert_eq!(seen.totals.all.under_way, MOST_UNDER_WAY as u64 + 3);
    }

    #[test]
    fn waits_that_are_not_kept_are_in_the_totals() {
        let mut seen = SeenWaits::default();
        seen.add_ended(&waits(2, false), false);
        seen.add_under_way(&waits(1, true), false);
        assert!(seen.waits.is_empty());
        assert_eq!((seen.totals.all.count, seen.unlisted()), (3, 3));
    }
}
