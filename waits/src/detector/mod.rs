//! Who waits for whom: tasks that sleep uninterruptibly, for how long, for what, and whose write it was.
//!
//! The programs' source is `bpf/waits.bpf.c`, whose head explains them. For each sleep that is long
//! enough they report the kernel's stack and all evidence of what the task was about to wait for; here the stack is
//! classified by the names of its functions, each stack once, and the evidence that agrees with it is taken.
//!
//! | cause | how it is told | device, file, block | for whom | since |
//! |---|---|---|---|---|
//! | sync | stack: a page's writeback, in fsync, truncate, sync; the page was not in the task's own synchronous write | file | who last made pages of the file dirty, or whose writes the drive is busy with | 6.1 |
//! | metadata | stack: a buffer's lock or I/O, and no request of the task's own; or writeback of a page of the block device | device, block | the drive's writer | 6.1 |
//! | data | stack: a page's writeback, on the way to change it | file | as sync | 6.1 |
//! | discard | stack: a request, below a function that discards | device, block | the drive's writer | 6.1 |
//! | journal-handle | stack: a transaction is locked | device; file (6.3) | who stopped the last handle of the locked transaction | 6.1 |
//! | journal-commit | stack: the commit of a transaction | device, file | the drive's writer | 6.1 |
//! | journal-buffer | stack: a buffer that the commit writes, on the way to change it | device; file (6.3) | the drive's writer | 6.1 |
//! | journal-space | stack: a commit, buffer or lock, below a checkpoint | device; file (6.3) | the drive's writer | 6.1 |
//! | tag | stack | device, block | the drive's writer | 6.1 |
//! | writeback-throttle | stack | device, block | the drive's writer | 6.1 |
//! | dirty-throttle | stack | | | 6.1 |
//! | memory-throttle | stack: memory.high, or anything below reclaim | | | 6.1 |
//! | lock | stack: mutex, semaphore, a page's lock | | who holds the mutex, or the semaphore for writing | 6.1 |
//! | scheduler | the task's own request was not issued for most of the wait | device, file, block | the drive's writer | 6.1 |
//! | drive | the task's own request was issued, or is not known | device, file, block | the drive's writer | 6.1 |
//! | unknown | none of these | | | 6.1 |
//!
//! The drive's writer is whose writes make up most of what the drive was given since it was last idle. A wait
//! ends when the task runs again: on a busy machine it includes the wait for a processor.
//!
//! The types of ext4 and its journal are in their modules' type information where they are modules. Programs whose
//! tracepoint the kernel does not have, or whose module is not loaded yet, are left out, and
//! [`WaitDetector::missing`] says what cannot be told then.

mod evidence;
mod object;
mod skel;
mod stack;
mod symbols;
mod tracepoints;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{Iter, RingBuffer, RingBufferBuilder};
use paralfetch::kernel::{TraceError, check};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use self::evidence::{explain, parse};
use self::object::DetectorObject;
use self::skel::types::pf_wait;
use self::stack::{Sleep, classify};
use self::symbols::Symbols;
use self::tracepoints::Tracepoints;
use crate::Wait;

/// What is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitOptions {
    /// Shorter waits are not reported.
    pub least: Duration,
    /// Only waits of this process and its descendants. Of those from before, one whose parent has ended is missing.
    /// `None`: of all.
    pub only: Option<Pid>,
}

impl Default for WaitOptions {
    /// Waits of a millisecond and longer, of all tasks.
    fn default() -> Self {
        WaitOptions {
            least: Duration::from_millis(1),
            only: None,
        }
    }
}

/// What the detector itself has cost since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetectorCost {
    /// Run time of its BPF programs; `None` if the kernel does not measure that (sysctl
    /// kernel.bpf_stats_enabled is 0).
    pub programs: Option<Duration>,
    /// Processor time that this process spent in the detector's own calls.
    pub reader: Duration,
}

/// The detector, attached as long as it exists.
pub struct WaitDetector {
    ring: RingBuffer<'static>,
    reports: Rc<RefCell<Reports>>,
    symbols: Symbols,
    /// What each stack that was seen waits for.
    stacks: RefCell<HashMap<Vec<u64>, Sleep>>,
    missing: Vec<String>,
    /// Waits that the last list of those under way had no room for.
    unlisted: Cell<u64>,
    reader: Cell<Duration>,
    /// Declared last: its maps are read by the rest.
    object: DetectorObject,
}

/// Reports that were fetched from the ring buffer.
#[derive(Default)]
struct Reports {
    waits: Vec<pf_wait>,
    /// Records that were no reports.
    damaged: u64,
}

/// Stacks that are remembered. A kernel under load shows some hundreds.
const MOST_STACKS: usize = 8192;

/// Waits under way that are listed at a time.
const MOST_WAITING: usize = 4096;

