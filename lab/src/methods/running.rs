//! Carrying out a plan beside a launch.

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use paralfetch::model::{PrefetchReport, Profile};
use paralfetch::prefetch::{Prefetch, PrefetchOptions, THREAD_NAME};

use super::drives::wait_until_idle;
use super::fast::{Walk, open_root};
use super::method::Method;
use super::plan::Plan;

/// The longest prefetch: a large launch in recorded order on a disk with heads takes minutes.
const LONGEST: Duration = Duration::from_secs(600);

/// How long a thread that was asked to end may be held by one answer of its drive.
const PATIENCE: Duration = Duration::from_secs(10);

/// A prefetch under way. Its thread belongs to the calling process and has the product's thread name, by
/// which [`paralfetch::kernel::Meter`] counts its reads as prefetching: create the meter first. Dropping it
/// ends it.
pub struct Running {
    method: Method,
    profile: Arc<Profile>,
    begun: Instant,
    work: Work,
    /// Disconnected once the thread has ended.
    ended: Receiver<Infallible>,
}

enum Work {
    Readahead(Prefetch),
    Calls {
        stop: Arc<AtomicBool>,
        report: Receiver<PrefetchReport>,
    },
    /// The prefetch has ended; `None` if its report was lost.
    Over(Option<Box<PrefetchReport>>),
}

thread_local! {
    /// Dropped when its thread ends, which disconnects [`Running::ended`].
    static ALIVE: RefCell<Option<Sender<Infallible>>> = const { RefCell::new(None) };
}

impl Running {
    /// Starts a plan's thread and returns. `root` is where the file system is mounted that the app's
    /// paths begin at.
    ///
    /// # Errors
    /// When `root` cannot be opened, or the system has no thread to give.
    pub fn start(plan: &Plan, root: &Path) -> Result<Running> {
        let begun = Instant::now();
        let (alive, ended) = channel();
        let live = move || ALIVE.with(|place| place.replace(Some(alive)));
        let profile = Arc::clone(&plan.profile);
        let left_out = plan.left_out;
        let said = || format!("cannot start to prefetch by `{}`", plan.method);
        let work = match &plan.calls {
            None => {
                let load = move || {
                    live();
                    Some(Profile::clone(&profile))
                };
                let options = PrefetchOptions {
                    left_out,
                    ..PrefetchOptions::default()
                };
                Work::Readahead(Prefetch::start(load, options).with_context(said)?)
            }
            Some(calls) => {
                let root =
                    open_root(root).with_context(|| format!("cannot open {}", root.display()))?;
                let stop = Arc::new(AtomicBool::new(false));
                let (calls, flag) = (Arc::clone(calls), Arc::clone(&stop));
                let (send, report) = channel();
                let thread = move || {
                    live();
                    let walk = Walk {
                        root,
                        profile: &profile,
                        left_out,
                        stop: &flag,
                    };
                    // The receiver may have given up.
                    let _ = send.send(walk.run(&calls));
                };
                let builder = Builder::new().name(THREAD_NAME.to_owned());
                builder.spawn(thread).with_context(said)?;
                Work::Calls { stop, report }
            }
        };
        Ok(Running {
            method: plan.method,
            profile: Arc::clone(&plan.profile),
            begun,
            work,
            ended,
        })
    }

    /// Waits until the plan has been carried out and all of its reads have arrived, and returns how
    /// long that took from the start: until no read was in flight on the plan's drives, looked at
    /// every 0.2 ms. For methods that hold the app, and for those without one.
    ///
    /// # Errors
    /// When nothing was prefetched, or it does not end in ten minutes.
    pub fn hold(&mut self) -> Result<Duration> {
        let report = self.end(Some(LONGEST))?;
        let report = report
            .with_context(|| format!("`{}` failed; its thread has printed why", self.method))?;
        if let Some(why) = report.prevented() {
            bail!("`{}` prefetched nothing: {why}", self.method);
        }
        ensure!(
            !report.cut_short,
            "`{}` was not through after {} s; is the drive that slow?",
            self.method,
            LONGEST.as_secs()
        );
        let idle = wait_until_idle(&self.profile, LONGEST)?;
        Ok(idle - self.begun)
    }

    /// Ends the prefetch if it is still under way, and says what it did; for `fast`, entries are its calls, and an inode
    /// that it has looked up is a page. `None` if the thread did not say so in time, since the drive took more than a
    /// second to answer. The thread is gone then.
    ///
    /// # Errors
    /// When the thread does not end.
    pub fn finish(mut self) -> Result<Option<PrefetchReport>> {
        self.end(None)
    }

    /// Ends the prefetch, at once or after `limit`, and waits for the thread.
    fn end(&mut self, limit: Option<Duration>) -> Result<Option<PrefetchReport>> {
        let report = match std::mem::replace(&mut self.work, Work::Over(None)) {
            Work::Over(report) => report.map(|report| *report),
            Work::Readahead(prefetch) => match limit {
                Some(limit) => prefetch.finish_within(limit),
                None => prefetch.finish(),
            },
            Work::Calls { stop, report } => {
                let waited = match limit {
                    Some(limit) => report.recv_timeout(limit),
                    None => Err(RecvTimeoutError::Timeout),
                };
                stop.store(true, Ordering::Relaxed);
                waited.or_else(|_| report.recv_timeout(PATIENCE)).ok()
            }
        };
        // Nothing is ever sent: the wait ends when the thread does.
        let ended = self.ended.recv_timeout(PATIENCE);
        ensure!(
            ended == Err(RecvTimeoutError::Disconnected),
            "the thread of `{}` does not end: does the drive still answer?",
            self.method
        );
        self.work = Work::Over(report.clone().map(Box::new));
        Ok(report)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.work, Work::Over(_)) {
            return;
        }
        if let Err(error) = self.end(None) {
            eprintln!("lab: {error:#}");
        }
    }
}
