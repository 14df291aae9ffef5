//! From switches between tasks to spans of running and of waiting.

use std::collections::HashMap;

use super::event::{Event, Place, What};

/// A task's wait for I/O, in CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Thread id.
    pub pid: u32,
    /// When it gave the processor up.
    pub start_ns: u64,
    /// When it got one again, or the recording ended.
    pub end_ns: u64,
    /// The place that it used last before.
    pub place: Option<Place>,
}

/// The activity of the launch tree's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Spans of running, of any task, in CLOCK_MONOTONIC nanoseconds.
    pub runs: Vec<(u64, u64)>,
    /// Waits for I/O.
    pub waits: Vec<Wait>,
}

enum State {
    Running(u64),
    Waiting(u64, Option<Place>),
    /// Able to run, or asleep for another reason, or dead.
    Off,
}

impl Tasks {
    /// `events` in time order; `end_ns` closes what is still going on.
    pub fn of(events: &[Event], start_ns: u64, end_ns: u64) -> Tasks {
        let mut tasks = Tasks::default();
        let mut states: HashMap<u32, State> = HashMap::new();
        for event in events {
            if let What::Exec { pid, was } = event.what {
                // The leader that was is gone, and the thread's own id with this.
                let moved = states.insert(was, State::Off);
                let moved = moved.unwrap_or(State::Running(start_ns));
                let replaced = states.insert(pid, moved).unwrap_or(State::Off);
                tasks.close(pid, replaced, event.time_ns);
                continue;
            }
            let (pid, next) = match event.what {
                What::Fork(pid) => (pid, State::Off),
                What::In(pid) => (pid, State::Running(event.time_ns)),
                What::Out {
                    pid,
                    io_wait: true,
                    place,
                } if !matches!(states.get(&pid), Some(State::Off)) => {
                    (pid, State::Waiting(event.time_ns, place))
                }
                What::Out { pid, .. } | What::Gone(pid) => (pid, State::Off),
                _ => continue,
            };
            // Whom nothing put on a processor was on one when the launch began: its first task.
            let before = states.insert(pid, next).unwrap_or(match event.what {
                What::Out { .. } | What::Gone(_) => State::Running(start_ns),
                _ => State::Off,
            });
            tasks.close(pid, before, event.time_ns);
        }
        for (pid, state) in states {
            tasks.close(pid, state, end_ns);
        }
        tasks.runs.sort_unstable();
        tasks.waits.sort_by_key(|wait| (wait.start_ns, wait.pid));
        tasks
    }

    fn close(&mut self, pid: u32, state: State, end_ns: u64) {
        match state {
            State::Running(start) if start < end_ns => self.runs.push((start, end_ns)),
            State::Waiting(start_ns, place) if start_ns < end_ns => self.waits.push(Wait {
                pid,
                start_ns,
                end_ns,
                place,
            }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(pid: u32, io_wait: bool) -> What {
        What::Out {
            pid,
            io_wait,
            place: None,
        }
    }

    fn of(events: &[(u64, What)]) -> Tasks {
        let events: Vec<Event> = events
            .iter()
            .map(|&(time_ns, what)| Event { time_ns, what })
            .collect();
        Tasks::of(&events, 100, 1000)
    }

    #[test]
    fn the_first_task_runs_from_the_start() {
        let tasks = of(&[
            (150, What::Exec { pid: 1, was: 1 }),
            (200, out(1, false)),
            (300, What::In(1)),
        ]);
        assert_eq!(tasks.runs, [(100, 200), (300, 1000)]);
        assert_eq!(of(&[(200, out(1, false))]).runs, [(100, 200)]);
    }

    #[test]
    fn a_forked_task_does_not_run_yet() {
        let tasks = of(&[
            (120, What::Fork(2)),
            (130, What::In(2)),
            (140, What::Gone(2)),
            (150, out(2, false)),
        ]);
        assert_eq!(tasks.runs, [(130, 140)]);
    }

    #[test]
    fn a_thread_that_executes_goes_on_under_another_id() {
        let tasks = of(&[
            (110, What::In(2)),
            (120, What::Gone(1)),
            (130, What::Exec { pid: 1, was: 2 }),
            (160, out(1, false)),
        ]);
        assert_eq!(tasks.runs, [(100, 120), (110, 160)]);
    }

    #[test]
    fn a_wait_is_from_out_to_in() {
        let tasks = of(&[(110, out(1, true)), (170, What::In(1)), (180, out(1, true))]);
        let spans: Vec<_> = tasks.waits.iter().map(|w| (w.start_ns, w.end_ns)).collect();
        assert_eq!(spans, [(110, 170), (180, 1000)]);
        assert_eq!(tasks.runs, [(100, 110), (170, 180)]);
    }
}
