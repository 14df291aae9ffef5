//! Seeing launches in the kernel, wherever they come from, and counting what they cost.
//!
//! [`Watch`] is attached all the time. A program that nobody watches for costs one look-up by name; the
//! others are reported through [`Watch::fd`]. From then on the launch's tree of tasks is followed and its
//! reads and waits are counted ([`Watch::counts`]), until [`Watch::end`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abilities::TraceError;
use super::event::kernel_dev;
use super::hooks::{Kernel, ProgramSelection};
use super::launch_event::{LaunchEvent, parse};
use super::launcher::{launch_of_task, mark_task, monotonic_ns};
use super::name_filter::NameFilter;
use super::object::{LoadedObject, attach, load, loaded, open, ring_reader};
use super::own_reads;
use super::recorder_pool::{RecorderPool, TraceMode};
use super::skel::ParalfetchSkel;
use super::skel::types::{pf_argument, pf_name, pf_role, pf_watch};
use super::slots::{self, WatchedPage};
use crate::model::{LaunchCounts, OwnRead};

/// What to watch for, beside names.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// See launches when execve is called, not only when it has succeeded. It makes every system call
    /// of the system some nanoseconds longer.
    pub early: bool,
}

/// Every user who has no entry of their own.
pub const EVERY_USER: u32 = u32::MAX;

/// A name (last component of a path, at most 255 bytes), or an argument of launchers (at most 254), and the user whose
/// launches are watched for by it; [`EVERY_USER`]: of everybody who has no entry for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watched {
    /// The user.
    pub uid: u32,
    /// The name or argument.
    pub text: OsString,
}

/// Why a name is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedName {
    /// Programs of this name are apps.
    App {
        /// Whether their launches are recorded from the beginning, if a recorder is ready.
        recorded: bool,
    },
    /// Programs of this name start others, and an argument says which app is meant (`python3`, `flatpak`).
    Launcher,
}

impl WatchedName {
    /// What a name is that is both: an app, since all of its launches are reported then; recorded if either is.
    pub fn or(self, other: WatchedName) -> WatchedName {
        let recorded = |name| matches!(name, WatchedName::App { recorded: true });
        match (self, other) {
            (WatchedName::Launcher, WatchedName::Launcher) => WatchedName::Launcher,
            _ => WatchedName::App {
                recorded: recorded(self) || recorded(other),
            },
        }
    }
}

/// What is to be watched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedApps {
    /// Names of programs.
    pub names: HashMap<Watched, WatchedName>,
    /// Arguments of launchers that stand for apps, and whether the launches of these are recorded from the beginning.
    pub arguments: HashMap<Watched, bool>,
}

/// The attached programs, and the recorders of the same object.
pub struct Watch {
    object: Arc<LoadedObject>,
    recorders: Result<Arc<RecorderPool>, String>,
    waits: Vec<OwnedFd>,
    completion: Vec<OwnedFd>,
    /// Whether this kernel shows the use of completion pages.
    sees_completion: bool,
    announcement_filter: OwnedFd,
    ring: RingBuffer<'static>,
    events: Rc<RefCell<Vec<LaunchEvent>>>,
    early: bool,
    watched: WatchedApps,
    _links: (Vec<OwnedFd>, Vec<Link>),
}

