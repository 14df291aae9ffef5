//! The learning session: attaches the programs, collects their events.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject, PrintLevel, RingBuffer, RingBufferBuilder};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abilities::{TraceError, check};
use super::event::{TraceEvent, parse};
use super::hooks::ProgramSelection;
use super::launcher::{StartMark, mark_app, mark_tree_root};
use super::log::{Log, parts_for};
use super::namespaces::{Namespaces, own_namespace};
use super::skel::learn::{LearnSkel, LearnSkelBuilder};
use super::syscalls;
use crate::model::Access;
use crate::model::Hooks;
use crate::model::PathUse;

/// Memory that a loaded BPF object lives in; to be kept by the caller while the object is used.
pub struct Storage(Box<MaybeUninit<OpenObject>>);

impl Storage {
    /// An empty storage, for one object.
    #[expect(
        clippy::new_without_default,
        reason = "a default storage makes no sense to ask for"
    )]
    pub fn new() -> Self {
        Storage(Box::new(MaybeUninit::uninit()))
    }

    /// The memory, to open an object in: for those who attach programs of their own beside these.
    pub fn get(&mut self) -> &mut MaybeUninit<OpenObject> {
        &mut self.0
    }
}

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
    /// Paths that could not be recorded: longer than 1 KiB, or gone from memory when they were to be
    /// read. What their look-ups need and was cached is not in the trace.
    pub lost_paths: u64,
    /// Time at which the launch tree's last task exited, CLOCK_MONOTONIC in nanoseconds.
    pub exit_ns: Option<u64>,
    /// Events that were lost because the log was full or could not be read to its end, and tasks that were
    /// because there was no memory to mark them.
    pub lost: u64,
    /// By what means pages that were cached before the launch were seen.
    pub hooks: Hooks,
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

/// What the trace is to be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    /// What is read from the drive, and what of the rest was cached before. A page that was added to
    /// the cache is not reported again when it is used.
    Reads,
    /// What the launch itself uses, cached or not: pages that were added are reported again when they
    /// are used.
    Touches,
    /// What is read from drives only: additions to the caches and, where the kernel tells, the faults
    /// that cause them. Cached pages that are used cost nothing then.
    Additions,
}

/// A learning session, attached from its making to its end.
pub struct Tracer<'obj> {
    skel: LearnSkel<'obj>,
    log: Log,
    wakeups: RingBuffer<'static>,
    collected: Rc<RefCell<Trace>>,
    hooks: Hooks,
}

/// The programs loaded and verified, and nothing attached: what takes long is done before the launch is
/// there. It holds no memory of this process for events yet.
pub struct LoadedTracer<'obj> {
    skel: LearnSkel<'obj>,
    hooks: Hooks,
    log_parts: usize,
}

impl<'obj> LoadedTracer<'obj> {
    /// Loads the programs.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn load(storage: &'obj mut Storage, focus: TraceMode) -> Result<Self, TraceError> {
        check()?;
        capture_warnings();
        let mut open = LearnSkelBuilder::default()
            .open(storage.get())
            .map_err(|error| TraceError::from_bpf("opening the BPF object", error))?;
        let log_parts = parts_for(std::thread::available_parallelism().map_or(1, NonZero::get));
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.page_bytes = rustix::param::page_size() as u32;
            rodata.o_nofollow = libc::O_NOFOLLOW as u32;
            rodata.own_mount_ns = own_namespace("mnt");
            rodata.own_pid_ns = own_namespace("pid");
            rodata.touches_count = focus == TraceMode::Touches;
            rodata.log_parts_log2 = log_parts.ilog2();
        }
        let uses = focus != TraceMode::Additions;
        let choice = ProgramSelection::select(uses)?;
        choice.apply(&mut open);
        open.progs.block_touched.set_autoload(uses);
        open.progs.syscall_done.set_autoload(uses);
        let skel = open
            .load()
            .map_err(|error| TraceError::from_bpf("loading the BPF programs", error))?;
        syscalls::fill(&skel.maps.syscalls)?;
        Ok(LoadedTracer {
            skel,
            hooks: choice.hooks(),
            log_parts,
        })
    }

    /// Attaches the programs and makes the calling thread, which must be the process's main thread, the
    /// launcher. `cgroup` is as in [`Tracer::attach_with`].
    ///
    /// # Errors
    /// When the programs cannot be attached.
    pub fn launcher(self, cgroup: Option<u64>) -> Result<Tracer<'obj>, TraceError> {
        mark_tree_root(&self.skel.maps.roles)?;
        self.attach(cgroup)
    }

    /// Attaches the programs and begins to record a process that somebody else has started, which is about
    /// to execute the app or has just done so. Threads and children that it has already are not of the
    /// launch.
    ///
    /// # Errors
    /// When the programs cannot be attached, or the process is gone.
    pub fn adopt(self, pid: Pid) -> Result<Tracer<'obj>, TraceError> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| TraceError::system("opening a pidfd", error.into()))?;
        let mut tracer = self.attach(None)?;
        mark_app(&tracer.skel.maps.roles, pidfd.as_fd())?;
        let id = pid.as_raw_nonzero().get().to_ne_bytes();
        tracer
            .skel
            .maps
            .tree_threads
            .update(&id, &[1], MapFlags::ANY)
            .map_err(|error| TraceError::from_bpf("naming a launch's first thread", error))?;
        if let Some(bss) = tracer.skel.maps.bss_data.as_deref_mut() {
            bss.live_tasks = 1;
        }
        tracer.start_mark().set();
        Ok(tracer)
    }

    fn attach(mut self, cgroup: Option<u64>) -> Result<Tracer<'obj>, TraceError> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.launch_cgroup = cgroup.unwrap_or(0);
        }
        let log = Log::map(self.skel.maps.event_log.as_fd(), self.log_parts)?;
        let collected = Rc::new(RefCell::new(Trace::default()));
        let sink = Rc::clone(&collected);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.skel.maps.wakeups, move |record| {
                sink.borrow_mut().take(record);
                0
            })
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let wakeups = builder
            .build()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        self.skel
            .attach()
            .map_err(|error| TraceError::from_bpf("attaching the BPF programs", error))?;
        Ok(Tracer {
            skel: self.skel,
            log,
            wakeups,
            collected,
            hooks: self.hooks,
        })
    }
}

