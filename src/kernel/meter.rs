//! Measuring launches: counts read requests and sees the completion block.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use libbpf_rs::RingBuffer;

use super::abilities::TraceError;
use super::event::kernel_dev;
use super::globals::{Slot, empty_slot};
use super::launcher::{StartMark, mark_task, mark_tree_root};
use super::object::{LoadedObject, attach, load, loaded, open, ring_reader};
use super::skel::types::{pf_completion_block, pf_role};
use super::slots::{free, take};

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

/// The programs that measure, loaded once for the launches of a process.
pub struct Meter {
    object: LoadedObject,
    programs: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
    launch: u64,
    ring: RingBuffer<'static>,
}

impl Meter {
    /// Loads the programs.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn load() -> Result<Self, TraceError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage)?;
        let progs = &mut open.progs;
        for program in [
            &mut progs.program_executed,
            &mut progs.task_forked,
            &mut progs.task_exited,
            &mut progs.request_made,
            &mut progs.bio_merged_behind,
            &mut progs.bio_merged_before,
            &mut progs.request_done,
        ] {
            program.set_autoload(true);
        }
        let skel = load(open)?;
        let object = LoadedObject::of(&skel.maps)?;
        let progs = &skel.progs;
        let programs = loaded(&[
            &progs.program_executed,
            &progs.task_forked,
            &progs.task_exited,
            &progs.request_made,
            &progs.bio_merged_behind,
            &progs.bio_merged_before,
            // Last: it is only attached for a completion block.
            &progs.request_done,
        ])?;
        // Its records only wake: what they say is in the slot, too.
        let ring = ring_reader(&object.launch_events, |_| {})?;
        Ok(Meter {
            object,
            programs,
            links: Vec::new(),
            launch: 0,
            ring,
        })
    }

    /// Attaches the programs for a launch and makes the calling thread, which must be the process's
    /// main thread, the launcher. With a completion block, its arrival is noted too.
    ///
    /// # Errors
    /// When the kernel refuses a program.
    pub fn begin(&mut self, completion: Option<CompletionBlock>) -> Result<(), TraceError> {
        let globals = &self.object.globals;
        // The launch before may not have been measured to its end.
        self.links.clear();
        free(globals, self.launch);
        let launch = take(globals, empty_slot()).expect("the slots of earlier launches are free");
        self.launch = launch;
        let block =
            completion.map_or_else(pf_completion_block::default, |block| pf_completion_block {
                launch,
                sector: block.sector,
                sectors: block.sectors,
                dev: kernel_dev(block.dev),
                ..Default::default()
            });
        globals.set_completion_block(block);
        mark_tree_root(&self.object.members, launch)?;
        let count = self.programs.len() - usize::from(completion.is_none());
        self.links = attach(&self.programs[..count])
            .map_err(|error| TraceError::system("attaching the BPF programs", error))?;
        Ok(())
    }

    fn slot(&self) -> Slot<'_> {
        self.object.globals.slot(self.launch)
    }

    /// Counts what another process reads as prefetched: its main thread, and threads that it creates from
    /// now on. For the service, which starts a thread for each prefetch.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn count_prefetcher(&self, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
        let role = pf_role::PF_ROLE_PREFETCHER;
        mark_task(&self.object.members, pidfd, self.launch, role)
    }

    /// Counts what the processes that another process starts from now on read as the app's. For a message bus,
    /// which starts helpers on the app's behalf.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn count_started_by(&self, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
        let role = pf_role::PF_ROLE_LAUNCHER;
        mark_task(&self.object.members, pidfd, self.launch, role)
    }

    /// What the child must set as its last act before execve.
    pub fn start_mark(&self) -> StartMark {
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

    /// Read requests that the launch tree has made so far.
    pub fn requests(&self) -> u64 {
        self.slot().read().requests
    }

    /// Detaches the programs and returns the counts.
    pub fn finish(&mut self) -> Metered {
        // Detach first: then nothing writes to the counts while they are read.
        self.links.clear();
        let counted = self.slot().read();
        free(&self.object.globals, self.launch);
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
