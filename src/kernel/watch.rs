//! Seeing launches in the kernel, wherever they come from, and counting what they cost.
//!
//! [`Watch`] is attached all the time. A program that nobody watches for costs one look-up by name; the
//! others are reported through [`Watch::fd`]. From then on the launch's tree of tasks is followed and its
//! reads and waits are counted ([`Watch::counts`]), until [`Watch::end`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapFlags, ProgramMut, RingBuffer};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abilities::TraceError;
use super::globals::Globals;
use super::hooks::has_tracepoint;
use super::launch_event::{LaunchEvent, parse};
use super::launcher::{launch_of, mark_task, monotonic_ns};
use super::name_filter::NameFilter;
use super::object::{Storage, attach, load, open, ring_reader};
use super::skel::ParalfetchSkel;
use super::skel::types::{pf_argument, pf_name, pf_name_kind, pf_role};
use super::slots::{self, WatchedPage};
use super::tracefs::has_syscall_entry;
use super::waits::WaitPrograms;
use crate::model::LaunchCounts;

/// What to watch for, beside names.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// See launches when execve is called, not only when it has succeeded. It makes every system call
    /// of the system some nanoseconds longer.
    pub early: bool,
}

/// Why a name is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedName {
    /// Programs of this name are apps.
    App,
    /// It starts other programs, and an argument says which app is meant (`python3`, `flatpak`).
    Launcher,
}

/// The attached programs.
pub struct Watch<'obj> {
    skel: ParalfetchSkel<'obj>,
    globals: Globals<'obj>,
    ring: RingBuffer<'static>,
    events: Rc<RefCell<Vec<LaunchEvent>>>,
    early: bool,
    names: HashMap<OsString, WatchedName>,
    arguments: Vec<OsString>,
}