impl Watch {
    /// Loads all programs, and attaches those that watch for launches. If the kernel does not take those that
    /// record, launches are watched all the same.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(options: WatchOptions) -> Result<Self, TraceError> {
        Self::load(options, true).or_else(|why| {
            let watch = Self::load(options, false)?;
            Ok(Watch {
                recorders: Err(why.to_string()),
                ..watch
            })
        })
    }

    fn load(options: WatchOptions, records: bool) -> Result<Self, TraceError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.detects_launches = true;
        }
        let kernel = Kernel::running()?;
        let selection = records
            .then(|| ProgramSelection::select(&kernel, true))
            .transpose()?;
        if let Some(selection) = &selection {
            selection.apply(&mut open);
            selection.apply_completion(&mut open);
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
            &mut progs.announcement_sent,
        ] {
            program.set_autoload(true);
        }
        // libbpf reads the kernel's types, too: not both at a time.
        drop(kernel);
        Self::of(load(open)?, selection, early)
    }

    fn of(
        mut skel: ParalfetchSkel<'_>,
        selection: Option<ProgramSelection>,
        early: bool,
    ) -> Result<Self, TraceError> {
        let object = Arc::new(LoadedObject::of(&skel.maps)?);
        let sees_completion = selection
            .as_ref()
            .is_some_and(ProgramSelection::sees_completion);
        let recorders = match selection {
            Some(selection) => {
                let (object, hooks) = (Arc::clone(&object), selection.hooks());
                let pool = RecorderPool::of(&skel, object, hooks, TraceMode::Touches)?;
                Ok(Arc::new(pool))
            }
            None => Err(String::new()),
        };
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&events);
        let ring = ring_reader(&object.launch_events, move |record| {
            sink.borrow_mut().extend(parse(record));
        })?;
        let progs = &mut skel.progs;
        // Before the programs that record: `exec_paths` needs the membership that `program_executed` sets.
        let tree = loaded(&[
            &progs.program_executed,
            &progs.task_forked,
            &progs.task_exited,
            &progs.request_made,
            &progs.bio_merged_behind,
            &progs.bio_merged_before,
        ])?;
        let tree = attach(&tree)
            .map_err(|error| TraceError::system("attaching the BPF programs", error))?;
        let waits = loaded(&[&progs.task_switched])?;
        let completion = loaded(&[
            &progs.completion_read,
            &progs.completion_faulted,
            &progs.completion_mapped,
            &progs.older_completion_read_iter,
            &progs.older_completion_read,
            &progs.older_completion_faulted,
            &progs.older_completion_mapped,
        ])?;
        let announcement_filter = progs.announcement_sent.as_fd().try_clone_to_owned();
        let announcement_filter = announcement_filter
            .map_err(|error| TraceError::system("duplicating a program", error))?;
        let calls = [&mut progs.execve_entered, &mut progs.execveat_entered];
        let calls = calls
            .into_iter()
            .filter(|program| program.autoload())
            .map(|program| program.attach())
            .collect::<Result<Vec<Link>, _>>()
            .map_err(|error| TraceError::from_bpf("attaching the BPF programs", error))?;
        Ok(Watch {
            object,
            recorders,
            waits,
            completion,
            sees_completion,
            announcement_filter,
            ring,
            events,
            early,
            watched: WatchedApps::default(),
            _links: (tree, calls),
        })
    }

    /// The recorders; otherwise why there are none.
    ///
    /// # Errors
    /// What the kernel lacks for recording.
    pub fn recorders(&self) -> Result<Arc<RecorderPool>, String> {
        self.recorders.clone()
    }

    /// Whether launches are seen when execve is called.
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// The program that is to filter the socket for announcements: each user's are bounded.
    pub fn announcement_filter(&self) -> BorrowedFd<'_> {
        self.announcement_filter.as_fd()
    }

    /// Whether it watches for these and no others.
    pub fn watches(&self, watched: &WatchedApps) -> bool {
        self.watched == *watched
    }

    /// Watches for these and no others. Returns those that are too long or too many.
    pub fn watch_for(&mut self, mut watched: WatchedApps) -> Vec<Watched> {
        let filter = NameFilter::of(watched.names.keys().map(|name| name.text.as_os_str()));
        // No name that stays or is added may be missed meanwhile.
        filter.add(&self.object.globals);
        let value = |name: &WatchedName| match name {
            WatchedName::App { recorded: true } => {
                pf_watch::PF_WATCH_APP.0 | pf_watch::PF_WATCH_RECORD.0
            }
            WatchedName::App { recorded: false } => pf_watch::PF_WATCH_APP.0,
            WatchedName::Launcher => pf_watch::PF_WATCH_LAUNCHER.0,
        };
        let (names, arguments) = (&self.object.names, &self.object.arguments);
        let mut refused = replace::<{ size_of::<pf_name>() }, _>(
            names,
            &self.watched.names,
            &watched.names,
            value,
        );
        let value = |recorded: &bool| match recorded {
            true => pf_watch::PF_WATCH_LAUNCHER.0 | pf_watch::PF_WATCH_RECORD.0,
            false => pf_watch::PF_WATCH_LAUNCHER.0,
        };
        refused.extend(replace::<{ size_of::<pf_argument>() }, _>(
            arguments,
            &self.watched.arguments,
            &watched.arguments,
            value,
        ));
        filter.set(&self.object.globals);
        // They are tried again with the next change: there may be room then.
        for name in &refused {
            watched.names.remove(name);
            watched.arguments.remove(name);
        }
        self.watched = watched;
        refused
    }

    /// Report processes that are in no launch and read at least this many bytes before they exited. 0 switches
    /// the reports off. Processes that run already are not known by path, and are not reported.
    pub fn report_large_readers(&mut self, bytes: u64) {
        self.object
            .globals
            .large_bytes()
            .store(bytes, Ordering::Relaxed);
    }

    /// Our own program is this file, by its device (`st_dev`) and inode number: what its commands start begins no launch.
    /// Called before names are watched for.
    pub fn leave_own_commands(&mut self, (dev, ino): (u64, u64)) {
        let (own_ino, own_dev) = self.object.globals.own_program();
        own_dev.store(kernel_dev(dev), Ordering::Relaxed);
        own_ino.store(ino, Ordering::Relaxed);
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
        slots::counts(&self.object.globals, launch)
    }

    /// Ids of a launch's threads, as far as they are listed; some may have exited.
    pub fn threads(&self, launch: u64) -> impl Iterator<Item = i32> {
        self.object.threads(launch)
    }

    /// What the requests were for that the launch tree made itself, and its helpers, in their order and as far as they
    /// were noted. The launch must not have ended.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn own_reads(&self, launch: u64) -> Result<Vec<OwnRead>, TraceError> {
        let count = slots::noted_reads(&self.object.globals, launch);
        own_reads::of(&self.object, launch, count)
    }

    /// The loaded programs of one kind, which work for all launches. None if this kernel has none of them.
    ///
    /// # Errors
    /// When their descriptors cannot be duplicated.
    pub fn programs(&self, kind: LaunchPrograms) -> io::Result<LoadedPrograms> {
        let programs = match kind {
            LaunchPrograms::Waits => &self.waits,
            LaunchPrograms::Completion => &self.completion,
        };
        let programs = programs.iter().map(OwnedFd::try_clone);
        Ok(LoadedPrograms(programs.collect::<io::Result<_>>()?))
    }

    /// Whether this kernel shows the use of completion pages.
    pub fn sees_completion(&self) -> bool {
        self.sees_completion
    }

    /// Sets a launch's completion pages. Where the kernel does not show their use, the launch has none.
    pub fn set_completion(&self, launch: u64, pages: &[WatchedPage]) {
        if self.sees_completion {
            slots::set_completion(&self.object.globals, launch, pages);
        }
    }

    /// Begins a launch of this user with a process that is running already, whatever it was part of, and returns
    /// its number. What it has forked before is not part of it. `None` if no slot is free.
    ///
    /// # Errors
    /// When the process is gone or a map refuses it.
    pub fn adopt(&mut self, pid: Pid, uid: u32) -> Result<Option<u64>, TraceError> {
        let pidfd = open_process(pid)?;
        let slot = slots::adopted(monotonic_ns(), uid);
        let Some(launch) = slots::take(&self.object.globals, slot) else {
            return Ok(None);
        };
        let members = &self.object.members;
        let begun = mark_task(members, pidfd.as_fd(), launch, pf_role::PF_ROLE_TREE)
            .and_then(|()| self.object.list_thread(launch, pid));
        if let Err(error) = begun {
            self.end(launch);
            return Err(error);
        }
        Ok(Some(launch))
    }

    /// Begins a login of this user, and returns its number: a launch of the processes that are handed to [`Watch::join`] and
    /// of all that grows from them, but for apps, which are launches of their own. `None` if no slot is free.
    pub fn begin_session(&mut self, uid: u32) -> Option<u64> {
        let slot = slots::session(monotonic_ns(), uid);
        slots::take(&self.object.globals, slot)
    }

    /// Makes a process that is running part of a login. False if it is part of a launch under way already, this one or
    /// another. Threads and child processes that it has are not made so.
    ///
    /// # Errors
    /// When the process is gone or a map refuses it.
    pub fn join(&mut self, session: u64, pid: Pid) -> Result<bool, TraceError> {
        let pidfd = open_process(pid)?;
        let (members, globals) = (&self.object.members, &self.object.globals);
        let launch = launch_of_task(members, pidfd.as_fd())?;
        if slots::is_under_way(globals, launch) {
            return Ok(false);
        }
        // First: what has no task is over.
        slots::add_task(globals, session);
        mark_task(members, pidfd.as_fd(), session, pf_role::PF_ROLE_TREE)?;
        self.object.list_thread(session, pid)?;
        Ok(true)
    }

    /// From now on, what the calling thread reads counts as prefetched for the launch; `None`: for none. There is
    /// one such thread, and no system call for each launch: naming another takes its place.
    pub fn attribute_reads_to(&mut self, launch: Option<u64>) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (reader, of) = self.object.globals.first_reader();
        reader.store(tid, Ordering::Relaxed);
        of.store(launch.unwrap_or(0), Ordering::Relaxed);
    }

    /// The map in which prefetch threads enter their id (`gettid`), with the launch for which what they read counts
    /// as prefetched.
    ///
    /// # Errors
    /// When the map's descriptor cannot be duplicated.
    pub fn helpers(&self) -> Result<libbpf_rs::MapHandle, TraceError> {
        libbpf_rs::MapHandle::try_from(&self.object.prefetchers)
            .map_err(|error| TraceError::from_bpf("duplicating a map", error))
    }

    /// Number of the launch that began last; those that begin later have higher ones.
    pub fn last_launch(&self) -> u64 {
        self.object.globals.last_launch().load(Ordering::Relaxed)
    }

    /// The launches up to this number that have not ended.
    pub fn launches_until(&self, last: u64) -> impl Iterator<Item = u64> {
        slots::taken_until(&self.object.globals, last)
    }

    /// A launch is over: its tasks belong to no launch from now on, and what they execute may be one again. But what they
    /// read themselves is noted anew, and the end of the last of them is reported, until [`Watch::end`].
    pub fn note_late_reads(&mut self, launch: u64) {
        slots::set_over(&self.object.globals, launch);
    }

    /// Ends a launch: its tasks belong to no launch from now on, and what they execute may be one again.
    pub fn end(&mut self, launch: u64) {
        slots::free(&self.object.globals, launch);
    }

    /// Events that were lost because the ring buffer was full, and launches because too many were
    /// under way.
    pub fn lost(&self) -> u64 {
        self.object.globals.lost_launches()
    }

    /// Executions of watched names that were left alone because their user made more than 64 at once, or more than
    /// 32 a second for long; and the user id of the last one.
    pub fn excess_execs(&self) -> (u64, u32) {
        self.object.globals.excess_execs()
    }
}

