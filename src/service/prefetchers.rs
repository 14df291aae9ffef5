//! The prefetch threads of launches under way.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libbpf_rs::{MapCore, MapFlags};

use super::cached_profile::CachedProfile;
use super::mailbox::Outbox;
use super::message::Message;
use super::priority::start_behind;
use crate::kernel::Watch;
use crate::model::PrefetchReport;
use crate::prefetch::{Prefetch, PrefetchOptions};
use crate::profile::decode;

/// A prefetch thread.
struct RunningPrefetch {
    prefetch: Prefetch,
    /// Thread id, once it runs; 0 before.
    tid: Arc<AtomicU32>,
    /// Whether it is under way, for other threads.
    under_way: Arc<AtomicBool>,
}

/// Sets a flag until it is dropped: also if the thread cannot be started, or panics.
struct UnderWay(Arc<AtomicBool>);

impl UnderWay {
    fn begin(flag: &Arc<AtomicBool>) -> Self {
        flag.store(true, Ordering::Release);
        UnderWay(Arc::clone(flag))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The prefetch threads, by launch.
pub struct Prefetchers {
    running: HashMap<u64, RunningPrefetch>,
    outbox: Outbox<Message>,
}

impl Prefetchers {
    /// No threads yet. They will report to this mailbox.
    pub fn new(outbox: Outbox<Message>) -> Self {
        Prefetchers {
            running: HashMap::new(),
            outbox,
        }
    }

    /// Makes the first requests of a profile at once, and has a thread make all others.
    ///
    /// # Errors
    /// When the system has no thread or descriptor to give.
    pub fn start(
        &mut self,
        launch: u64,
        profile: &CachedProfile,
        options: PrefetchOptions,
        kernel: &mut Watch,
    ) -> io::Result<()> {
        if let Some(head_start) = &profile.head_start {
            kernel.attribute_reads_to(Some(launch));
            head_start.read();
            kernel.attribute_reads_to(None);
        }
        let helpers = kernel.helpers().map_err(io::Error::other)?;
        let (tid, under_way) = (Arc::new(AtomicU32::new(0)), Arc::default());
        let (packed, own_tid) = (Arc::clone(&profile.packed), Arc::clone(&tid));
        let load = move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            // If the map is full, its reads count as the app's.
            let _ = helpers.update(&tid.to_ne_bytes(), &launch.to_ne_bytes(), MapFlags::ANY);
            own_tid.store(tid, Ordering::Release);
            // This program has packed it.
            decode(&packed).ok()
        };
        let outbox = self.outbox.clone();
        let flag = UnderWay::begin(&under_way);
        let done = move || {
            drop(flag);
            outbox.send(Message::Prefetched(launch));
        };
        let prefetch = start_behind(|| Prefetch::start_then(load, options, done))?;
        let running = RunningPrefetch {
            prefetch,
            tid,
            under_way,
        };
        self.running.insert(launch, running);
        Ok(())
    }

    /// Whether the prefetch of a launch is under way, for other threads.
    pub fn under_way(&self, launch: u64) -> Arc<AtomicBool> {
        let running = self.running.get(&launch);
        running.map_or_else(Arc::default, |running| Arc::clone(&running.under_way))
    }

    /// The report of a thread that has ended by itself. One that has not is stopped.
    pub fn end(&mut self, launch: u64, kernel: &Watch) -> Option<PrefetchReport> {
        let running = self.running.remove(&launch)?;
        let report = running.prefetch.poll();
        match report {
            // The kernel side has forgotten the thread if the launch has ended meanwhile.
            Some(_) => drop(kernel.set_helper(running.tid.load(Ordering::Acquire), None)),
            None => running.prefetch.stop(),
        }
        report
    }
}