impl<'obj> Watch<'obj> {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(storage: &'obj mut Storage, options: WatchOptions) -> Result<Self, TraceError> {
        let mut open = open(storage)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.detects_launches = true;
        }
        let early = options.early && has_syscall_entry("execve");
        let progs = &mut open.progs;
        progs.execve_entered.set_autoload(early);
        progs
            .execveat_entered
            .set_autoload(early && has_syscall_entry("execveat"));
        for program in [
            &mut progs.program_executed,
            &mut progs.task_forked,
            &mut progs.task_exited,
            &mut progs.request_made,
            &mut progs.bio_merged_behind,
            &mut progs.bio_merged_before,
            &mut progs.task_switched,
        ] {
            program.set_autoload(true);
        }
        progs.task_switched.set_autoattach(false);
        for (program, tracepoint) in [
            (&mut progs.completion_read, "mm_filemap_get_pages"),
            (&mut progs.completion_faulted, "mm_filemap_fault"),
            (&mut progs.completion_mapped, "mm_filemap_map_pages"),
        ] {
            program.set_autoload(has_tracepoint(tracepoint)?);
            program.set_autoattach(false);
        }
        let (mut skel, globals) = load(open)?;
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&events);
        let ring = ring_reader(&skel.maps.launch_events, move |record| {
            sink.borrow_mut().extend(parse(record));
        })?;
        attach(&mut skel)?;
        Ok(Watch {
            globals,
            skel,
            ring,
            events,
            early,
            names: HashMap::new(),
            arguments: Vec::new(),
        })
    }

    /// Whether launches are seen when execve is called.
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// Watches for these names (last components of paths, of at most 63 bytes) and, of launchers, these
    /// arguments (of at most 127), and no others. Returns those that are too long or too many.
    pub fn set_names(
        &mut self,
        names: HashMap<OsString, WatchedName>,
        arguments: Vec<OsString>,
    ) -> Vec<OsString> {
        let mut refused = Vec::new();
        let filter = NameFilter::of(names.keys().map(OsString::as_os_str));
        // No name that stays or is added may be missed meanwhile.
        filter.add(&self.globals);
        let map = &self.skel.maps.names;
        for old in self.names.keys().filter(|old| !names.contains_key(*old)) {
            // A name that was refused is not there.
            let _ = padded::<{ size_of::<pf_name>() }>(old).map(|key| map.delete(&key));
        }
        for (name, kind) in &names {
            let kind = match kind {
                WatchedName::App => pf_name_kind::PF_NAME_APP,
                WatchedName::Launcher => pf_name_kind::PF_NAME_LAUNCHER,
            };
            let added = padded::<{ size_of::<pf_name>() }>(name)
                .is_some_and(|key| map.update(&key, &[kind.0 as u8], MapFlags::ANY).is_ok());
            if !added {
                refused.push(name.clone());
            }
        }
        let map = &self.skel.maps.arguments;
        for old in self.arguments.iter().filter(|old| !arguments.contains(old)) {
            let _ = padded::<{ size_of::<pf_argument>() }>(old).map(|key| map.delete(&key));
        }
        for argument in &arguments {
            let added = padded::<{ size_of::<pf_argument>() }>(argument)
                .is_some_and(|key| map.update(&key, &[1], MapFlags::ANY).is_ok());
            if !added {
                refused.push(argument.clone());
            }
        }
        filter.set(&self.globals);
        self.names = names;
        self.arguments = arguments;
        refused
    }

    /// Report processes that are in no launch and read at least this many bytes before they exited. 0 switches
    /// the reports off. Processes that run already are not known by path, and are not reported.
    pub fn report_large_readers(&mut self, bytes: u64) {
        self.globals.large_bytes().store(bytes, Ordering::Relaxed);
    }

    /// Readable when there are launch events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// The launch events since the last call, in order; not all of them if there are very many.
    ///
    /// # Errors
    /// When the ring buffer cannot be read.
    pub fn take(&mut self) -> Result<Vec<LaunchEvent>, TraceError> {
        // A bound, so that programs that fill the buffer as fast as it is emptied cannot keep us here.
        let consumed = self.ring.consume_raw_n(MOST_TAKEN);
        if consumed < 0 {
            let error = libbpf_rs::Error::from_raw_os_error(-consumed);
            return Err(TraceError::from_bpf("reading the ring buffer", error));
        }
        Ok(std::mem::take(&mut *self.events.borrow_mut()))
    }

    /// What was counted of a launch so far; `None` if it is not followed (any more).
    pub fn counts(&self, launch: u64) -> Option<LaunchCounts> {
        slots::counts(&self.globals, launch)
    }

    /// The programs that count, for all launches, waits for the drive, and see when completion pages are
    /// used.
    ///
    /// # Errors
    /// When their descriptors cannot be duplicated.
    pub fn wait_programs(&self) -> io::Result<WaitPrograms> {
        let progs = &self.skel.progs;
        let all: [&ProgramMut<'_>; 4] = [
            &progs.task_switched,
            &progs.completion_read,
            &progs.completion_faulted,
            &progs.completion_mapped,
        ];
        // Those that the kernel has no tracepoint for were not loaded.
        let programs = all
            .into_iter()
            .filter(|program| program.autoload())
            .map(|program| program.as_fd().try_clone_to_owned());
        Ok(WaitPrograms(programs.collect::<io::Result<_>>()?))
    }

    /// Sets a launch's completion page (paper §4.2).
    pub fn set_completion(&self, launch: u64, page: WatchedPage) {
        slots::set_completion(&self.globals, launch, page);
    }

    /// Whether the process belongs to a launch that has not ended.
    ///
    /// # Errors
    /// When the process is gone or the map cannot be read.
    pub fn is_part_of_launch(&self, pid: Pid) -> Result<bool, TraceError> {
        let pidfd = open_process(pid)?;
        let key = pidfd.as_raw_fd().to_ne_bytes();
        let member = self
            .skel
            .maps
            .members
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| TraceError::from_bpf("looking up a process", error))?;
        let launch = member.and_then(|member| launch_of(&member));
        Ok(launch.is_some_and(|launch| self.counts(launch).is_some()))
    }

    /// Begins a launch with a process that is running already, whatever it was part of, and returns its
    /// number. What it has forked before is not part of it. `None` if no slot is free.
    ///
    /// # Errors
    /// When the process is gone or a map refuses it.
    pub fn adopt(&mut self, pid: Pid) -> Result<Option<u64>, TraceError> {
        let pidfd = open_process(pid)?;
        let slot = slots::adopted(monotonic_ns());
        let Some(launch) = slots::take(&self.globals, slot) else {
            return Ok(None);
        };
        let (members, role) = (&self.skel.maps.members, pf_role::PF_ROLE_TREE);
        if let Err(error) = mark_task(members, pidfd.as_fd(), launch, role) {
            self.end(launch);
            return Err(error);
        }
        Ok(Some(launch))
    }

    /// From now on, what this thread of ours (`gettid`) reads counts as prefetched for the launch;
    /// `None`: for none.
    ///
    /// # Errors
    /// When the map refuses it.
    pub fn set_helper(&self, tid: u32, launch: Option<u64>) -> Result<(), TraceError> {
        let map = &self.skel.maps.prefetchers;
        let done = match launch {
            Some(launch) => map.update(&tid.to_ne_bytes(), &launch.to_ne_bytes(), MapFlags::ANY),
            None => map.delete(&tid.to_ne_bytes()),
        };
        done.map_err(|error| TraceError::from_bpf("naming a prefetch thread", error))
    }

    /// The same for the calling thread, without a system call for each launch. There is one such thread:
    /// naming another takes its place.
    pub fn attribute_reads_to(&mut self, launch: Option<u64>) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (reader, of) = self.globals.first_reader();
        reader.store(tid, Ordering::Relaxed);
        of.store(launch.unwrap_or(0), Ordering::Relaxed);
    }

    /// A handle by which prefetch threads name themselves.
    ///
    /// # Errors
    /// When the map's descriptor cannot be duplicated.
    pub fn helpers(&self) -> Result<libbpf_rs::MapHandle, TraceError> {
        libbpf_rs::MapHandle::try_from(&self.skel.maps.prefetchers)
            .map_err(|error| TraceError::from_bpf("duplicating a map", error))
    }

    /// Ends a launch: its tasks are strangers from now on, and what they execute may be a launch again.
    pub fn end(&mut self, launch: u64) {
        slots::free(&self.globals, launch);
    }

    /// Events that were lost because the ring buffer was full, and launches because too many were
    /// under way.
    pub fn lost(&self) -> u64 {
        self.globals.lost_launches()
    }
}

/// Events that are taken from the ring buffer at a time.
const MOST_TAKEN: usize = 1024;

fn open_process(pid: Pid) -> Result<OwnedFd, TraceError> {
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| TraceError::system("opening a pidfd", error.into()))
}

/// The text filled up with zeros, at least one; `None` if it does not fit.
fn padded<const N: usize>(text: &OsStr) -> Option<[u8; N]> {
    let text = text.as_bytes();
    let mut key = [0; N];
    key.get_mut(..text.len())
        .filter(|_| text.len() < N)?
        .copy_from_slice(text);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_up_with_zeros() {
        assert_eq!(padded::<4>(OsStr::new("ab")), Some(*b"ab\0\0"));
        assert_eq!(padded::<4>(OsStr::new("abc")), Some(*b"abc\0"));
        assert_eq!(padded::<4>(OsStr::new("abcd")), None);
        assert_eq!(padded::<4>(OsStr::new("abcde")), None);
    }
}
