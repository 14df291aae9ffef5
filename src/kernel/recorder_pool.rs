//! The recorders of the loaded object: which of them are free, and the programs that work for all of them.
//!
//! The programs that record cost something at every page and system call: they are attached while a launch is
//! recorded, and only then. The tables of a recorder take 12 MiB of kernel memory: they are there while it
//! records, or while a launch is expected ([`RecorderPool::keep_ready`]).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
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
    programs: Vec<OwnedFd>,
    hooks: Hooks,
    flags: u32,
    places: Mutex<[RecorderPlace; RECORDERS]>,
    attached: Mutex<AttachedPrograms>,
}

/// What is known of a recorder.
#[derive(Default)]
struct RecorderPlace {
    is_taken: bool,
    /// Its log, if its tables have been made for its next recording.
    log: Option<MapHandle>,
}

#[derive(Default)]
struct AttachedPrograms {
    /// Recorders that are on.
    on: usize,
    links: Vec<OwnedFd>,
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
        pool.programs.splice(0..0, loaded(&tree)?);
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
        let programs = loaded(&[
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
            &progs.syscall_done,
        ])?;
        let bounded = pf_record_flags::PF_RECORD_BOUNDED.0;
        let flags = match mode {
            TraceMode::Touches => bounded | pf_record_flags::PF_RECORD_TOUCHES.0,
            TraceMode::Reads => bounded,
            // Who asks for these keeps none of them.
            TraceMode::Additions => 0,
        };
        Ok(RecorderPool {
            object,
            programs,
            hooks,
            flags,
            places: Mutex::default(),
            attached: Mutex::default(),
        })
    }

    /// Takes a recorder, one with tables if there is one. `None` if all are taken.
    pub fn take(self: &Arc<Self>) -> Option<RecorderLease> {
        let mut places = lock(&self.places);
        let free = |place: &RecorderPlace| !place.is_taken;
        let index = places
            .iter()
            .position(|place| free(place) && place.log.is_some())
            .or_else(|| places.iter().position(free))?;
        places[index].is_taken = true;
        Some(RecorderLease {
            pool: Arc::clone(self),
            index: index as u32,
        })
    }

    /// Whether a recorder that is free has tables.
    pub fn is_ready(&self) -> bool {
        let places = lock(&self.places);
        places
            .iter()
            .any(|place| !place.is_taken && place.log.is_some())
    }

    /// Makes the tables of one free recorder, or frees the tables of all of them. Takes tens of milliseconds.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub fn keep_ready(self: &Arc<Self>, wanted: bool) -> Result<(), TraceError> {
        while wanted != self.is_ready()
            && let Some(lease) = self.take()
        {
            if wanted {
                lease.prepare()?;
            } else if lease.take_log().is_some() {
                tables::remove(&self.object, lease.index);
            }
        }
        Ok(())
    }

    /// By what means pages that are cached already are seen.
    pub(super) fn hooks(&self) -> Hooks {
        self.hooks
    }

    pub(super) fn object(&self) -> &LoadedObject {
        &self.object
    }

    /// Switches a recorder on for a launch, and attaches the programs if it is the first.
    fn switch_on(&self, index: u32, launch: u64, cgroup: Option<u64>) -> Result<(), TraceError> {
        let mut attached = lock(&self.attached);
        let globals = &self.object.globals;
        globals.set_recorder(
            index,
            pf_recorder {
                cgroup: cgroup.unwrap_or(0),
                flags: self.flags,
                ..Default::default()
            },
        );
        // Last: from here on, programs use it.
        let number = globals.recorded_launch(index);
        number.store(launch, Ordering::Release);
        self.set_recording();
        attached.on += 1;
        if attached.on == 1 {
            match attach(&self.programs) {
                Ok(links) => attached.links = links,
                Err(error) => {
                    attached.on = 0;
                    number.store(0, Ordering::Release);
                    self.set_recording();
                    return Err(TraceError::system("attaching the BPF programs", error));
                }
            }
        }
        Ok(())
    }

    /// Switches a recorder off that was on for this launch, and detaches the programs if it was the last.
    pub(super) fn switch_off(&self, index: u32, launch: u64) {
        let globals = &self.object.globals;
        // The slot may be another launch's by now, which has another recorder or none.
        let _ = globals.slot(launch).recorder().compare_exchange(
            index + 1,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        let mut attached = lock(&self.attached);
        globals.recorded_launch(index).store(0, Ordering::Release);
        self.set_recording();
        attached.on -= 1;
        if attached.on == 0 {
            attached.links.clear();
        }
    }

    /// Tells the programs how many recorders to look at. Called with `attached` locked.
    fn set_recording(&self) {
        let globals = &self.object.globals;
        let is_on = |index: &u32| globals.recorded_launch(*index).load(Ordering::Relaxed) != 0;
        let last = (0..RECORDERS as u32).rev().find(is_on);
        let count = last.map_or(0, |last| last + 1);
        globals.recording().store(count, Ordering::Release);
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
        let mut tracer = self.trace(launch, None)?;
        tracer.begun_ns = Some(monotonic_ns());
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
        let slot = pool.object.globals.slot(launch);
        if slot.number().load(Ordering::Acquire) == launch {
            slot.recorder().store(index + 1, Ordering::Release);
        }
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
        lock(&self.pool.places)[self.index as usize].is_taken = false;
    }
}
