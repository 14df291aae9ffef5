//! The beginning of launches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use libbpf_rs::{MapCore, MapFlags};
use rustix::process::Pid;

use super::active::{Active, Hold, LetGo, Quiet};
use super::catalogue::{Candidate, Found, Gone, NO_EXECUTABLE};
use super::core::Service;
use super::face::begun;
use super::message::Message;
use super::priority::start_behind;
use super::ready::Ready;
use super::reschedule::now_s;
use crate::announce::Announced;
use crate::device::MemoryLimits;
use crate::launch::Limits;
use crate::manager::{Added, LiveJob, Marks};
use crate::phases::{Observation, Plan};
use crate::prefetch::{Options, Prefetch};
use crate::profile::{App, decode};
use crate::watch::{Held, Seen, SeenKind};

/// Launches that are dealt with at a time; more are left alone.
const MOST_ACTIVE: usize = 48;

impl Service<'_> {
    /// Something was seen in the kernel.
    pub(super) fn on_seen(&mut self, seen: Seen) {
        match seen.kind {
            SeenKind::Called => self.on_called(&seen),
            SeenKind::Executed => self.on_executed(&seen),
            SeenKind::Ended => self.on_ended(seen.launch, seen.time_ns),
            SeenKind::Large(bytes) => self.on_large(&seen, bytes),
        }
    }

    /// execve was called: the earliest moment to prefetch.
    fn on_called(&mut self, seen: &Seen) {
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
    fn on_executed(&mut self, seen: &Seen) {
        self.state.calls.remove(seen.launch);
        // Of a process that is gone already, only its path can tell.
        let found = match self.catalogue.executed(seen) {
            Ok(found) => found,
            Err(Gone) => self.catalogue.called(seen),
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
    fn confirmed(&mut self, launch: u64) {
        let Some(active) = self.active.get(&launch) else {
            return;
        };
        let (id, plan, pid) = (active.id.clone(), active.plan, active.pid);
        // Where it was held, it was tried already: by now it would come too late.
        let is_tried = active.learning || active.note.is_some();
        tracing::debug!(app = id, pid, ?plan, "launch begins");
        let event = begun(&id, pid, plan);
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
            self.learn(launch, None);
        }
    }

    /// Plans a launch and does what was planned.
    pub(super) fn begin(&mut self, launch: u64, pid: u32, found: Found, confirmed: bool) {
        let Found { id, app } = found;
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
            helper: Arc::new(AtomicU32::new(0)),
            report: None,
            switches: 0,
            quiet: Quiet::new(Limits::from(&self.config.launch), begun),
            held: None,
            note: None,
        };
        if let Some(ready) = ready {
            if plan == Plan::Prefetch {
                self.prefetch(launch, &ready, &mut active);
            }
            if let Some(page) = ready.completion
                && let Err(error) = self.watch.set_completion(launch, page)
            {
                self.warn(error.to_string());
            }
        }
        self.active.insert(launch, active);
        self.count_waits();
    }

    /// The first requests at once, all others by a thread.
    fn prefetch(&mut self, launch: u64, ready: &Ready, active: &mut Active) {
        if let Some(lead) = &ready.lead {
            self.watch.read_for(Some(launch));
            lead.read();
            self.watch.read_for(None);
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
        let done = move || {
            outbox.send(Message::Prefetched(launch));
        };
        let options = Options {
            memory: MemoryLimits::from(&self.config.prefetch),
            ..Options::default()
        };
        match start_behind(|| Prefetch::start_then(load, options, done)) {
            Ok(prefetch) => active.prefetch = Some(prefetch),
            Err(error) => active.note = Some(format!("no prefetch thread: {error}")),
        }
    }

    /// Programs that wait to be learned.
    pub(super) fn on_held(&mut self) {
        let waiting = match &self.gate {
            None => return,
            Some(gate) => gate.waiting(),
        };
        let waiting = match waiting {
            Ok(waiting) => waiting,
            Err(error) => return self.warn(error.to_string()),
        };
        if waiting.is_empty() {
            return;
        }
        // Each of them has called execve before, and what was seen of that says whose launch it is.
        match self.watch.take() {
            Ok(seen) => seen.into_iter().for_each(|seen| self.on_seen(seen)),
            Err(error) => self.warn(error.to_string()),
        }
        waiting.into_iter().for_each(|held| self.on_held_one(held));
    }

    /// Lets the program go at once, unless its launch is about to be learned.
    fn on_held_one(&mut self, held: Held) {
        let Some(id) = self.gated.get(&held.inode) else {
            return;
        };
        let launch = self.active.iter().find(|(_, active)| {
            active.pid == held.pid as u32 && active.id == *id && active.plan == Plan::Learn
        });
        if let Some((&launch, _)) = launch {
            return self.learn(launch, Some(held));
        }
        let (id, pid) = (id.clone(), held.pid);
        let Some(found) = self.catalogue.of_process(&id, pid) else {
            return;
        };
        if let Some(launch) = self.state.calls.take_of(pid as u32) {
            // The file tells what the path did not.
            self.begin(launch, pid as u32, found, false);
            return self.learn(launch, Some(held));
        }
        if self.watch.is_early() {
            return;
        }
        // Its call of execve was not seen, and its success comes too late.
        let adopted = Pid::from_raw(pid).map(|pid| self.watch.adopt(pid));
        if let Some(Ok(Some(launch))) = adopted {
            self.begin(launch, pid as u32, found, true);
            self.learn(launch, Some(held));
            self.confirmed(launch);
        }
    }

    /// Hands a launch to the learning thread.
    fn learn(&mut self, launch: u64, held: Option<Held>) {
        let Some(active) = self.active.get_mut(&launch) else {
            return;
        };
        if active.plan != Plan::Learn {
            return;
        }
        let Some(pid) = Pid::from_raw(active.pid as i32) else {
            return;
        };
        let Some(learner) = &self.learner else {
            active.note = Some("not learned: tracing cannot be had".to_owned());
            return;
        };
        let hold = held.map(Hold::new);
        active.held = hold.clone();
        let earlier = self
            .ready
            .get(&active.id)
            .and_then(|ready| decode(&ready.packed).ok());
        let job = LiveJob {
            launch,
            pid,
            app: active.app.clone(),
            earlier,
            limits: Limits::from(&self.config.launch),
            sysfs: self.places.sysfs.clone(),
            held: hold.map(|hold| Box::new(LetGo(hold)) as Box<dyn Send>),
        };
        match learner.learn(job) {
            Ok(()) => active.learning = true,
            // One launch is learned at a time; there will be others of this app.
            Err(_) => active.note = Some("not learned: another launch is being learned".to_owned()),
        }
    }

    /// Launches that somebody announced.
    pub(super) fn on_announced(&mut self) {
        // So many at once, and then others have their turn.
        for _ in 0..16 {
            let from_socket = self.socket.as_ref().map(|socket| socket.receive());
            let from_file = || self.file.as_ref().map(|file| file.receive());
            let received = match from_socket {
                Some(Ok(None)) | None => from_file(),
                other => other,
            };
            match received {
                Some(Ok(Some(announced))) => self.on_announcement(&announced),
                Some(Ok(None)) | None => return,
                Some(Err(error)) => return self.warn(error.to_string()),
            }
        }
    }

    fn on_announcement(&mut self, announced: &Announced) {
        let id = announced.identity();
        let found = Found {
            id: id.clone(),
            app: App {
                path: id.clone().into_bytes(),
                root: None,
                dev: 0,
                ino: 0,
            },
        };
        if self.registry.get(&id).is_none() {
            if self.is_full() {
                // Anybody may announce any name.
                return self.warn(format!("{id} is not managed: there are too many apps"));
            }
            let candidate = Candidate {
                title: announced.name.clone(),
                added: Added::Announced,
                marks: Marks::default(),
            };
            self.registry.insert(candidate.record(&id));
            // It is learned if that can be had ready in time, or else the next time.
            self.watch_for_learning();
        }
        match self.watch.adopt(announced.pid) {
            Ok(Some(launch)) => {
                let pid = announced.pid.as_raw_nonzero().get() as u32;
                self.begin(launch, pid, found, true);
                self.confirmed(launch);
            }
            Ok(None) => self.warn("too many launches at once: one was left alone".to_owned()),
            // It is gone already.
            Err(error) => tracing::debug!("{error}"),
        }
    }

    /// Whether apps are taken on only if the user names them.
    fn is_full(&self) -> bool {
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
        if let Err(error) = self.watch.end(launch) {
            self.warn(error.to_string());
        }
    }
}
