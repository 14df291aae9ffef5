//! The measuring session: counts read requests and sees the completion block.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libbpf_rs::RingBuffer;

use super::abilities::TraceError;
use super::event::kernel_dev;
use super::globals::{Globals, Slot, empty_slot};
use super::launcher::{StartMark, mark_task, mark_tree_root};
use super::object::{Storage, attach, load, open, ring_reader};
use super::skel::ParalfetchSkel;
use super::skel::types::{pf_completion_block, pf_role};
use super::slots::take;

/// Reads from drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReads {
    /// Read requests, as the block layer makes them.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
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
    skel: ParalfetchSkel<'obj>,
    globals: Globals<'obj>,
    launch: u64,
    ring: RingBuffer<'static>,
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
        let mut open = open(storage)?;
        let progs = &mut open.progs;
        for program in [
            &mut progs.program_executed,
            &mut progs.task_forked,
            &mut progs.task_exited,
            &mut progs.request_made,
            &mut progs.bio_merged_behind,
            &mut progs.bio_merged_before,
        ] {
            program.set_autoload(true);
        }
        progs.request_done.set_autoload(completion.is_some());
        let (mut skel, globals) = load(open)?;
        let launch = take(&globals, empty_slot()).expect("a new object has free slots");
        if let Some(block) = completion {
            globals.set_completion_block(pf_completion_block {
                launch,
                sector: block.sector,
                sectors: block.sectors,
                dev: kernel_dev(block.dev),
                ..Default::default()
            });
        }
        mark_tree_root(&skel.maps.members, launch)?;
        // Its records only wake: what they say is in the slot, too.
        let ring = ring_reader(&skel.maps.launch_events, |_| {})?;
        attach(&mut skel)?;
        Ok(Meter {
            skel,
            globals,
            launch,
            ring,
        })
    }

    fn slot(&self) -> Slot<'_> {
        self.globals.slot(self.launch)
    }

    /// Counts what another process reads as prefetched: its main thread, and threads that it creates from
    /// now on. For the service, which starts a thread for each prefetch.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn count_prefetcher(&self, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
        let role = pf_role::PF_ROLE_PREFETCHER;
        mark_task(&self.skel.maps.members, pidfd, self.launch, role)
    }

    /// What the child must set as its last act before execve.
    pub fn start_mark(&mut self) -> StartMark {
        self.slot().start_mark()
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
        Ok(self.slot().read().completed_ns != 0)
    }

    /// When the app's execve was called and when the completion block arrived, CLOCK_MONOTONIC in
    /// nanoseconds; 0 as long as either has not happened.
    pub fn times_ns(&self) -> (u64, u64) {
        let start_ns = self.slot().start_ns().load(Ordering::Acquire);
        (start_ns, self.slot().read().completed_ns)
    }

    /// Detaches the programs and returns the counts.
    pub fn finish(mut self) -> Metered {
        // Detach first: then nothing writes to the counts while they are read.
        self.skel.links = Default::default();
        let counted = self.slot().read();
        Metered {
            app: DeviceReads {
                requests: counted.requests,
                bytes: counted.bytes,
            },
            prefetch: DeviceReads {
                requests: counted.prefetch_requests,
                bytes: counted.prefetch_bytes,
            },
        }
    }
}
