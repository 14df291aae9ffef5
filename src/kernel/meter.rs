//! The measuring session: counts read requests and sees the completion block.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::abilities::{TraceError, check};
use super::event::{TraceEvent, kernel_dev, parse};
use super::launcher::{StartMark, mark_helper, mark_tree_root};
use super::skel::meter::types::pf_reads;
use super::skel::meter::{MeterSkel, MeterSkelBuilder};
use super::tracer::{Storage, capture_warnings};

/// Reads from drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReads {
    /// Read requests, as the block layer makes them.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl From<pf_reads> for DeviceReads {
    fn from(raw: pf_reads) -> Self {
        DeviceReads {
            requests: raw.requests,
            bytes: raw.bytes,
        }
    }
}

/// The block whose arrival from the drive ends a launch (paper §4.2 and §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionBlock {
    /// Device, in the encoding of `st_dev`.
    pub dev: u64,
    /// First 512-byte sector on the device.
    pub sector: u64,
    /// Number of 512-byte sectors.
    pub sectors: u64,
}

/// What was counted during a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Reads that the launch tree made itself, and so had to wait for.
    pub app: DeviceReads,
    /// Reads of the prefetch thread.
    pub prefetch: DeviceReads,
}

/// A measuring session, attached from its making to its end.
pub struct Meter<'obj> {
    skel: MeterSkel<'obj>,
    ring: RingBuffer<'static>,
    completed: Rc<Cell<bool>>,
}

impl<'obj> Meter<'obj> {
    /// Loads and attaches the programs and makes the calling thread, which must be the process's
    /// main thread, the launcher. With a completion block, its arrival is noted too.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(
        storage: &'obj mut Storage,
        completion: Option<CompletionBlock>,
    ) -> Result<Self, TraceError> {
        check()?;
        capture_warnings();
        let mut open = MeterSkelBuilder::default()
            .open(storage.get())
            .map_err(|error| TraceError::from_bpf("opening the BPF object", error))?;
        if let (Some(block), Some(bss)) = (completion, open.maps.bss_data.as_deref_mut()) {
            bss.completion_dev = kernel_dev(block.dev);
            bss.completion_sector = block.sector;
            bss.completion_sectors = block.sectors;
        }
        open.progs.request_done.set_autoload(completion.is_some());
        let mut skel = open
            .load()
            .map_err(|error| TraceError::from_bpf("loading the BPF programs", error))?;
        mark_tree_root(&skel.maps.roles)?;
        let page_size = rustix::param::page_size() as u64;
        let completed = Rc::new(Cell::new(false));
        let flag = Rc::clone(&completed);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skel.maps.wakeups, move |record| {
                if matches!(parse(record, page_size), Some(TraceEvent::Access(_))) {
                    flag.set(true);
                }
                0
            })
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        let ring = builder
            .build()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        skel.attach()
            .map_err(|error| TraceError::from_bpf("attaching the BPF programs", error))?;
        Ok(Meter {
            skel,
            ring,
            completed,
        })
    }

    /// Counts what another process reads as prefetched: its main thread, and threads that it creates from
    /// now on. For the service, which starts a thread for each prefetch.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn count_prefetcher(&self, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
        mark_helper(&self.skel.maps.roles, pidfd)
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

    /// Readable when the completion block has arrived or the launch tree has ended.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor is open as long as the ring buffer, which `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Empties the wake-up descriptor; true once the completion block has arrived.
    ///
    /// # Errors
    /// When the ring buffer cannot be read.
    pub fn completed(&mut self) -> Result<bool, TraceError> {
        self.ring
            .consume()
            .map_err(|error| TraceError::from_bpf("reading the ring buffer", error))?;
        Ok(self.completed.get())
    }

    /// When the app's execve was called and when the completion block arrived, CLOCK_MONOTONIC in
    /// nanoseconds; 0 as long as either has not happened.
    pub fn times_ns(&self) -> (u64, u64) {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or((0, 0), |bss| (bss.active_since_ns, bss.completed_ns))
    }

    /// Detaches the programs and returns the counts.
    pub fn finish(mut self) -> Metered {
        // Detach first: then nothing writes to the counts while they are read.
        self.skel.links = Default::default();
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return Metered::default();
        };
        Metered {
            app: bss.tree_reads.into(),
            prefetch: bss.helper_reads.into(),
        }
    }
}