impl WaitDetector {
    /// Loads and attaches the programs: some tenths of a second, most of it for the kernel's type information and
    /// symbols.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn start(options: &WaitOptions) -> Result<Self, TraceError> {
        let started = thread_time();
        check()?;
        let tracepoints = Tracepoints::read()?;
        let symbols = Symbols::read(&stack::functions())
            .map_err(|error| TraceError::system("reading /proc/kallsyms", error))?;
        let mut missing = tracepoints.missing();
        if symbols.are_hidden() {
            missing.push(
                "what any task waits for: the kernel hides the addresses of its functions \
                 (sysctl kernel.kptr_restrict is 2, or CAP_SYSLOG is missing)"
                    .to_owned(),
            );
        }
        let object = DetectorObject::start(options, &tracepoints)?;
        let reports = Rc::new(RefCell::new(Reports::default()));
        let sink = Rc::clone(&reports);
        let take = move |record: &[u8]| {
            let mut reports = sink.borrow_mut();
            match parse(record) {
                Some(wait) => reports.waits.push(wait),
                None => reports.damaged += 1,
            }
            0
        };
        let read = || {
            let mut builder = RingBufferBuilder::new();
            builder.add(&object.reports, take)?;
            builder.build()
        };
        let ring =
            read().map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let detector = WaitDetector {
            ring,
            reports,
            symbols,
            stacks: RefCell::default(),
            missing,
            unlisted: Cell::new(0),
            reader: Cell::new(thread_time().saturating_sub(started)),
            object,
        };
        // The programs list new tasks; this lists those that there are.
        detector.waiting()?;
        Ok(detector)
    }

    /// Waits that have ended since the last call, in the order in which they ended; waits for one for up to
    /// `timeout` if there is none.
    ///
    /// # Errors
    /// When the ring buffer cannot be read.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<Wait>, TraceError> {
        let started = thread_time();
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) };
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut [PollFd::new(&ring, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(TraceError::system(
                    "waiting for the ring buffer",
                    error.into(),
                ));
            }
        }
        self.ring
            .consume()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let raw = std::mem::take(&mut self.reports.borrow_mut().waits);
        let waits = raw.iter().map(|raw| self.explained(raw, false)).collect();
        self.note_cost(started);
        Ok(waits)
    }

    /// Waits that are under way and have lasted for the least duration already, the longest first; of more than 4096 of
    /// them, only the first so many that the kernel lists.
    ///
    /// # Errors
    /// When the kernel's list of tasks cannot be read.
    pub fn waiting(&self) -> Result<Vec<Wait>, TraceError> {
        let started = thread_time();
        let failed = |error| TraceError::system("listing the tasks that wait", error);
        let size = size_of::<pf_wait>();
        let tasks = Iter::new(&self.object.under_way)
            .map_err(|error| TraceError::from_bpf("listing the tasks that wait", error))?;
        let mut listed = tasks.take((MOST_WAITING * size) as u64);
        let mut records = Vec::new();
        listed.read_to_end(&mut records).map_err(failed)?;
        // The program must come to the end of the list: it watches no task that it has not seen.
        let rest = io::copy(&mut listed.into_inner(), &mut io::sink()).map_err(failed)?;
        self.unlisted.set(rest / size as u64);
        let raw = records.chunks_exact(size).filter_map(parse);
        let mut waits: Vec<Wait> = raw.map(|raw| self.explained(&raw, true)).collect();
        waits.sort_by_key(|wait| wait.start_ns);
        self.note_cost(started);
        Ok(waits)
    }

    /// Waits that were lost because the ring buffer was full or memory was short, and those under way that were not in
    /// the last list of [`WaitDetector::waiting`] because it was full.
    pub fn lost(&self) -> u64 {
        self.object.lost() + self.reports.borrow().damaged + self.unlisted.get()
    }

    /// What the detector has cost so far, its start included.
    pub fn cost(&self) -> DetectorCost {
        DetectorCost {
            programs: self.object.run_time(),
            reader: self.reader.get(),
        }
    }

    /// What this kernel cannot tell, a clause each.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    fn explained(&self, raw: &pf_wait, under_way: bool) -> Wait {
        explain(raw, self.sleep(evidence::stack(raw)), under_way)
    }

    fn sleep(&self, stack: &[u64]) -> Sleep {
        let mut stacks = self.stacks.borrow_mut();
        if let Some(sleep) = stacks.get(stack) {
            return *sleep;
        }
        let sleep = classify(&self.symbols.names(stack));
        if stacks.len() >= MOST_STACKS {
            stacks.clear();
        }
        stacks.insert(stack.to_vec(), sleep);
        sleep
    }

    fn note_cost(&self, started: Duration) {
        let spent = thread_time().saturating_sub(started);
        self.reader.set(self.reader.get() + spent);
    }
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
