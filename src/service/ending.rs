//! The end of launches.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::active::{Active, CALL_LIMIT, HOLD_LIMIT, duration_us};
use super::core::Service;
use super::message::Message;
use crate::kernel::LaunchCounts;
use crate::policy::{LaunchFigures, Observation, Plan, PrefetchFigures, Warmth};
use crate::process::{
    Clocks, LaunchLook, LaunchProgress, ReadSample, process_threads, thread_states,
};
use crate::service::control::{LaunchSignal, record_of};
use crate::service::history::{Kind, Launch};

impl Service<'_> {
    /// Looks which launches are over.
    pub(super) fn look_at_active(&mut self, now: Instant) {
        let mut over = Vec::new();
        let clocks = Clocks::now();
        for (&launch, active) in &mut self.active {
            let Some(counts) = self.watch.counts(launch) else {
                over.push(launch);
                continue;
            };
            if now.saturating_duration_since(active.begun) > HOLD_LIMIT
                && let Some(hold) = active.held.take()
                && hold.let_go()
            {
                active.note = Some("it was held for too long and let go".to_owned());
            }
            let never_executed =
                !active.confirmed && now.saturating_duration_since(active.begun) > CALL_LIMIT;
            let is_prefetching = active.prefetch.is_some() && active.report.is_none();
            // The learning thread decides by itself when the launch is over.
            let is_over = !active.learning && {
                let look = LaunchLook {
                    now: clocks,
                    reads: ReadSample::Total(counts.requests + counts.prefetch_requests),
                    is_prefetching,
                    has_exited: false,
                };
                // The counters do not name the tree's threads; those of its first process must do.
                let threads = thread_states(process_threads(active.pid));
                matches!(active.end.look(look, threads), LaunchProgress::Over(_))
            };
            if never_executed || (is_over && !is_prefetching) {
                over.push(launch);
            }
        }
        for launch in over {
            self.finish(launch, None);
        }
        // Calls that neither succeeded nor were the last of their process.
        for launch in self.state.calls.take_failed(now) {
            self.end_counting(launch);
        }
        self.stop_counting_unneeded();
    }

    /// The last task of a launch has exited.
    pub(super) fn on_ended(&mut self, launch: u64, time_ns: u64) {
        self.state.calls.remove(launch);
        let learning = self
            .active
            .get(&launch)
            .is_some_and(|active| active.learning);
        if learning {
            // What was learned is on its way; what was counted stays until then.
            return;
        }
        self.finish(launch, Some(time_ns));
    }

    /// The prefetch thread of a launch has ended.
    pub(super) fn on_prefetched(&mut self, launch: u64) {
        let Some(active) = self.active.get_mut(&launch) else {
            return;
        };
        active.report = active
            .prefetch
            .as_ref()
            .and_then(|prefetch| prefetch.poll());
        if let Some(report) = &active.report {
            if let Some(why) = &report.refused {
                active.note = Some(format!("not prefetched: {why}"));
            } else if let Some(why) = &report.ran_short {
                active.note = Some(format!("prefetched in part: {why}"));
            }
        }
        if let Some(counts) = self.watch.counts(launch) {
            active.switches = counts.switches;
        }
        let tid = active.helper.load(Ordering::Acquire);
        // It is not there if the launch has ended meanwhile.
        let _ = self.watch.set_helper(tid, None);
    }

    /// A launch is over: what was counted is written down and judged.
    pub(super) fn finish(&mut self, launch: u64, exited_ns: Option<u64>) {
        let Some(mut active) = self.active.remove(&launch) else {
            self.end_counting(launch);
            return;
        };
        let counts = self.watch.counts(launch).unwrap_or_default();
        self.end_counting(launch);
        if !active.confirmed {
            // execve failed, or its success was not seen.
            if let Some(prefetch) = active.prefetch {
                prefetch.stop();
            }
            return;
        }
        if active.report.is_none()
            && let Some(prefetch) = active.prefetch.take()
        {
            // The app has gone; nobody waits for the rest of its schedule.
            active.report = prefetch.poll();
            active.switches = counts.switches;
            prefetch.stop();
        }
        let seen = self.seen(&active, &counts, exited_ns);
        if let Plan::Prefetch | Plan::Withhold = active.plan
            && let Some(seen) = seen
        {
            self.judge(&active, seen);
        } else if !active.learning {
            // That its executable is another file was seen at its beginning.
            self.watch_for_learning();
        }
        self.suspect_ended(&active, &counts);
        // Before the history: who finds a launch there finds what it changed, too.
        self.save();
        self.write_down(&active, &counts, exited_ns, seen.map(|seen| seen.warmth()));
    }

    /// The launch in numbers; `None` without a profile to hold it against, or if it was cut short.
    fn seen(
        &self,
        active: &Active,
        counts: &LaunchCounts,
        exited_ns: Option<u64>,
    ) -> Option<LaunchFigures> {
        let ready = self.ready.get(&active.id)?;
        let prefetched = active
            .report
            .as_ref()
            .map(|report| PrefetchFigures::new(report, active.switches));
        if active.plan == Plan::Prefetch && prefetched.is_none() {
            return None;
        }
        Some(LaunchFigures {
            duration_us: duration_us(counts, exited_ns),
            waiting_us: counts.waiting_ns / 1000,
            read_bytes: counts.bytes + counts.prefetch_bytes,
            schedule_bytes: ready.bytes,
            own_readaheads: counts.launch_requests(),
            prefetched,
        })
    }

    fn judge(&mut self, active: &Active, seen: LaunchFigures) {
        let Some(ready) = self.ready.get(&active.id) else {
            return;
        };
        let history = ready.history.clone();
        let observation = Observation::Launched {
            history: &history,
            figures: seen,
        };
        self.decide(&active.id, &observation);
    }

    fn write_down(
        &mut self,
        active: &Active,
        counts: &LaunchCounts,
        exited_ns: Option<u64>,
        warmth: Option<Warmth>,
    ) {
        let until_first = counts.first_prefetch_ns.checked_sub(counts.start_ns);
        let launch = Launch {
            time_s: active.begun_s,
            app: active.id.clone(),
            kind: match active.plan {
                Plan::Learn if active.learning => Kind::Learned,
                Plan::Prefetch => Kind::Prefetched,
                Plan::Withhold => Kind::Withheld,
                Plan::Learn | Plan::Leave => Kind::Watched,
            },
            warmth,
            duration_us: duration_us(counts, exited_ns),
            waiting_us: counts.waiting_ns / 1000,
            read_bytes: counts.bytes + counts.prefetch_bytes,
            own_readaheads: counts.launch_requests(),
            switches: active.report.is_some().then_some(active.switches),
            entries: active.report.as_ref().map(|report| report.scheduled),
            until_first_us: until_first.map(|ns| ns / 1000),
            note: active.note.clone(),
        };
        tracing::info!(
            app = launch.app,
            kind = ?launch.kind,
            duration_us = launch.duration_us,
            waiting_us = launch.waiting_us,
            read_bytes = launch.read_bytes,
            own_requests = launch.own_readaheads,
            prefetched_bytes = counts.prefetch_bytes,
            note = launch.note.as_deref().unwrap_or_default(),
            "launch"
        );
        self.emit(LaunchSignal::Ended(record_of(&launch)));
        let outbox = self.outbox.clone();
        self.worker.run(move |records| {
            if let Some(warning) = records.add(&launch) {
                outbox.send(Message::Warning(warning));
            }
        });
    }
}
