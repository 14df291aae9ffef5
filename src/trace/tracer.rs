//! The learning session: attaches the programs, collects their events.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{OpenObject, PrintLevel, RingBuffer, RingBufferBuilder};

use super::abilities::{TraceError, check};
use super::access::Access;
use super::event::{Event, parse};
use super::hooks::{Choice, Hooks};
use super::launcher::{StartMark, mark_launcher};
use super::skel::learn::{LearnSkel, LearnSkelBuilder};

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

    pub(super) fn get(&mut self) -> &mut MaybeUninit<OpenObject> {
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
    /// Time at which the launch tree's last task exited, CLOCK_MONOTONIC in nanoseconds.
    pub exit_ns: Option<u64>,
    /// Events that were lost because the ring buffer was full, and tasks that were because there was no
    /// memory to mark them.
    pub lost: u64,
    /// By what means pages that were cached before the launch were seen.
    pub hooks: Hooks,
}

/// A learning session, attached from its making to its end.
pub struct Tracer<'obj> {
    skel: LearnSkel<'obj>,
    ring: RingBuffer<'static>,
    collected: Rc<RefCell<Trace>>,
    hooks: Hooks,
}

impl<'obj> Tracer<'obj> {
    /// Loads and attaches the programs and makes the calling thread, which must be the process's
    /// main thread, the launcher. Recording starts when the child sets the [`StartMark`].
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(storage: &'obj mut Storage) -> Result<Self, TraceError> {
        check()?;
        capture_warnings();
        let mut open = LearnSkelBuilder::default()
            .open(storage.get())
            .map_err(|error| TraceError::from_bpf("opening the BPF object", error))?;
        let page_size = rustix::param::page_size() as u64;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.page_bytes = page_size as u32;
        }
        let choice = Choice::make()?;
        choice.apply(&mut open);

        let mut skel = open
            .load()
            .map_err(|error| TraceError::from_bpf("loading the BPF programs", error))?;
        mark_launcher(&skel.maps.roles)?;
        let collected = Rc::new(RefCell::new(Trace::default()));
        let sink = Rc::clone(&collected);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skel.maps.events, move |record| {
                let mut trace = sink.borrow_mut();
                match parse(record, page_size) {
                    Some(Event::Access(access)) => trace.accesses.push(access),
                    Some(Event::Exit(time_ns)) => trace.exit_ns = Some(time_ns),
                    None => trace.lost += 1,
                }
                0
            })
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let ring = builder
            .build()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        skel.attach()
            .map_err(|error| TraceError::from_bpf("attaching the BPF programs", error))?;
        Ok(Tracer {
            skel,
            ring,
            collected,
            hooks: choice.hooks(),
        })
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

    /// Readable when the launch tree has ended. Other events do not wake: [`Tracer::drain`] fetches
    /// them whenever it is called.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Fetches what has been recorded since the last call.
    pub fn drain(&mut self) -> Result<(), TraceError> {
        self.ring
            .consume()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))
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
        // Detach first, so that what is then in the buffer is all there is.
        self.skel.links = Default::default();
        self.drain()?;
        let start_ns = self.start_mark().get();
        let mut trace = self.collected.take();
        trace.start_ns = start_ns;
        trace.hooks = self.hooks;
        if let Some(bss) = self.skel.maps.bss_data.as_deref() {
            trace.lost += bss.lost_events + bss.lost_tasks;
        }
        // Two cores record at once: order within the buffer is that of reservation, not of time.
        trace.accesses.sort_by_key(|access| access.time_ns);
        Ok(trace)
    }
}

static LAST_WARNING: Mutex<Option<String>> = Mutex::new(None);

/// Keeps libbpf from writing to the terminal; its last warning becomes part of the error.
pub(super) fn capture_warnings() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut last) = LAST_WARNING.lock() {
            *last = Some(message.trim().to_owned());
        }
    })));
}

pub(super) fn last_warning() -> Option<String> {
    LAST_WARNING.lock().ok()?.take()
}

/// How long to leave events in the buffer before fetching them. It holds several hundred thousand,
/// far more than a launch makes in this time.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(50);