impl<'obj> Tracer<'obj> {
    /// Loads and attaches the programs and makes the calling thread, which must be the process's
    /// main thread, the launcher. Recording starts when the child sets the [`StartMark`].
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(storage: &'obj mut Storage, focus: TraceMode) -> Result<Self, TraceError> {
        Self::attach_with(storage, focus, None)
    }

    /// The same for a launch that has a cgroup of its own, of this number: tasks in it that did not grow
    /// from the launch count as if they had.
    ///
    /// # Errors
    /// As [`Tracer::attach`].
    pub fn attach_with(
        storage: &'obj mut Storage,
        focus: TraceMode,
        cgroup: Option<u64>,
    ) -> Result<Self, TraceError> {
        LoadedTracer::load(storage, focus)?.launcher(cgroup)
    }

    /// By what means this session sees pages that are cached already.
    pub fn hooks(&self) -> Hooks {
        self.hooks
    }

    /// What the child must set as its last act before execve.
    pub fn start_mark(&mut self) -> StartMark {
        let bss = self
            .skel
            .maps
            .bss_data
            .as_deref_mut()
            .expect("a loaded object with globals has its .bss mapped");
        // SAFETY: it points into the mapped .bss; the object outlives the launch.
        unsafe { StartMark::new(&raw mut bss.active_since_ns) }
    }

    /// Readable when the launch tree has ended, when it uses a mount namespace that is new, which should be
    /// seen before it ends, and when another half of a part of the log is full. Other events do not wake:
    /// [`Tracer::drain`] fetches them whenever it is called.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.wakeups.epoll_fd()) }
    }

    /// Fetches what has been recorded since the last call.
    pub fn drain(&mut self) -> Result<(), TraceError> {
        self.fetch().map(|_| ())
    }

    /// Returns in how many parts of the log something stays behind that is being written.
    fn fetch(&mut self) -> Result<usize, TraceError> {
        // First: who hears of the end shall have what was before it, too.
        self.wakeups
            .consume()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let trace = &mut *self.collected.borrow_mut();
        let known = trace.accesses.len();
        let behind = self.log.drain(|record| trace.take(record));
        // Each processor has recorded by itself.
        trace.accesses[known..].sort_by_key(|access| access.time_ns);
        Ok(behind)
    }

    /// Ids of the launch tree's threads that are alive, 1024 of them at most.
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        let keys = self.skel.maps.tree_threads.keys();
        // While threads come and go, the kernel may begin anew.
        keys.take(MOST_THREADS)
            .filter_map(|key| Some(i32::from_ne_bytes(*key.first_chunk()?)))
    }

    /// Takes away what has been fetched so far, so that a long recording needs no more memory than
    /// its reader keeps. What two calls of [`Tracer::drain`] fetched is almost, but not quite, in the
    /// order of time.
    pub fn take_accesses(&mut self) -> Vec<Access> {
        std::mem::take(&mut self.collected.borrow_mut().accesses)
    }

    /// What has been fetched so far.
    pub fn with_trace<T>(&mut self, look: impl FnOnce(&Trace) -> T) -> T {
        let start_ns = self.start_mark().get();
        let mut trace = self.collected.borrow_mut();
        trace.start_ns = start_ns;
        look(&trace)
    }

    /// Detaches the programs and returns all that was recorded.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        // Detach first, so that what is then in the log is all there is.
        self.skel.links = Default::default();
        let mut behind = self.fetch()?;
        // A program that was under way on another processor writes for a microsecond yet.
        for _ in 0..LAST_TRIES {
            if behind == 0 {
                break;
            }
            std::thread::yield_now();
            behind = self.fetch()?;
        }
        let start_ns = self.start_mark().get();
        let mut trace = self.collected.take();
        trace.start_ns = start_ns;
        trace.hooks = self.hooks;
        trace.lost += behind as u64;
        if let Some(bss) = self.skel.maps.bss_data.as_deref() {
            trace.lost += bss.lost_events + bss.lost_tasks;
            trace.lost_paths = bss.lost_paths;
        }
        // What was being recorded while the rest was fetched comes late.
        trace.accesses.sort_by_key(|access| access.time_ns);
        trace.paths.sort_by_key(|path| path.time_ns);
        Ok(trace)
    }
}

static LAST_WARNING: Mutex<Option<String>> = Mutex::new(None);

/// Keeps libbpf from writing to the terminal; its last warning becomes part of the error.
pub(crate) fn capture_warnings() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut last) = LAST_WARNING.lock() {
            *last = Some(message.trim().to_owned());
        }
    })));
}

pub(super) fn last_warning() -> Option<String> {
    LAST_WARNING.lock().ok()?.take()
}

/// Threads that are told of at most: as many as the programs note.
const MOST_THREADS: usize = 1024;

/// How often the end of the log is looked for once nothing is attached: some milliseconds.
const LAST_TRIES: usize = 10_000;

/// How long to leave events in the log before fetching them, which takes the processor away from the app. It
/// holds 170,000, and launches make some 80,000 in a second; where one processor makes more than its share,
/// [`Tracer::wake_fd`] wakes.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(250);
