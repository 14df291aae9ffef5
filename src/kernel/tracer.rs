//! The learning session: attaches the programs, collects their events.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abilities::TraceError;
use super::event::{TraceEvent, parse};
use super::globals::{Globals, empty_slot};
use super::hooks::ProgramSelection;
use super::launcher::{StartMark, mark_task, mark_tree_root};
use super::namespaces::{Namespaces, own_namespace};
use super::object::{Storage, attach, load, open, ring_reader};
use super::skel::ParalfetchSkel;
use super::skel::types::{pf_launch, pf_record_flags, pf_recorder, pf_role};
use super::slots::take;
use super::{syscalls, tables};
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
    /// Paths that could not be recorded: longer than 1 KiB, or gone from memory when they were to be
    /// read. What their look-ups need and was cached is not in the trace.
    pub lost_paths: u64,
    /// Time at which the launch tree's last task exited, CLOCK_MONOTONIC in nanoseconds.
    pub exit_ns: Option<u64>,
    /// Events that were lost because the log was full, and tasks that were lost because there was no memory
    /// to mark them.
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
    skel: ParalfetchSkel<'obj>,
    globals: Globals<'obj>,
    /// Number of the launch.
    launch: u64,
    log: RingBuffer<'static>,
    collected: Rc<RefCell<Trace>>,
    hooks: Hooks,
}

/// The programs loaded and verified, and nothing attached: what takes long is done before the launch is
/// there. It holds no memory of this process for events yet.
pub struct LoadedTracer<'obj> {
    skel: ParalfetchSkel<'obj>,
    globals: Globals<'obj>,
    log: MapHandle,
    hooks: Hooks,
    flags: u32,
}

/// The recorder that a session uses, of those of its object.
const RECORDER: u32 = 0;

impl<'obj> LoadedTracer<'obj> {
    /// Loads the programs.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn load(storage: &'obj mut Storage, focus: TraceMode) -> Result<Self, TraceError> {
        let mut open = open(storage)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.page_bytes = rustix::param::page_size() as u32;
            rodata.o_nofollow = libc::O_NOFOLLOW as u32;
            rodata.own_mount_ns = own_namespace("mnt");
            rodata.own_pid_ns = own_namespace("pid");
        }
        let uses = focus != TraceMode::Additions;
        let selection = ProgramSelection::select(uses)?;
        selection.apply(&mut open);
        let progs = &mut open.progs;
        for program in [
            &mut progs.program_executed,
            &mut progs.task_forked,
            &mut progs.task_exited,
            &mut progs.page_added,
            &mut progs.exec_paths,
        ] {
            program.set_autoload(true);
        }
        progs.block_touched.set_autoload(uses);
        progs.syscall_done.set_autoload(uses);
        let (skel, globals) = load(open)?;
        syscalls::fill(&skel.maps.syscalls)?;
        let flags = match focus {
            TraceMode::Touches => pf_record_flags::PF_RECORD_TOUCHES.0,
            TraceMode::Reads | TraceMode::Additions => 0,
        };
        Ok(LoadedTracer {
            log: tables::make(&skel.maps, RECORDER)?,
            skel,
            globals,
            hooks: selection.hooks(),
            flags,
        })
    }

    /// Attaches the programs and makes the calling thread, which must be the process's main thread, the
    /// launcher. `cgroup` is as in [`Tracer::attach_with`].
    ///
    /// # Errors
    /// When the programs cannot be attached.
    pub fn launcher(self, cgroup: Option<u64>) -> Result<Tracer<'obj>, TraceError> {
        let tracer = self.attach(cgroup, 0)?;
        mark_tree_root(&tracer.skel.maps.members, tracer.launch)?;
        Ok(tracer)
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
        let tracer = self.attach(None, 1)?;
        let maps = &tracer.skel.maps;
        let role = pf_role::PF_ROLE_STARTING;
        mark_task(&maps.members, pidfd.as_fd(), tracer.launch, role)?;
        maps.launch_threads
            .update(
                &pid.as_raw_nonzero().get().to_ne_bytes(),
                &tracer.launch.to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(|error| TraceError::from_bpf("listing a launch's first thread", error))?;
        tracer.mark().set();
        Ok(tracer)
    }

    /// Attaches the programs for a launch with so many tasks.
    fn attach(mut self, cgroup: Option<u64>, tasks: u64) -> Result<Tracer<'obj>, TraceError> {
        let slot = pf_launch {
            tasks,
            recorder: RECORDER + 1,
            ..empty_slot()
        };
        let launch = take(&self.globals, slot).expect("a new object has free slots");
        let recorder = pf_recorder {
            launch,
            cgroup: cgroup.unwrap_or(0),
            flags: self.flags,
            ..Default::default()
        };
        self.globals.set_recorder(RECORDER, recorder);
        let on = self.globals.recording();
        on.store(RECORDER + 1, Ordering::Release);
        let collected = Rc::new(RefCell::new(Trace::default()));
        let sink = Rc::clone(&collected);
        let log = ring_reader(&self.log, move |record| sink.borrow_mut().take(record))?;
        attach(&mut self.skel)?;
        Ok(Tracer {
            skel: self.skel,
            globals: self.globals,
            launch,
            log,
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
        self.mark()
    }

    fn mark(&self) -> StartMark {
        self.globals.slot(self.launch).start_mark()
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

    /// Ids of the launch tree's threads that are alive, 1024 of them at most.
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        let keys = self.skel.maps.launch_threads.keys();
        // While threads come and go, the kernel may begin anew.
        keys.take(MOST_THREADS)
            .filter_map(|key| Some(i32::from_ne_bytes(*key.first_chunk()?)))
    }

    /// Takes away what has been fetched so far, so that a long recording needs no more memory than
    /// its reader keeps. Events of several processors are almost, but not quite, in the order of time.
    pub fn take_accesses(&mut self) -> Vec<Access> {
        std::mem::take(&mut self.collected.borrow_mut().accesses)
    }

    /// What has been fetched so far.
    pub fn with_trace<T>(&mut self, look: impl FnOnce(&Trace) -> T) -> T {
        let start_ns = self.mark().get();
        let mut trace = self.collected.borrow_mut();
        trace.start_ns = start_ns;
        look(&trace)
    }

    /// Detaches the programs and returns all that was recorded.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        // Detach first, so that the log then holds all there is.
        self.skel.links = Default::default();
        self.drain()?;
        let recorder = self.globals.recorder(RECORDER);
        let mut trace = self.collected.take();
        trace.start_ns = self.mark().get();
        trace.hooks = self.hooks;
        trace.lost += recorder.lost_events + self.globals.lost_tasks();
        trace.lost_paths = recorder.lost_paths;
        // Processors record at the same time: the log is in the order of reservation, not of time.
        trace.accesses.sort_by_key(|access| access.time_ns);
        trace.paths.sort_by_key(|path| path.time_ns);
        Ok(trace)
    }
}

/// Threads that are listed at most: as many as the programs note.
const MOST_THREADS: usize = 1024;

/// How long to leave events in the log before fetching them, which takes the processor away from the app. It
/// holds 130,000 page events, and launches make some 80,000 in a second; [`Tracer::wake_fd`] wakes when it is
/// half full.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(250);
