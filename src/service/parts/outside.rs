//! The real side of the seam: what launches need of the system.

use rustix::process::Pid;

use super::Parts;
use crate::drive::MemoryLimits;
use crate::learn::LiveJob;
use crate::model::LaunchCounts;
use crate::model::{App, LaunchLimits, PrefetchReport};
use crate::policy::{LaunchFigures, Observation, Warmth};
use crate::prefetch::PrefetchOptions;
use crate::process::{TaskState, process_threads, thread_states};
use crate::profile::decode;
use crate::service::control::LaunchSignal;
use crate::service::history::LaunchRecord;
use crate::service::launch::LaunchNote;
use crate::service::launch::seam::{ConfirmedLaunch, LaunchBooks, LaunchKernel, LaunchThreads};
use crate::service::message::Message;
use crate::service::watchlist::ProbationVerdict;

impl LaunchKernel for Parts {
    fn counts(&self, launch: u64) -> Option<LaunchCounts> {
        self.kernel.counts(launch)
    }

    fn threads(&self, pid: u32) -> impl Iterator<Item = TaskState> {
        thread_states(process_threads(pid))
    }

    fn close_slot(&mut self, launch: u64) {
        self.kernel.end(launch);
    }

    fn watch_completion(&mut self, launch: u64, id: &str) {
        if let Some(page) = self.apps.profile(id).and_then(|profile| profile.completion) {
            self.kernel.set_completion(launch, page);
        }
    }

    fn count_waits(&mut self) {
        let switched = self.waits.switch_on(|| self.kernel.wait_programs());
        self.check_waits(switched);
    }

    fn stop_counting_waits(&mut self) {
        let switched = self.waits.switch_off();
        self.check_waits(switched);
    }

    fn invalidate_gate(&mut self) {
        self.gate.invalidate();
    }

    fn refresh_gate(&mut self) {
        self.refresh_marks();
    }
}

impl LaunchThreads for Parts {
    fn start_prefetch(&mut self, launch: u64, id: &str) -> Result<(), LaunchNote> {
        let Some(profile) = self.apps.profile(id) else {
            return Err(LaunchNote::NoPrefetchThread(
                "its profile is gone".to_owned(),
            ));
        };
        let options = PrefetchOptions {
            memory: MemoryLimits::from(&self.config.prefetch),
            ..PrefetchOptions::default()
        };
        self.prefetchers
            .start(launch, profile, options, &mut self.kernel)
            .map_err(|error| LaunchNote::NoPrefetchThread(error.to_string()))
    }

    fn take_report(&mut self, launch: u64) -> Option<PrefetchReport> {
        self.prefetchers.take_report(launch, &self.kernel)
    }

    fn stop_prefetch(&mut self, launch: u64) -> Option<PrefetchReport> {
        self.prefetchers.stop(launch)
    }

    fn start_recording(
        &mut self,
        launch: u64,
        id: &str,
        pid: u32,
        app: &App,
    ) -> Result<(), LaunchNote> {
        if !self.recorders.can_record() {
            return Err(LaunchNote::NoRecorder);
        }
        let Some(pid) = Pid::from_raw(pid as i32) else {
            return Err(LaunchNote::NoRecorder);
        };
        let earlier = self
            .apps
            .profile(id)
            .and_then(|profile| decode(&profile.packed).ok());
        let job = LiveJob {
            launch,
            pid,
            app: app.clone(),
            earlier,
            limits: LaunchLimits::from(&self.config.launch),
            sysfs: self.places.sysfs.clone(),
            prefetching: self.prefetchers.under_way(launch),
            held: None,
        };
        let taken = self.recorders.record(job);
        // There may be another app to learn.
        let kept = self.recorders.keep_as_many();
        if let Some(error) = taken.as_ref().err().or(kept.as_ref().err()) {
            self.warn_of_recorder(error);
        }
        // If it was not taken, there will be other launches of this app.
        match taken {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(LaunchNote::RecorderBusy),
        }
    }

    fn is_held(&self, launch: u64) -> bool {
        self.recorders.is_held(launch)
    }

    fn let_go(&mut self, launch: u64) {
        self.recorders.let_go(launch);
    }
}

impl LaunchBooks for Parts {
    fn count_launch(&mut self, launch: ConfirmedLaunch<'_>) {
        let ConfirmedLaunch {
            id,
            app,
            pid,
            policy,
        } = launch;
        tracing::debug!(app = id, pid, plan = ?policy.plan, "launch begins");
        self.diagnostics.launches_seen += 1;
        if self.apps.launched(id, app, policy.plan) {
            self.emit(LaunchSignal::Begun {
                app: id.to_owned(),
                pid,
                plan: policy.plan,
            });
        }
    }

    fn keep_profile(&mut self, launch: u64, id: &str, counts: &LaunchCounts, alone: bool) {
        let Some(recorded) = self.recorded.take() else {
            return;
        };
        if recorded.launch != launch {
            return;
        }
        let cold = alone && is_cold(counts, recorded.cached.bytes);
        let waits_us = cold.then_some(counts.waiting_ns / 1000);
        self.apps
            .keep(id, recorded.cached, recorded.learned, waits_us);
        self.refresh_marks();
    }

    fn report_not_learned(&mut self, id: &str) {
        self.observe(id, &Observation::NotLearned);
    }

    fn schedule_bytes(&self, id: &str) -> Option<u64> {
        self.apps.profile(id).map(|profile| profile.bytes)
    }

    fn judge(&mut self, id: &str, figures: &LaunchFigures) {
        let Some(profile) = self.apps.profile(id) else {
            return;
        };
        let history = profile.history.clone();
        let observation = Observation::Launched {
            history: &history,
            figures,
        };
        self.observe(id, &observation);
    }

    fn weigh(&mut self, id: &str, counts: &LaunchCounts) {
        if self.apps.get(id).is_some() {
            return;
        }
        match self.watchlist.weigh(id, counts, &self.config.automatic) {
            ProbationVerdict::Undecided => {}
            ProbationVerdict::App => {
                tracing::info!(app = id, "large and slow: managed from its next launch on");
                if let Some(record) = self.watchlist.new_record(id) {
                    self.apps.insert(record);
                }
                self.refresh_marks();
            }
            ProbationVerdict::NoApp => self.watch_for_launches(),
        }
    }

    fn write_down(&mut self, row: LaunchRecord, counts: &LaunchCounts) {
        // First the registry: a program that finds the launch in the history finds what it changed, too.
        self.apps.save();
        tracing::info!(
            app = row.app,
            kind = ?row.kind,
            duration_us = row.duration_us,
            waiting_us = row.waiting_us,
            read_bytes = row.read_bytes,
            own_requests = row.own_readaheads,
            prefetched_bytes = counts.prefetch_bytes,
            note = row.note.as_deref().unwrap_or_default(),
            "launch"
        );
        self.emit(LaunchSignal::Ended(row.clone()));
        let outbox = self.outbox.clone();
        self.jobs.run(move |records| {
            if let Some(warning) = records.add(&row) {
                outbox.send(Message::Warning(warning));
            }
        });
    }
}

/// Whether a launch that was recorded was as cold as one from which prefetching is withheld.
fn is_cold(counts: &LaunchCounts, schedule_bytes: u64) -> bool {
    let figures = LaunchFigures {
        counts: *counts,
        schedule_bytes,
        ..LaunchFigures::default()
    };
    figures.warmth() == Warmth::Cold
}
