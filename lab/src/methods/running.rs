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
use paralfetch::model::Profile;
use paralfetch::prefetch::{Prefetch, PrefetchOptions, THREAD_NAME};

use super::drives::wait_until_idle;
use super::fast::{Walk, open_root};
use super::method::Method;
use super::plan::Plan;

/// The longest prefetch: a large launch in recorded order on a disk with heads takes minutes.
const LONGEST: Duration = Duration::from_secs(600);

/// How long a thread that was asked to end may be held by one answer of its drive.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results of a prefetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// By which method.
    pub method: Method,
    /// Prefetch entries of the plan; for `fast`, its calls.
    pub scheduled: u64,
    /// Those that were carried out.
    pub entries: u64,
    /// 4 KiB pages asked for; for `fast`, a page for each inode that was looked up.
    pub pages: u64,
    /// Entries that could not be carried out: files or file systems gone, requests refused.
    pub skipped: u64,
    /// System calls that ask for pages.
    pub calls: u64,
    /// Pages of the launch sequence that the method has no way to ask for; only `fast` has some.
    pub unnamed: u64,
    /// All sampled entries of the plan were cached, so nothing was prefetched.
    pub warm: bool,
    /// Why nothing was prefetched, unless everything was cached.
    pub prevented: Option<String>,
    /// It was stopped before the end of its plan.
    pub cut_short: bool,
    /// The thread was told to end but did not report in time, since the drive took more than a second to
    /// answer: none of the figures above is known.
    pub lost: bool,
    /// The product's own account, for the methods that are carried out by it.
    pub account: Option<paralfetch::model::PrefetchReport>,
    /// From the start of the thread to its first request.
    pub until_first: Option<Duration>,
    /// From the start of the thread to its end; its last reads may still be on their way then.
    pub duration: Duration,
}

impl Report {
    /// A prefetch that has done nothing yet.
    pub(super) fn new(method: Method, scheduled: u64) -> Self {
        Report {
            method,
            scheduled,
            entries: 0,
            pages: 0,
            skipped: 0,
            calls: 0,
            unnamed: 0,
            warm: false,
            prevented: None,
            cut_short: false,
            lost: false,
            account: None,
            until_first: None,
            duration: Duration::ZERO,
        }
    }

    fn of(method: Method, done: &paralfetch::model::PrefetchReport) -> Self {
        Report {
            entries: done.metadata.entries + done.data.entries,
            pages: done.metadata.pages + done.data.pages,
            skipped: done.skipped.values().map(|count| count.entries).sum(),
            calls: done.calls,
            warm: done.warm,
            prevented: done.prevented(),
            cut_short: done.cut_short,
            account: Some(done.clone()),
            until_first: done.until_first,
            duration: done.duration,
            ..Report::new(method, done.scheduled)
        }
    }
}

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
        report: Receiver<Report>,
    },
    /// It has ended; `None` if its report was lost.
    Over(Option<Box<Report>>),
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
        if let Some(why) = report.prevented {
            bail!("`{}` prefetched nothing: {why}", self.method);
        }
        ensure!(
            !report.lost,
            "`{}` failed; its thread has printed why",
            self.method
        );
        ensure!(
            !report.cut_short,
            "`{}` was not through after {} s; is the drive that slow?",
            self.method,
            LONGEST.as_secs()
        );
        let idle = wait_until_idle(&self.profile, LONGEST)?;
        Ok(idle - self.begun)
    }

    /// Ends the prefetch if it is still under way, and says what it did. Its thread is gone then.
    ///
    /// # Errors
    /// When the thread does not end.
    pub fn finish(mut self) -> Result<Report> {
        self.end(None)
    }

    /// Ends the prefetch, at once or after `limit`, and waits for the thread.
    fn end(&mut self, limit: Option<Duration>) -> Result<Report> {
        let report = match std::mem::replace(&mut self.work, Work::Over(None)) {
            Work::Over(report) => report.map(|report| *report),
            Work::Readahead(prefetch) => {
                let done = match limit {
                    Some(limit) => prefetch.finish_within(limit),
                    None => prefetch.finish(),
                };
                done.map(|done| Report::of(self.method, &done))
            }
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
        let report = report.unwrap_or_else(|| Report {
            lost: true,
            cut_short: true,
            ..Report::new(self.method, self.profile.entries.len() as u64)
        });
        self.work = Work::Over(Some(Box::new(report.clone())));
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
