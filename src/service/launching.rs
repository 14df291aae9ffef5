//! The beginning of launches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use libbpf_rs::{MapCore, MapFlags};

use super::active::{Active, UnderWay};
use super::catalogue::{FoundApp, Gone, NO_EXECUTABLE};
use super::core::Service;
use super::message::Message;
use super::priority::start_behind;
use super::reschedule::now_s;
use crate::drive::MemoryLimits;
use crate::kernel::{LaunchEvent, LaunchEventKind};
use crate::model::LaunchLimits;
use crate::policy::{Observation, Plan};
use crate::prefetch::{Prefetch, PrefetchOptions};
use crate::process::{Clocks, EndDetector};
use crate::profile::decode;
use crate::service::cached_profile::CachedProfile;
use crate::service::control::LaunchSignal;

/// Launches that are dealt with at a time; more are left alone.
const MOST_ACTIVE: usize = 48;

impl Service<'_> {
    /// Something was seen in the kernel.
    pub(super) fn on_seen(&mut self, seen: LaunchEvent) {
        match seen.kind {
            LaunchEventKind::Called => self.on_called(&seen),
            LaunchEventKind::Executed => self.on_executed(&seen),
            LaunchEventKind::Ended => self.on_ended(seen.launch, seen.time_ns),
            LaunchEventKind::Large(bytes) => self.on_large(&seen, bytes),
        }
    }

    /// execve was called: the earliest moment to prefetch.
    fn on_called(&mut self, seen: &LaunchEvent) {
        if self.active.contains_key(&seen.launch) {
            // Another place of PATH is tried; the one before was none.
            return;
        }
        match self.catalogue.called(seen) {
            Some(found) => {
                self.state.calls.remove(seen.launch);
                self.begin(seen.launch, seen.pid, found, false);
            }
            // By another name, perhaps, or not at all.
            None => {
                let given_up = self
                    .state
                    .calls
                    .called(seen.launch, seen.pid, Instant::now());
                if let Some(launch) = given_up {
                    self.end_counting(launch);
                }
            }
        }
    }

    /// execve has succeeded.
    fn on_executed(&mut self, seen: &LaunchEvent) {
        self.state.calls.remove(seen.launch);
        // Of a process that is gone already, only its path can tell.
        let found = match self.catalogue.executed(seen) {
            Ok(found) => found,
            Err(Gone) => self.catalogue.gone(seen),
        };
        let expected = self.active.get(&seen.launch).map(|active| &active.id);
        match (found, expected) {
            (Some(found), Some(id)) if *id == found.id => {
                if let Some(active) = self.active.get_mut(&seen.launch) {
                    active.confirmed = true;
                    active.app = found.app;
                }
            }
            (Some(found), None) => self.begin(seen.launch, seen.pid, found, true),
            (None, _) | (Some(_), Some(_)) => {
                self.cancel(seen.launch);
                return;
            }
        }
        self.confirmed(seen.launch);
    }

    /// A launch that has really begun is counted, and learned if nobody held it for that.
    pub(super) fn confirmed(&mut self, launch: u64) {
        let Some(active) = self.active.get(&launch) else {
            return;
        };
        let (id, plan, pid) = (active.id.clone(), active.plan, active.pid);
        // Where it was held, it was tried already: by now it would come too late.
        let is_tried = active.learning || active.note.is_some();
        tracing::debug!(app = id, pid, ?plan, "launch begins");
        let event = LaunchSignal::Begun {
            app: id.clone(),
            pid,
            plan,
        };
        let executable = active.app.ino;
        self.state.launches_seen += 1;
        let now = now_s();
        let Some(record) = self.registry.get_mut(&id) else {
            return;
        };
        record.launched(now);
        record.prefetched += u64::from(plan == Plan::Prefetch);
        // Another inode at the same path: a package was updated. Device numbers say nothing, a drive may have
        // another one each time that it is plugged in.
        let was = record.app.as_ref().map(|app| app.ino);
        let replaced = was.is_some_and(|was| {
            was != executable && was != NO_EXECUTABLE.1 && executable != NO_EXECUTABLE.1
        });
        record.app = Some(active.app.clone());
        if replaced {
            record.managed.next(now, &Observation::NewExecutable);
        }
        self.emit(event);
        if plan == Plan::Learn && !is_tried {
            self.holding.invalidate();
            self.learn(launch, None);
        }
    }

    /// Plans a launch and does what was planned.
    pub(super) fn begin(&mut self, launch: u64, pid: u32, found: FoundApp, confirmed: bool) {
        let FoundApp { id, app } = found;
        let twice = self.active.values().any(|active| active.id == id);
        if twice || self.active.len() >= MOST_ACTIVE {
            // One app launched twice at once is one job.
            self.end_counting(launch);
            return;
        }
        if self.registry.get(&id).is_none() && !self.is_suspect(&id) {
            match self.catalogue.candidate(&id) {
                Some(candidate) if !self.is_full() => self.registry.insert(candidate.record(&id)),
                _ => {
                    self.end_counting(launch);
                    return;
                }
            }
        }
        let (now, random) = (now_s(), self.random());
        let ready = self.ready.get(&id).cloned();
        let withholds = self.config.prefetch.withhold;
        let planned = self
            .registry
            .get_mut(&id)
            .map_or(Plan::Leave, |record| record.managed.plan(now, random));
        let plan = match planned {
            Plan::Prefetch | Plan::Withhold if ready.is_none() => {
                // Whatever became of the profile.
                self.decide(&id, &Observation::NoProfile);
                Plan::Learn
            }
            Plan::Withhold if !withholds => Plan::Prefetch,
            plan => plan,
        };
        let begun = Instant::now();
        let (clocks, limits) = (Clocks::now(), LaunchLimits::from(&self.config.launch));
        let mut active = Active {
            id,
            app,
            plan,
            pid,
            begun,
            begun_s: now,
            confirmed,
            learning: false,
            prefetch: None,
            prefetching: Arc::default(),
            helper: Arc::new(AtomicU32::new(0)),
            report: None,
            switches: 0,
            end: EndDetector::new(clocks.monotonic_ns, clocks, limits),
            held: None,
            note: None,
        };
        if let Some(ready) = ready {
            // What was learned before is worth having as long as it is learned anew, and learning sees what
            // the app uses whoever has read it.
            if let Plan::Prefetch | Plan::Learn = plan {
                self.prefetch(launch, &ready, &mut active);
            }
            if let Some(page) = ready.completion {
                self.watch.set_completion(launch, page);
            }
        }
        self.active.insert(launch, active);
        self.count_waits();
    }

    /// The first requests at once, all others by a thread.
    fn prefetch(&mut self, launch: u64, ready: &CachedProfile, active: &mut Active) {
        if let Some(lead) = &ready.lead {
            self.watch.attribute_reads_to(Some(launch));
            lead.read();
            self.watch.attribute_reads_to(None);
        }
        let packed = Arc::clone(&ready.packed);
        let helpers = match self.watch.helpers() {
            Ok(helpers) => helpers,
            Err(error) => return self.warn(error.to_string()),
        };
        let helper = Arc::clone(&active.helper);
        let load = move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            // As above.
            let _ = helpers.update(&tid.to_ne_bytes(), &launch.to_ne_bytes(), MapFlags::ANY);
            helper.store(tid, Ordering::Release);
            // It was packed by this very program.
            decode(&packed).ok()
        };
        let outbox = self.outbox.clone();
        let under_way = UnderWay::begin(&active.prefetching);
        let done = move || {
            drop(under_way);
            outbox.send(Message::Prefetched(launch));
        };
        let options = PrefetchOptions {
            memory: MemoryLimits::from(&self.config.prefetch),
            ..PrefetchOptions::default()
        };
        match start_behind(|| Prefetch::start_then(load, options, done)) {
            Ok(prefetch) => active.prefetch = Some(prefetch),
            Err(error) => active.note = Some(format!("no prefetch thread: {error}")),
        }
    }

    /// Whether apps are taken on only if the user names them.
    pub(super) fn is_full(&self) -> bool {
        self.registry.len() as u64 >= self.config.automatic.max_apps
    }

    /// A launch that turned out to be none.
    pub(super) fn cancel(&mut self, launch: u64) {
        if let Some(active) = self.active.remove(&launch)
            && let Some(prefetch) = active.prefetch
        {
            prefetch.stop();
        }
        self.end_counting(launch);
    }

    /// Its tasks are strangers from now on.
    pub(super) fn end_counting(&mut self, launch: u64) {
        self.watch.end(launch);
    }
}
