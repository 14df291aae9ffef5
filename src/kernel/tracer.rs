//! The recording of one launch: collects the events of its recorder.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer};

use super::abilities::TraceError;
use super::event::{TraceEvent, parse};
use super::launcher::{StartMark, monotonic_ns};
use super::namespaces::Namespaces;
use super::object::ring_reader;
use super::recorder_pool::{RecorderLease, RecorderPool, TraceMode};
use super::skel::types::{pf_record_bounds, pf_record_flags, pf_recorder};
use super::tables;
use crate::model::Access;
use crate::model::Hooks;
use crate::model::PathUse;

/// Everything that was seen of a launch.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Time of the app's execve, CLOCK_MONOTONIC in nanoseconds; 0 if it never came to that.
    pub start_ns: u64,
    /// Accesses in time order, those of the launch tree and others.
    pub accesses: Vec<Access>,
    /// Paths that the launch tree looked up, each when it was first used from one directory, in time
    /// order.
    pub paths: Vec<PathUse>,
    /// The mount namespaces of these paths, but for ours: those that could be seen before they ended.
    pub namespaces: Namespaces,
    /// Look-ups of paths that could not be recorded: longer than 1 KiB, gone from memory when they were to be
    /// read, or after the first 8 MiB of them. What they need and was cached is not in the trace.
    pub lost_paths: u64,
    /// Time at which the launch tree's last task exited, CLOCK_MONOTONIC in nanoseconds.
    pub exit_ns: Option<u64>,
    /// Events that were lost because the log was full, and tasks that were lost because there was no memory
    /// to mark them.
    pub lost: u64,
    /// By what means pages that were cached before the launch were seen.
    pub hooks: Hooks,
    /// Why the recording broke off, if it did.
    pub excess: Option<TraceExcess>,
}

/// More was seen than is recorded of a launch (`pf_record_bounds` in `bpf/intf.h`): what was recorded says
/// nothing about the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceExcess {
    /// Of the launch's own page events.
    #[error("the launch used more pages than are recorded of one ({} events)", pf_record_bounds::PF_MOST_EVENTS.0)]
    Pages,
    /// Of the page events of all other tasks: that says nothing about the app.
    #[error("too much else was read during the launch, try again on a quieter system")]
    Others,
}

impl Trace {
    /// Takes in a record of the programs.
    fn take(&mut self, record: &[u8]) {
        match parse(record, rustix::param::page_size() as u64) {
            Some(TraceEvent::Access(access)) => self.accesses.push(access),
            Some(TraceEvent::Path(path)) => {
                self.namespaces.hold_that_of(&path);
                self.paths.push(path);
            }
            Some(TraceEvent::Exit(time_ns)) => self.exit_ns = Some(time_ns),
            Some(TraceEvent::Wakeup) => {}
            None => self.lost += 1,
        }
    }
}

/// The recording of one launch, from its making to its end.
pub struct Tracer {
    /// Number of the launch.
    launch: u64,
    /// When the recording began, if that was after the launch had begun.
    pub(super) begun_ns: Option<u64>,
    /// Whether the recorder is on.
    pub(super) is_on: bool,
    log: RingBuffer<'static>,
    /// What the log is read from.
    _log: MapHandle,
    collected: Rc<RefCell<Trace>>,
    /// Declared last, so that it is given back after the log is closed.
    recorder: RecorderLease,
}

