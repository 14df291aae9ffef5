//! The recorders of the loaded object: which of them are free, and the programs that work for all of them.
//!
//! A launch that is to be recorded has to be seen from its first page on, and nobody waits for that. So while such a launch
//! is expected ([`RecorderPool::keep_ready`]), one recorder has its tables, which take 12 MiB of kernel memory, and the
//! programs that see pages are attached. They look at one word and return until the program at execve's entry switches
//! that recorder on (`claim_recorder` in `bpf/recorders.h`). The program that sees paths costs every system call of the
//! system more: it is attached once a launch is recorded, a few milliseconds after its beginning.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::MapHandle;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abilities::TraceError;
use super::globals::{RECORDERS, empty_slot};
use super::hooks::{Kernel, ProgramSelection};
use super::launcher::{mark_task, mark_tree_root, monotonic_ns};
use super::object::{LoadedObject, attach, load, loaded, open};
use super::skel::ParalfetchSkel;
use super::skel::types::{pf_launch, pf_record_flags, pf_recorder, pf_role};
use super::slots::take;
use super::tracer::Tracer;
use super::{syscalls, tables};
use crate::model::Hooks;

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

/// The recorders, shared by the threads that learn.
pub struct RecorderPool {
    object: Arc<LoadedObject>,
    /// Attached while a launch is expected or recorded.
    page_programs: Vec<OwnedFd>,
    /// Attached while a launch is recorded.
    path_programs: Vec<OwnedFd>,
    hooks: Hooks,
    flags: u32,
    places: Mutex<[RecorderPlace; RECORDERS]>,
    attached: Mutex<RecorderLinks>,
    /// Whether a launch is expected: the programs that see pages are attached for that. Also readable while they are being
    /// attached.
    expects: AtomicBool,
    /// Recorders that launches have claimed and that are not counted in [`RecorderLinks::on`] yet.
    claims: AtomicUsize,
}

/// What is known of a recorder.
#[derive(Default)]
struct RecorderPlace {
    /// Somebody has a lease of it, or it waits for a launch.
    is_taken: bool,
    /// The recorder waits for a launch, or one has claimed it whose report has not been read.
    is_waiting: bool,
    /// The recorder's log, if its tables have been made for its next recording.
    log: Option<MapHandle>,
}

#[derive(Default)]
struct RecorderLinks {
    /// Recorders that are on.
    on: usize,
    pages: Vec<OwnedFd>,
    paths: Vec<OwnedFd>,
}

