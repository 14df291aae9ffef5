//! The programs that see launches, from their loading to their end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, ProgramMut, RingBuffer, RingBufferBuilder};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use super::event::{LaunchEvent, parse};
use super::shared::Shared;
use super::skel::types::{pf_argument, pf_member, pf_name, pf_name_kind};
use super::skel::{WatchSkel, WatchSkelBuilder};
use super::slots::{self, LaunchCounts, WatchedPage};
use super::tracefs::has_syscall_entry;
use super::waits::WaitPrograms;
use crate::kernel::watch::name_filter::Tails;
use crate::kernel::{Storage, TraceError, check, has_tracepoint};

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
    /// It starts other programs, of which an argument tells (`python3`, `flatpak`).
    Launcher,
}

/// The attached programs.
pub struct Watch<'obj> {
    skel: WatchSkel<'obj>,
    /// Of the skeleton.
    shared: Shared<'obj>,
    ring: RingBuffer<'static>,
    seen: Rc<RefCell<Vec<LaunchEvent>>>,
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
        check()?;
        crate::kernel::capture_warnings();
        let mut open = WatchSkelBuilder::default()
            .open(storage.get())
            .map_err(|error| TraceError::from_bpf("opening the BPF object", error))?;
        let early = options.early && has_syscall_entry("execve");
        open.progs.execve_entered.set_autoload(early);
        open.progs
            .execveat_entered
            .set_autoload(early && has_syscall_entry("execveat"));
        let progs = &mut open.progs;
        progs.task_switched.set_autoattach(false);
        for (program, tracepoint) in [
            (&mut progs.pages_read, "mm_filemap_get_pages"),
            (&mut progs.page_faulted, "mm_filemap_fault"),
            (&mut progs.pages_mapped, "mm_filemap_map_pages"),
        ] {
            program.set_autoload(has_tracepoint(tracepoint)?);
            program.set_autoattach(false);
        }
        let mut skel = open
            .load()
            .map_err(|error| TraceError::from_bpf("loading the BPF programs", error))?;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&seen);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skel.maps.events, move |record| {
                sink.borrow_mut().extend(parse(record));
                0
            })
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let ring = builder
            .build()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        skel.attach()
            .map_err(|error| TraceError::from_bpf("attaching the BPF programs", error))?;
        let globals = skel.maps.bss_data.take().expect(MAPPED);
        Ok(Watch {
            shared: Shared::new(globals),
            skel,
            ring,
            seen,
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
        let tails = Tails::of(names.keys().map(OsString::as_os_str));
        // No name that stays or comes may be missed meanwhile.
        tails.add(&self.shared);
        let map = &self.skel.maps.names;
        for old in self.names.keys().filter(|old| !names.contains_key(*old)) {
            // It may have been refused.
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
        tails.set(&self.shared);
        self.names = names;
        self.arguments = arguments;
        refused
    }

    /// From now on, tells of processes that are no launches and have read this many bytes when they exit;
    /// 0: of none. Processes that run already are not known by name, and are not told of.
    pub fn report_large_readers(&mut self, bytes: u64) {
        self.shared.large_bytes().store(bytes, Ordering::Relaxed);
    }

    /// Readable when something was seen.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// What was seen since the last call, in order; not all of it, if it is very much.
    ///
    /// # Errors
    /// When the ring buffer cannot be read.
    pub fn take(&mut self) -> Result<Vec<LaunchEvent>, TraceError> {
        // Whoever fills the buffer as fast as it is emptied must not keep us here.
        let consumed = self.ring.consume_raw_n(MOST_TAKEN);
        if consumed < 0 {
            let error = libbpf_rs::Error::from_raw_os_error(-consumed);
            return Err(TraceError::from_bpf("reading the ring buffer", error));
        }
        Ok(std::mem::take(&mut *self.seen.borrow_mut()))
    }

    /// What was counted of a launch so far; `None` if it is not followed (any more).
    pub fn counts(&self, launch: u64) -> Option<LaunchCounts> {
        slots::counts(&self.shared, launch)
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
            &progs.pages_read,
            &progs.page_faulted,
            &progs.pages_mapped,
        ];
        // Those that the kernel has no tracepoint for were not loaded.
        let programs = all
            .into_iter()
            .filter(|program| program.autoload())
            .map(|program| program.as_fd().try_clone_to_owned());
        Ok(WaitPrograms(programs.collect::<io::Result<_>>()?))
    }

    /// Tells a launch's completion page (paper §4.2).
    pub fn set_completion(&self, launch: u64, page: WatchedPage) {
        slots::set_completion(&self.shared, launch, page);
    }

    /// Whether the process belongs to a launch that has not ended.
    ///
    /// # Errors
    /// When the process is gone or the map cannot be read.
    pub fn is_part_of_launch(&self, pid: Pid) -> Result<bool, TraceError> {
        let pidfd = open(pid)?;
        let key = pidfd.as_raw_fd().to_ne_bytes();
        let member = self
            .skel
            .maps
            .members
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| TraceError::from_bpf("looking up a process", error))?;
        let launch = member.and_then(|member| Some(u64::from_ne_bytes(*member.first_chunk()?)));
        Ok(launch.is_some_and(|launch| self.counts(launch).is_some()))
    }

    /// Begins a launch with a process that is running already, whatever it was part of, and returns its
    /// number. What it has forked before is not part of it. `None` if no slot is free.
    ///
    /// # Errors
    /// When the process is gone or a map refuses it.
    pub fn adopt(&mut self, pid: Pid) -> Result<Option<u64>, TraceError> {
        let pidfd = open(pid)?;
        let now = clock_gettime(ClockId::Monotonic);
        let start_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let Some(launch) = slots::take(&self.shared, start_ns) else {
            return Ok(None);
        };
        let mut member = [0; size_of::<pf_member>()];
        member[..8].copy_from_slice(&launch.to_ne_bytes());
        let key = pidfd.as_raw_fd().to_ne_bytes();
        if let Err(error) = self.skel.maps.members.update(&key, &member, MapFlags::ANY) {
            self.end(launch);
            return Err(TraceError::from_bpf("adopting a process", error));
        }
        Ok(Some(launch))
    }

    /// From now on, what this thread of ours (`gettid`) reads counts as prefetched for the launch;
    /// `None`: for none.
    ///
    /// # Errors
    /// When the map refuses it.
    pub fn set_helper(&self, tid: u32, launch: Option<u64>) -> Result<(), TraceError> {
        let map = &self.skel.maps.helpers;
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
        let (reader, of) = self.shared.first_reader();
        reader.store(tid, Ordering::Relaxed);
        of.store(launch.unwrap_or(0), Ordering::Relaxed);
    }

    /// A handle by which prefetch threads name themselves.
    ///
    /// # Errors
    /// When the map's descriptor cannot be duplicated.
    pub fn helpers(&self) -> Result<libbpf_rs::MapHandle, TraceError> {
        libbpf_rs::MapHandle::try_from(&self.skel.maps.helpers)
            .map_err(|error| TraceError::from_bpf("duplicating a map", error))
    }

    /// Ends a launch: its tasks are strangers from now on, and what they execute may be a launch again.
    pub fn end(&mut self, launch: u64) {
        slots::free(&self.shared, launch);
    }

    /// Events that were lost because the ring buffer was full, and launches because too many were
    /// under way.
    pub fn lost(&self) -> u64 {
        self.shared.lost()
    }
}

/// Events that are taken from the ring buffer at a time.
const MOST_TAKEN: usize = 1024;

fn open(pid: Pid) -> Result<OwnedFd, TraceError> {
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| TraceError::system("opening a pidfd", error.into()))
}

const MAPPED: &str = "a loaded object with globals has its .bss mapped";

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