/// Kinds of programs that are attached only while launches are under way. They are attached apart: where the kernel has no
/// tracepoints for the use of pages (before Linux 6.12), those that see it are at functions, and to attach and to detach
/// them waits for a grace period of RCU tasks, which takes tenths of a second while programs compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchPrograms {
    /// Programs that count waits for the drive, and run at every context switch of the system.
    Waits,
    /// Programs that see when completion pages are used, and run at every read and page fault of the system.
    Completion,
}

/// Loaded programs of one kind.
pub struct LoadedPrograms(Vec<OwnedFd>);

/// Programs that are attached until this is dropped.
pub struct ProgramLinks {
    _links: Vec<OwnedFd>,
}

impl LoadedPrograms {
    /// Attaches them.
    ///
    /// # Errors
    /// When the kernel refuses one; then none stays attached.
    pub fn attach(self) -> io::Result<ProgramLinks> {
        Ok(ProgramLinks {
            _links: attach(&self.0)?,
        })
    }
}

/// Mount points of tracefs, as libbpf looks for it.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Whether the entry of this system call has a tracepoint that can be attached to: that takes tracefs and
/// CONFIG_FTRACE_SYSCALLS.
fn has_syscall_entry(name: &str) -> bool {
    TRACEFS.iter().any(|place| {
        Path::new(place)
            .join(format!("events/syscalls/sys_enter_{name}/id"))
            .exists()
    })
}

