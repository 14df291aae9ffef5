//! The prefetch threads of launches under way.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

use libbpf_rs::{MapCore, MapFlags};

use super::cached_profile::CachedProfile;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::start_behind;
use crate::kernel::Watch;
use crate::model::PrefetchReport;
use crate::prefetch::{Prefetch, PrefetchOptions};
use crate::profile::decode;

/// The prefetch threads, by launch.
pub struct Prefetchers {
    /// The second value lives while the thread runs.
    running: HashMap<u64, (Prefetch, Weak<()>)>,
    outbox: Outbox,
}

impl Prefetchers {
    /// No threads yet. They will report to this mailbox.
    pub fn new(outbox: Outbox) -> Self {
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
        let helpers = Arc::new(kernel.helpers().map_err(io::Error::other)?);
        let own_tid = || {
            rustix::thread::gettid()
                .as_raw_nonzero()
                .get()
                .to_ne_bytes()
        };
        let (packed, map) = (Arc::clone(&profile.packed), Arc::clone(&helpers));
        let load = move || {
            // If the map is full, its reads count as the app's.
            let _ = map.update(&own_tid(), &launch.to_ne_bytes(), MapFlags::ANY);
            // This program has packed it.
            decode(&packed).ok()
        };
        // Dropped with the thread, also if the thread cannot be started, or panics.
        let alive = Arc::new(());
        let under_way = Arc::downgrade(&alive);
        let outbox = self.outbox.clone();
        let done = move || {
            drop(alive);
            // It has no entry if the map was full.
            let _ = helpers.delete(&own_tid());
            outbox.send(Message::Prefetched(launch));
        };
        let prefetch = start_behind(|| Prefetch::start_then(load, options, done))?;
        self.running.insert(launch, (prefetch, under_way));
        Ok(())
    }

    /// A reference that is dead unless the launch is being prefetched, for other threads.
    pub fn under_way(&self, launch: u64) -> Weak<()> {
        let running = self.running.get(&launch);
        running.map_or_else(Weak::new, |(_, under_way)| Weak::clone(under_way))
    }

    /// The report of a thread that has ended by itself. One that has not is stopped.
    pub fn end(&mut self, launch: u64) -> Option<PrefetchReport> {
        let (prefetch, _) = self.running.remove(&launch)?;
        let report = prefetch.poll();
        if report.is_none() {
            prefetch.stop();
        }
        report
    }
}
