//! The end of the service.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::Parts;

/// How long the end of the service takes at most, and the part of it that is left for writing the state if the thread that
/// works on profiles does not end. Whoever stops the service waits for it.
const STOP_LIMIT: Duration = Duration::from_millis(4500);
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// The part of it in which settings are restored.
const RESTORE_LIMIT: Duration = Duration::from_millis(500);

impl Parts {
    /// Restores the settings of launches under way: threads that learn or prefetch end with the process, and do not restore
    /// them then. What does not answer in time, as the queue of a dead drive, is left to the keepers.
    fn restore_settings(&self) {
        let (fault_around, elevators) = (self.fault_around.clone(), Arc::clone(&self.elevators));
        let close = move || {
            let faults = fault_around.map_or(Ok(()), |knob| knob.close());
            [faults, elevators.close()]
        };
        let (done, closed) = sync_channel(1);
        let thread = Builder::new().name("pf-restore".to_owned());
        let started = thread.spawn(move || done.send(close()));
        match started.map(|_| closed.recv_timeout(RESTORE_LIMIT)) {
            Ok(Ok(closed)) => {
                for error in closed.into_iter().filter_map(Result::err) {
                    tracing::warn!("{error}");
                }
            }
            Ok(Err(_)) => {
                tracing::warn!("settings could not be restored in time: the keeper does it")
            }
            Err(error) => tracing::warn!("settings are left to the keeper, no thread: {error}"),
        }
    }

    /// Restores what was changed, writes the state, and ends within [`STOP_LIMIT`], whatever threads wait for.
    pub fn finish(mut self) {
        let until = Instant::now() + STOP_LIMIT;
        self.restore_settings();
        self.apps.save();
        let Parts {
            apps,
            bus,
            worker,
            shield,
            _state_lock: _held,
            ..
        } = self;
        // Two seconds at most.
        shield.stop();
        // Signals that are queued are still sent, for a second at most. The worker ends when nothing can give it jobs any
        // more.
        drop((apps, bus));
        let left = until.saturating_duration_since(Instant::now());
        worker.finish(left.saturating_sub(WRITE_LIMIT), WRITE_LIMIT);
    }
}