/// Events that are taken from the ring buffer at a time.
const MOST_TAKEN: usize = 64;

fn open_process(pid: Pid) -> Result<OwnedFd, TraceError> {
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| TraceError::system("opening a pidfd", error.into()))
}

/// Makes the map, which holds `old`, hold `new`. Returns what it does not take: what is too long, and what there is no room
/// for.
fn replace<const KEY: usize, V: PartialEq>(
    map: &MapHandle,
    old: &HashMap<Watched, V>,
    new: &HashMap<Watched, V>,
    value: impl Fn(&V) -> u32,
) -> Vec<Watched> {
    for gone in old.keys().filter(|known| !new.contains_key(*known)) {
        // One that was refused is not there.
        let _ = key::<KEY>(gone).map(|key| map.delete(&key));
    }
    let mut refused = Vec::new();
    for (watched, wanted) in new
        .iter()
        .filter(|(watched, wanted)| old.get(*watched) != Some(*wanted))
    {
        let value = [value(wanted) as u8];
        let added =
            key::<KEY>(watched).is_some_and(|key| map.update(&key, &value, MapFlags::ANY).is_ok());
        if !added {
            refused.push(watched.clone());
        }
    }
    refused
}

/// A `pf_name` or `pf_argument`: the user id, and the text filled up with zeros, at least one; `None` if it does not fit.
fn key<const N: usize>(watched: &Watched) -> Option<[u8; N]> {
    let text = watched.text.as_bytes();
    let mut key = [0; N];
    let (uid, place) = key.split_at_mut(size_of_val(&watched.uid));
    uid.copy_from_slice(&watched.uid.to_ne_bytes());
    place
        .get_mut(..text.len())
        .filter(|_| text.len() < N - size_of_val(&watched.uid))?
        .copy_from_slice(text);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_up_with_zeros() {
        let of = |uid: u32, text: &str| Watched {
            uid,
            text: text.into(),
        };
        let expected = |uid: u32, text: &[u8; 4]| [&uid.to_ne_bytes()[..], text].concat();
        let found = |uid, text| key::<8>(&of(uid, text)).map(|key| key.to_vec());
        assert_eq!(found(7, "ab"), Some(expected(7, b"ab\0\0")));
        assert_eq!(
            found(EVERY_USER, "abc"),
            Some(expected(EVERY_USER, b"abc\0"))
        );
        assert_eq!(found(7, "abcd"), None);
        assert_eq!(found(7, "abcde"), None);
    }
}