// Nothing can panic while a lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RecorderPool {
    /// Loads the object for one recording, and makes the recorder ready: what takes long is done before the
    /// launch is there. Nothing is attached yet.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn load(mode: TraceMode) -> Result<RecorderLease, TraceError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage)?;
        let selection =
            ProgramSelection::select(&Kernel::running()?, mode != TraceMode::Additions)?;
        selection.apply(&mut open);
        let progs = &mut open.progs;
        for program in [
            &mut progs.program_executed,
            &mut progs.task_forked,
            &mut progs.task_exited,
        ] {
            program.set_autoload(true);
        }
        let skel = load(open)?;
        let object = Arc::new(LoadedObject::of(&skel.maps)?);
        let mut pool = Self::of(&skel, object, selection.hooks(), mode)?;
        let progs = &skel.progs;
        // They come first: they set the membership that the other programs read.
        let tree = [
            &progs.program_executed,
            &progs.task_forked,
            &progs.task_exited,
        ];
        pool.page_programs.splice(0..0, loaded(&tree)?);
        let lease = Arc::new(pool).take().expect("no recorder is taken yet");
        lease.prepare()?;
        Ok(lease)
    }

    /// The recorders of an object that was loaded with the programs of a [`ProgramSelection`].
    ///
    /// # Errors
    /// When a map refuses an entry, or a descriptor cannot be duplicated.
    pub(super) fn of(
        skel: &ParalfetchSkel<'_>,
        object: Arc<LoadedObject>,
        hooks: Hooks,
        mode: TraceMode,
    ) -> Result<Self, TraceError> {
        syscalls::fill(&skel.maps.syscalls)?;
        let progs = &skel.progs;
        let page_programs = loaded(&[
            &progs.exec_paths,
            &progs.page_added,
            &progs.pages_read,
            &progs.older_pages_read_iter,
            &progs.older_pages_read,
            &progs.page_faulted,
            &progs.older_page_faulted,
            &progs.pages_mapped,
            &progs.older_pages_mapped,
            &progs.block_touched,
        ])?;
        let path_programs = loaded(&[&progs.syscall_done])?;
        let bounded = pf_record_flags::PF_RECORD_BOUNDED.0;
        let flags = match mode {
            TraceMode::Touches => bounded | pf_record_flags::PF_RECORD_TOUCHES.0,
            TraceMode::Reads => bounded,
            // Who asks for these keeps none of them.
            TraceMode::Additions => 0,
        };
        Ok(RecorderPool {
            object,
            page_programs,
            path_programs,
            hooks,
            flags,
            places: Mutex::default(),
            attached: Mutex::default(),
            expects: AtomicBool::new(false),
            claims: AtomicUsize::new(0),
        })
    }

    /// Takes a recorder that is free. `None` if all are taken.
    pub fn take(self: &Arc<Self>) -> Option<RecorderLease> {
        let mut places = lock(&self.places);
        let index = places.iter().position(|place| !place.is_taken)?;
        places[index].is_taken = true;
        Some(self.lease(index as u32))
    }

    /// Takes the recorder that waits for a launch: its tables are made. `None` if none does, or a launch has claimed it
    /// meanwhile.
    pub fn take_ready(self: &Arc<Self>) -> Option<RecorderLease> {
        let ready = self
            .object
            .globals
            .ready_recorder()
            .swap(0, Ordering::AcqRel);
        self.waiting(ready.checked_sub(1)?)
    }

    /// The recorder with this index, if it waits for a launch or has been claimed by one; it does so no longer.
    fn waiting(self: &Arc<Self>, index: u32) -> Option<RecorderLease> {
        let was_waiting = mem::take(&mut lock(&self.places)[index as usize].is_waiting);
        was_waiting.then(|| self.lease(index))
    }

    fn lease(self: &Arc<Self>, index: u32) -> RecorderLease {
        RecorderLease {
            pool: Arc::clone(self),
            index,
        }
    }

    /// Whether all is as [`RecorderPool::keep_ready`] makes it.
    pub fn is_kept(&self, wanted: bool) -> bool {
        self.is_ready() == wanted && self.expects.load(Ordering::Acquire) == wanted
    }

    /// Whether a recorder waits for a launch.
    pub fn is_ready(&self) -> bool {
        self.object.globals.ready_recorder().load(Ordering::Acquire) != 0
    }

    /// Has one recorder wait for a launch, unless one does, or has none wait. Takes tens of milliseconds.
    ///
    /// # Errors
    /// When the kernel has no memory, or refuses a program.
    pub fn keep_ready(self: &Arc<Self>, wanted: bool) -> Result<(), TraceError> {
        let globals = &self.object.globals;
        if !wanted {
            drop(self.take_ready());
            self.expects.store(false, Ordering::Release);
            return self.attach_as_needed(|_| ());
        }
        if self.is_ready() {
            return Ok(());
        }
        let lease = self.take().ok_or_else(|| {
            let taken = io::Error::other("all recorders are taken");
            TraceError::system("having one wait for a launch", taken)
        })?;
        lease.prepare()?;
        self.expects.store(true, Ordering::Release);
        self.attach_as_needed(|_| ())?;
        globals.set_recorder(lease.index, self.new_recorder(None));
        let index = lease.index;
        // Whoever claims it has the lease.
        mem::forget(lease);
        lock(&self.places)[index as usize].is_waiting = true;
        // Last: from here on, programs use it.
        let ready = globals.ready_recorder();
        let kept = ready.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Relaxed);
        if kept.is_err() {
            // Another thread was faster.
            drop(self.waiting(index));
        }
        Ok(())
    }

    /// The recorder that the kernel has switched on for this launch (`claim_recorder`). `None` if there is none, or it has been
    /// asked for before.
    pub fn claimed(self: &Arc<Self>, launch: u64) -> Option<ClaimedRecorder> {
        let globals = &self.object.globals;
        let index = globals
            .slot(launch)
            .recorder()
            .load(Ordering::Acquire)
            .checked_sub(1)?;
        let is_its = globals.recorded_launch(index).load(Ordering::Acquire) == launch;
        // First: what sees pages stays attached.
        let claim = RecorderClaim::of(self);
        let lease = is_its.then(|| self.waiting(index)).flatten()?;
        Some(ClaimedRecorder(Some(ClaimedLease { lease, claim })))
    }

    /// By what means pages that are cached already are seen.
    pub(super) fn hooks(&self) -> Hooks {
        self.hooks
    }

    pub(super) fn object(&self) -> &LoadedObject {
        &self.object
    }

    fn new_recorder(&self, cgroup: Option<u64>) -> pf_recorder {
        pf_recorder {
            cgroup: cgroup.unwrap_or(0),
            flags: self.flags,
            ..Default::default()
        }
    }

    /// Switches a recorder on for a launch, and attaches the programs if it is the first.
    fn switch_on(&self, index: u32, launch: u64, cgroup: Option<u64>) -> Result<(), TraceError> {
        let globals = &self.object.globals;
        globals.set_recorder(index, self.new_recorder(cgroup));
        globals
            .recorded_launch(index)
            .store(launch, Ordering::Release);
        // Before programs are attached, which takes tens of milliseconds: of a launch that was expected, pages are seen
        // already.
        let slot = globals.slot(launch);
        if slot.number().load(Ordering::Acquire) == launch {
            slot.recorder().store(index + 1, Ordering::Release);
        }
        self.count_on(index)
    }

    /// Counts a recorder that is on, and attaches the programs if it is the first.
    fn count_on(&self, index: u32) -> Result<(), TraceError> {
        let attached = self.attach_as_needed(|attached| {
            attached.on += 1;
            self.set_recording();
        });
        if attached.is_err() {
            self.switch_off(index);
        }
        attached
    }

    /// Has neither the recorder nor the slot of its launch lead to the other.
    fn forget_launch(&self, index: u32) {
        let globals = &self.object.globals;
        let launch = globals.recorded_launch(index).swap(0, Ordering::AcqRel);
        // The slot may be another launch's by now, which has another recorder or none.
        let _ = globals.slot(launch).recorder().compare_exchange(
            index + 1,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Switches a recorder off, and detaches the programs if it was the last that is on and none is expected.
    pub(super) fn switch_off(&self, index: u32) {
        self.forget_launch(index);
        // What is to stay attached for another launch is tried again when a recorder is kept ready for it.
        let _ = self.attach_as_needed(|attached| {
            attached.on -= 1;
            self.set_recording();
        });
    }

    /// Attaches and detaches programs by what is needed after a change.
    fn attach_as_needed(&self, change: impl FnOnce(&mut RecorderLinks)) -> Result<(), TraceError> {
        let mut attached = lock(&self.attached);
        change(&mut attached);
        let on = attached.on > 0;
        // A launch may have claimed the recorder that waits although none is expected any more.
        let waits = lock(&self.places).iter().any(|place| place.is_waiting);
        let has_claims = self.claims.load(Ordering::Acquire) > 0;
        let expects = waits || has_claims || self.expects.load(Ordering::Acquire);
        let set = |links: &mut Vec<OwnedFd>, programs: &[OwnedFd], wanted: bool| {
            match (wanted, links.is_empty()) {
                (true, true) => *links = attach(programs)?,
                (false, false) => links.clear(),
                _ => {}
            }
            Ok(())
        };
        set(&mut attached.pages, &self.page_programs, on || expects)
            .and_then(|()| set(&mut attached.paths, &self.path_programs, on))
            .map_err(|error| TraceError::system("attaching the BPF programs", error))
    }

    /// Tells the programs how many recorders to look at, those among them that launches have claimed. Called with `attached`
    /// locked.
    fn set_recording(&self) {
        let globals = &self.object.globals;
        // First: a launch that claims one from here on is not forgotten.
        globals.claimed_recorder().swap(0, Ordering::SeqCst);
        let is_on = |index: &u32| globals.recorded_launch(*index).load(Ordering::Acquire) != 0;
        let last = (0..RECORDERS as u32).rev().find(is_on);
        let count = last.map_or(0, |last| last + 1);
        globals.recording().store(count, Ordering::Release);
    }
}

/// A recorder that the kernel has switched on for a launch. If this is dropped, nothing of the launch is wanted, and the
/// recorder is switched off, which takes tens of milliseconds.
pub struct ClaimedRecorder(Option<ClaimedLease>);

struct ClaimedLease {
    lease: RecorderLease,
    /// Until the recorder counts as one that is on.
    claim: RecorderClaim,
}

/// Keeps what sees pages attached.
struct RecorderClaim(Arc<RecorderPool>);

impl RecorderClaim {
    fn of(pool: &Arc<RecorderPool>) -> Self {
        pool.claims.fetch_add(1, Ordering::AcqRel);
        RecorderClaim(Arc::clone(pool))
    }
}

impl Drop for RecorderClaim {
    fn drop(&mut self) {
        self.0.claims.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ClaimedRecorder {
    /// Goes on recording the launch that has claimed it.
    ///
    /// # Errors
    /// When the programs that see paths cannot be attached.
    pub fn record(mut self, launch: u64) -> Result<Tracer, TraceError> {
        let claimed = self.0.take().expect("nothing takes it before");
        let pool = Arc::clone(&claimed.lease.pool);
        let index = claimed.lease.index;
        pool.count_on(index)?;
        drop(claimed.claim);
        let log = claimed.lease.take_log();
        let log = log.expect("a recorder that waits has one");
        let tracer = Tracer::new(claimed.lease, launch, log);
        let mut tracer = tracer.inspect_err(|_| pool.switch_off(index))?;
        tracer.is_on = true;
        Ok(tracer)
    }
}

impl Drop for ClaimedRecorder {
    fn drop(&mut self) {
        let Some(ClaimedLease { lease, claim }) = self.0.take() else {
            return;
        };
        let pool = &lease.pool;
        pool.forget_launch(lease.index);
        drop(claim);
        // What is to stay attached for another launch is tried again when a recorder is kept ready for it.
        let _ = pool.attach_as_needed(|_| pool.set_recording());
    }
}

/// A recorder that nobody else uses until this is dropped.
pub struct RecorderLease {
    pool: Arc<RecorderPool>,
    index: u32,
}

impl RecorderLease {
    /// Begins to record a launch that the calling thread, which must be the process's main thread, starts: it
    /// becomes the launcher. Recording starts when the child sets the [`StartMark`](super::StartMark).
    /// `cgroup` is the number of a cgroup that the launch has to itself: tasks in it that did not grow from
    /// the launch count as if they had.
    ///
    /// # Errors
    /// When the programs cannot be attached.
    pub fn launcher(self, cgroup: Option<u64>) -> Result<Tracer, TraceError> {
        let launch = self.begin(0);
        let pool = Arc::clone(&self.pool);
        let tracer = self.trace(launch, cgroup)?;
        mark_tree_root(&pool.object.members, launch)?;
        Ok(tracer)
    }

    /// Begins to record a process that somebody else has started, which is about to execute the app or has
    /// just done so, as a launch of its own. Threads and children that it has already are not of the launch.
    ///
    /// # Errors
    /// When the programs cannot be attached, or the process is gone.
    pub fn adopt(self, pid: Pid) -> Result<Tracer, TraceError> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| TraceError::system("opening a pidfd", error.into()))?;
        let launch = self.begin(1);
        let pool = Arc::clone(&self.pool);
        let tracer = self.trace(launch, None)?;
        let role = pf_role::PF_ROLE_STARTING;
        mark_task(&pool.object.members, pidfd.as_fd(), launch, role)?;
        pool.object.list_thread(launch, pid)?;
        pool.object.globals.slot(launch).start_mark().set();
        Ok(tracer)
    }

    /// Begins to record a launch that a [`Watch`](super::Watch) of the same object follows.
    ///
    /// # Errors
    /// When the programs cannot be attached.
    pub fn record(self, launch: u64) -> Result<Tracer, TraceError> {
        let pool = Arc::clone(&self.pool);
        // Nothing that it records happened before.
        let begun_ns = monotonic_ns();
        let mut tracer = self.trace(launch, None)?;
        tracer.begun_ns = Some(begun_ns);
        // Its last task may have exited before the programs could report that.
        if pool.object.globals.slot(launch).read().tasks == 0 {
            tracer.note_exit();
        }
        Ok(tracer)
    }

    /// Takes a slot for a launch with so many tasks.
    fn begin(&self, tasks: u64) -> u64 {
        let slot = pf_launch {
            tasks,
            ..empty_slot()
        };
        take(&self.pool.object.globals, slot).expect("a new object has free slots")
    }

    fn trace(self, launch: u64, cgroup: Option<u64>) -> Result<Tracer, TraceError> {
        self.prepare()?;
        let log = self.take_log().expect("it was made just now");
        let pool = Arc::clone(&self.pool);
        let index = self.index;
        let mut tracer = Tracer::new(self, launch, log)?;
        pool.switch_on(index, launch, cgroup)?;
        tracer.is_on = true;
        Ok(tracer)
    }

    pub(super) fn pool(&self) -> &RecorderPool {
        &self.pool
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Makes its tables, unless it has some.
    fn prepare(&self) -> Result<(), TraceError> {
        if lock(&self.pool.places)[self.index as usize].log.is_none() {
            let log = tables::make(&self.pool.object, self.index)?;
            lock(&self.pool.places)[self.index as usize].log = Some(log);
        }
        Ok(())
    }

    fn take_log(&self) -> Option<MapHandle> {
        lock(&self.pool.places)[self.index as usize].log.take()
    }
}

impl Drop for RecorderLease {
    fn drop(&mut self) {
        // It was prepared, and not used.
        if self.take_log().is_some() {
            tables::remove(&self.pool.object, self.index);
        }
        lock(&self.pool.places)[self.index as usize].is_taken = false;
    }
}
