//! What is counted of each launch, in a map that the programs write.

use libbpf_rs::{MapCore, MapFlags};

use super::skel::types::pf_counts;
use crate::trace::kernel_dev;

/// Launches that can be told apart at a time (`PF_LAUNCHES`).
pub(super) const LAUNCHES: u64 = 64;

/// What was counted of a launch so far. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// When execve was called, or had succeeded where calls are not seen.
    pub start_ns: u64,
    /// Tasks of the launch tree that are alive.
    pub tasks: u64,
    /// Context switches of the tree into a wait for the drive (`in_iowait`); only counted while
    /// there is a [`super::CountingWaits`].
    pub switches: u64,
    /// Time of these waits, summed up over tasks.
    pub waiting_ns: u64,
    /// Read requests that the tree made itself.
    pub requests: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The last read request, of the tree or of the prefetch thread; 0 if there was none.
    pub last_ns: u64,
    /// Read requests of the prefetch thread.
    pub prefetch_requests: u64,
    /// Their size in bytes.
    pub prefetch_bytes: u64,
    /// The first of them; 0 if there was none.
    pub first_prefetch_ns: u64,
    /// When the completion page was used first; 0 if it was not, or is not known.
    pub completed_ns: u64,
    /// [`Counts::requests`] at that time.
    pub completed_requests: u64,
}

impl Counts {
    /// Read requests that the tree made itself in its launch (paper §4.3): until the completion page was
    /// used, if that is known. What an app reads behind its window is not what it was learned for.
    pub fn launch_requests(&self) -> u64 {
        match self.completed_ns {
            0 => self.requests,
            _ => self.completed_requests,
        }
    }
}

/// A page of a file: by its use, launches of one app can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Device (`st_dev`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Index in pages of the kernel's size.
    pub index: u64,
}

/// The map.
pub struct Slots<'a, M>(pub &'a M);

impl<M: MapCore> Slots<'_, M> {
    /// What was counted of the launch; `None` if it has no slot (any more).
    pub fn get(&self, launch: u64) -> Option<Counts> {
        let raw = self.raw(launch)?;
        Some(Counts {
            start_ns: raw.start_ns,
            tasks: raw.tasks,
            switches: raw.switches,
            waiting_ns: raw.waiting_ns,
            requests: raw.requests,
            bytes: raw.bytes,
            last_ns: raw.last_ns,
            prefetch_requests: raw.prefetch_requests,
            prefetch_bytes: raw.prefetch_bytes,
            first_prefetch_ns: raw.first_prefetch_ns,
            completed_ns: raw.completed_ns,
            completed_requests: raw.completed_requests,
        })
    }

    /// Tells the launch's completion page. Early in the launch, or counts of the moment between may be
    /// lost: they are written back as they were read.
    pub fn set_completion(&self, launch: u64, page: Page) -> Result<(), libbpf_rs::Error> {
        let Some(mut raw) = self.raw(launch) else {
            return Ok(());
        };
        raw.completion_dev = kernel_dev(page.dev);
        raw.completion_ino = page.ino;
        raw.completion_page = page.index;
        self.write(launch, &raw)
    }

    /// Frees the launch's slot; false if it had none.
    pub fn free(&self, launch: u64) -> Result<bool, libbpf_rs::Error> {
        if self.raw(launch).is_none() {
            return Ok(false);
        }
        // SAFETY: plain integers, for which zeros are a value.
        let empty: pf_counts = unsafe { std::mem::zeroed() };
        self.write(launch, &empty).map(|()| true)
    }

    /// Takes the slot of a launch that begins outside of execve; false if it is taken.
    pub fn take(&self, launch: u64, start_ns: u64) -> Result<bool, libbpf_rs::Error> {
        let slot = slot(launch);
        let taken = self
            .0
            .lookup(&slot, MapFlags::ANY)?
            .and_then(|bytes| read(&bytes))
            .is_none_or(|raw| raw.launch != 0);
        if taken {
            return Ok(false);
        }
        // SAFETY: as in `free`.
        let mut raw: pf_counts = unsafe { std::mem::zeroed() };
        raw.launch = launch;
        raw.start_ns = start_ns;
        raw.tasks = 1;
        self.write(launch, &raw).map(|()| true)
    }

    fn raw(&self, launch: u64) -> Option<pf_counts> {
        let bytes = self.0.lookup(&slot(launch), MapFlags::ANY).ok()??;
        read(&bytes).filter(|raw| raw.launch == launch && launch != 0)
    }

    fn write(&self, launch: u64, raw: &pf_counts) -> Result<(), libbpf_rs::Error> {
        // SAFETY: a reference to plain integers without padding, read as the bytes that it has.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(raw).cast::<u8>(), size_of::<pf_counts>())
        };
        self.0.update(&slot(launch), bytes, MapFlags::ANY)
    }
}

fn slot(launch: u64) -> [u8; 4] {
    ((launch % LAUNCHES) as u32).to_ne_bytes()
}

fn read(bytes: &[u8]) -> Option<pf_counts> {
    if bytes.len() < size_of::<pf_counts>() {
        return None;
    }
    // SAFETY: the slice is long enough, pf_counts is plain integers for which any bytes are a value,
    // and an unaligned read asks for no alignment.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
