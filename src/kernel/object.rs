//! Opening and loading the BPF object.
//!
//! A process loads it once, with the programs that it needs, and keeps what it uses of it by descriptors.
//! libbpf's own copy of the object, with the types of the kernel, is freed as soon as that is done.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::{io, ptr};

use libbpf_rs::libbpf_sys::bpf_raw_tracepoint_open;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, OpenObject, ProgramMut, RingBuffer, RingBufferBuilder,
};
use rustix::process::Pid;

use super::abilities::{TraceError, check};
use super::globals::Globals;
use super::libbpf_log;
use super::skel::{OpenParalfetchSkel, ParalfetchMaps, ParalfetchSkel, ParalfetchSkelBuilder};

/// The maps and the globals of the loaded object, which threads share.
pub(super) struct LoadedObject {
    pub globals: Globals,
    pub members: MapHandle,
    pub launch_threads: MapHandle,
    pub own_reads: MapHandle,
    pub prefetchers: MapHandle,
    pub names: MapHandle,
    pub arguments: MapHandle,
    pub launch_events: MapHandle,
    pub near_pages: MapHandle,
    pub near_paths: MapHandle,
    pub far_tables: MapHandle,
    pub logs: MapHandle,
}

impl LoadedObject {
    /// Keeps what is used of the object.
    ///
    /// # Errors
    /// When a descriptor cannot be duplicated, or the globals cannot be mapped.
    pub fn of(maps: &ParalfetchMaps<'_>) -> Result<Self, TraceError> {
        let globals = Globals::map(maps.bss.as_fd())
            .map_err(|error| TraceError::system("mapping the globals of the programs", error))?;
        let keep = || {
            Ok(LoadedObject {
                globals,
                members: MapHandle::try_from(&maps.members)?,
                launch_threads: MapHandle::try_from(&maps.launch_threads)?,
                own_reads: MapHandle::try_from(&maps.own_reads)?,
                prefetchers: MapHandle::try_from(&maps.prefetchers)?,
                names: MapHandle::try_from(&maps.names)?,
                arguments: MapHandle::try_from(&maps.arguments)?,
                launch_events: MapHandle::try_from(&maps.launch_events)?,
                near_pages: MapHandle::try_from(&maps.near_pages)?,
                near_paths: MapHandle::try_from(&maps.near_paths)?,
                far_tables: MapHandle::try_from(&maps.far_tables)?,
                logs: MapHandle::try_from(&maps.logs)?,
            })
        };
        keep().map_err(|error| TraceError::from_bpf("duplicating a map", error))
    }
}

/// Threads of launches that are listed at least; of more, the oldest make room.
const LISTED_THREADS: u32 = 4096;

impl LoadedObject {
    /// Lists the first thread of a launch that user space begins. The programs list those that it creates.
    ///
    /// # Errors
    /// When the map refuses it.
    pub fn list_thread(&self, launch: u64, pid: Pid) -> Result<(), TraceError> {
        let key = pid.as_raw_nonzero().get().to_ne_bytes();
        self.launch_threads
            .update(&key, &launch.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| TraceError::from_bpf("listing a launch's first thread", error))
    }

    /// Ids of a launch's threads, as far as they are listed; some may have exited. Nothing is read before the
    /// first is asked for.
    pub fn threads(&self, launch: u64) -> impl Iterator<Item = i32> {
        let any = MapFlags::ANY;
        let listed = move || self.launch_threads.lookup_batch(LISTED_THREADS, any, any);
        std::iter::once_with(listed)
            .filter_map(Result::ok)
            .flatten()
            .filter(move |(_, of)| *of == launch.to_ne_bytes())
            .filter_map(|(id, _)| Some(i32::from_ne_bytes(*id.first_chunk()?)))
    }
}

/// Opens the object. No program is selected to be loaded yet.
///
/// # Errors
/// Says which privilege or kernel ability is missing.
pub(super) fn open(
    storage: &mut MaybeUninit<OpenObject>,
) -> Result<OpenParalfetchSkel<'_>, TraceError> {
    check()?;
    libbpf_log::capture();
    let mut open = ParalfetchSkelBuilder::default()
        .open(storage)
        .map_err(|error| TraceError::from_bpf("opening the BPF object", error))?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.page_bytes = rustix::param::page_size() as u32;
    }
    // An LRU map hands its free places out to the processors, 128 at a time.
    let processors = libbpf_rs::num_possible_cpus().unwrap_or(1) as u32;
    let threads = LISTED_THREADS.max(2 * 128 * processors);
    open.maps
        .launch_threads
        .set_max_entries(threads)
        .map_err(|error| TraceError::from_bpf("opening the BPF object", error))?;
    Ok(open)
}

/// Loads the selected programs.
///
/// # Errors
/// Says which privilege or kernel ability is missing.
pub(super) fn load(open: OpenParalfetchSkel<'_>) -> Result<ParalfetchSkel<'_>, TraceError> {
    open.load()
        .map_err(|error| TraceError::from_bpf("loading the BPF programs", error))
}

/// Descriptors of those of these programs that were loaded.
///
/// # Errors
/// When one cannot be duplicated.
pub(super) fn loaded(programs: &[&ProgramMut<'_>]) -> Result<Vec<OwnedFd>, TraceError> {
    let loaded = programs.iter().filter(|program| program.autoload());
    loaded
        .map(|program| program.as_fd().try_clone_to_owned())
        .collect::<io::Result<_>>()
        .map_err(|error| TraceError::system("duplicating a program", error))
}

/// Attaches programs, each to the tracepoint or function that it was loaded for, until what is returned is
/// dropped. If the kernel refuses one, none stays attached.
///
/// Attaching takes the kernel a millisecond, and tens of milliseconds when it waits for an RCU grace period; so
/// does detaching. The thread that waits for launches must do neither.
///
/// # Errors
/// Why the kernel refuses.
pub(super) fn attach(programs: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    let attach_one = |program: &OwnedFd| {
        // SAFETY: no pointer is passed. A program that was loaded for its hook takes no name.
        let link = unsafe { bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
        if link < 0 {
            return Err(io::Error::from_raw_os_error(-link));
        }
        // SAFETY: a descriptor that the kernel has just given to us alone.
        Ok(unsafe { OwnedFd::from_raw_fd(link) })
    };
    programs.iter().map(attach_one).collect()
}

/// A reader of a ring buffer, which hands each record to `take`.
///
/// # Errors
/// When the ring buffer cannot be mapped.
pub(super) fn ring_reader(
    ring: &dyn MapCore,
    mut take: impl FnMut(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, TraceError> {
    let build = || {
        let mut builder = RingBufferBuilder::new();
        builder.add(ring, move |record| {
            take(record);
            0
        })?;
        builder.build()
    };
    build().map_err(|error| TraceError::from_bpf("reading the ring buffer", error))
}