impl Tracer {
    /// Loads the programs and records a launch that the calling thread starts, as
    /// [`RecorderLease::launcher`] says.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(mode: TraceMode) -> Result<Self, TraceError> {
        RecorderPool::load(mode)?.launcher(None)
    }

    /// A recording whose recorder is not on yet.
    pub(super) fn new(
        recorder: RecorderLease,
        launch: u64,
        log: MapHandle,
    ) -> Result<Self, TraceError> {
        let collected = Rc::new(RefCell::new(Trace::default()));
        let sink = Rc::clone(&collected);
        let reader = ring_reader(&log, move |record| sink.borrow_mut().take(record))
            .inspect_err(|_| tables::remove(recorder.pool().object(), recorder.index()))?;
        Ok(Tracer {
            launch,
            begun_ns: None,
            is_on: false,
            log: reader,
            _log: log,
            collected,
            recorder,
        })
    }

    /// By what means this session sees pages that are cached already.
    pub fn hooks(&self) -> Hooks {
        self.recorder.pool().hooks()
    }

    /// What the child must set as its last act before execve.
    pub fn start_mark(&self) -> StartMark {
        let globals = &self.recorder.pool().object().globals;
        globals.slot(self.launch).start_mark()
    }

    /// Whether the launch still has a slot: without one, nothing of it is recorded any more.
    pub fn is_followed(&self) -> bool {
        let globals = &self.recorder.pool().object().globals;
        globals.slot(self.launch).number().load(Ordering::Acquire) == self.launch
    }

    /// Readable when the launch tree has ended, when it uses a new mount namespace, which should be opened
    /// before it ends, and when the log is half full. Other events do not wake: [`Tracer::drain`] fetches
    /// them whenever it is called.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.log.epoll_fd()) }
    }

    /// Fetches what has been recorded since the last call.
    pub fn drain(&mut self) -> Result<(), TraceError> {
        self.log
            .consume()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))
    }

    /// Ids of the launch tree's threads, as [`LoadedObject::threads`](super::object::LoadedObject::threads).
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        self.recorder.pool().object().threads(self.launch)
    }

    /// From now on, tasks in the cgroup of this number count as if they had grown from the launch, which has it to
    /// itself.
    pub fn set_cgroup(&self, cgroup: u64) {
        let globals = &self.recorder.pool().object().globals;
        let word = globals.recorder_cgroup(self.recorder.index());
        word.store(cgroup, Ordering::Relaxed);
    }

    /// The launch had ended when its recording began.
    pub(super) fn note_exit(&self) {
        self.collected.borrow_mut().exit_ns = Some(monotonic_ns());
    }

    /// Takes away what has been fetched so far, so that a long recording needs no more memory than
    /// its reader keeps. Events of several processors are almost, but not quite, in the order of time.
    pub fn take_accesses(&mut self) -> Vec<Access> {
        std::mem::take(&mut self.collected.borrow_mut().accesses)
    }

    /// What has been fetched so far.
    pub fn with_trace<T>(&mut self, look: impl FnOnce(&Trace) -> T) -> T {
        let start_ns = self.start_ns();
        let mut trace = self.collected.borrow_mut();
        trace.start_ns = start_ns;
        look(&trace)
    }

    fn start_ns(&self) -> u64 {
        self.begun_ns.unwrap_or_else(|| {
            let globals = &self.recorder.pool().object().globals;
            globals.slot(self.launch).start_ns().load(Ordering::Acquire)
        })
    }

    /// Why nothing is recorded any more, if more was seen than is.
    pub fn excess(&self) -> Option<TraceExcess> {
        let globals = &self.recorder.pool().object().globals;
        excess_of(&globals.recorder(self.recorder.index()))
    }

    /// Ends the recording and returns all that was recorded.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        let start_ns = self.start_ns();
        let slot = self
            .recorder
            .pool()
            .object()
            .globals
            .slot(self.launch)
            .read();
        let lost_tasks = match slot.number == self.launch {
            true => slot.lost_tasks,
            false => 0,
        };
        self.stop();
        self.drain()?;
        let globals = &self.recorder.pool().object().globals;
        let recorder = globals.recorder(self.recorder.index());
        let mut trace = self.collected.take();
        trace.start_ns = start_ns;
        trace.hooks = self.hooks();
        trace.lost += recorder.lost_events + lost_tasks;
        trace.lost_paths = recorder.lost_paths;
        trace.excess = excess_of(&recorder);
        // Processors record at the same time: the log is in the order of reservation, not of time.
        trace.accesses.sort_by_key(|access| access.time_ns);
        trace.paths.sort_by_key(|path| path.time_ns);
        Ok(trace)
    }

    /// Switches the recorder off. The log then holds all there is.
    fn stop(&mut self) {
        if !std::mem::take(&mut self.is_on) {
            return;
        }
        let (pool, index) = (self.recorder.pool(), self.recorder.index());
        pool.switch_off(index);
        tables::remove_log(pool.object(), index);
    }
}

fn excess_of(recorder: &pf_recorder) -> Option<TraceExcess> {
    let most = u64::from(pf_record_bounds::PF_MOST_EVENTS.0);
    if recorder.flags & pf_record_flags::PF_RECORD_FULL.0 == 0 {
        None
    } else if recorder.tree_events > most {
        Some(TraceExcess::Pages)
    } else {
        Some(TraceExcess::Others)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop();
        tables::remove(self.recorder.pool().object(), self.recorder.index());
    }
}

/// How long to leave events in the log before fetching them, which takes the processor away from the app. It
/// holds 130,000 page events, and launches make some 80,000 in a second; [`Tracer::wake_fd`] wakes when it is
/// half full.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(250);
