//! Requests on their way through the emulated drive, and the thread that waits for them.
//!
//! Of the server's threads at most one waits for completions, for all requests; the others take new ones.
//! The thread that takes a request while no thread waits becomes the waiting thread. So a lone request
//! stays with its thread, and in a deep queue one thread answers all due requests each time it wakes.
//! One thread per request cost twice the processor time at depth 32.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::control::Pace;
use super::model::{Model, Request, Ticket, Timing};
use crate::clock::monotonic_ns as now;

/// Called when a request completes.
pub(super) trait Answer {
    /// Answers the request.
    fn answer(self);
}

/// All requests under way.
#[derive(Debug)]
pub(super) struct Pending<A> {
    state: Mutex<State<A>>,
    earlier: Condvar,
}

#[derive(Debug)]
struct State<A> {
    pace: Pace,
    model: Model,
    /// What waits, the earliest first: when, and where in `waiting`.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// Slots for what waits.
    waiting: Vec<Option<(Step, A)>>,
    /// Free slots.
    free: Vec<usize>,
    /// Until when a thread waits, if one does; 0 while it answers.
    waits_until: Option<u64>,
}

/// What comes next for a request.
#[derive(Clone, Copy, Debug)]
enum Step {
    Answer,
    /// The model is asked; the answer goes out earlier by the overhead, in ns.
    Ask(Ticket, u64),
}

impl<A: Answer> Pending<A> {
    /// Nothing under way, no delay.
    pub(super) fn new(model: Model) -> Pending<A> {
        Pending {
            state: Mutex::new(State {
                pace: Pace::None,
                model,
                order: BinaryHeap::new(),
                waiting: Vec::new(),
                free: Vec::new(),
                waits_until: None,
            }),
            earlier: Condvar::new(),
        }
    }

    /// How requests that arrive from now on are delayed.
    pub(super) fn set_pace(&self, pace: Pace) {
        self.state().pace = pace;
    }

    /// Takes a request, to be answered when the drive has completed it, by this or another thread.
    pub(super) fn take(&self, request: Request, answer: A) {
        let mut state = self.state();
        let (due, step) = match state.pace {
            Pace::None => {
                drop(state);
                return answer.answer();
            }
            Pace::Fixed(ns) => (request.arrival + ns, Step::Answer),
            Pace::Model(overhead) => {
                let ticket = state.model.arrive(request);
                state.ask(ticket, overhead.of(request.length), request.arrival)
            }
        };
        state.wait_for(due, step, answer);
        match state.waits_until {
            Some(until) if due < until => self.earlier.notify_one(),
            Some(_) => {}
            None => self.wait(state),
        }
    }

    /// Answers what is due, until nothing is under way.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State<A>>) {
        let mut due = Vec::new();
        loop {
            let now = now();
            state.collect(now, &mut due);
            if !due.is_empty() {
                state.waits_until = Some(0);
                drop(state);
                due.drain(..).for_each(Answer::answer);
                state = self.state();
                continue;
            }
            let Some(Reverse((next, _))) = state.order.peek() else {
                state.waits_until = None;
                return;
            };
            let next = *next;
            state.waits_until = Some(next);
            let time = Duration::from_nanos(next.saturating_sub(now));
            let woken = self.earlier.wait_timeout(state, time);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing panics while it is locked, and if it did the state would still be one.
    fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> State<A> {
    /// Moves the answers that are due to `due`.
    fn collect(&mut self, now: u64, due: &mut Vec<A>) {
        while let Some(Reverse((time, slot))) = self.order.peek().copied() {
            if time > now {
                break;
            }
            self.order.pop();
            let Some((step, answer)) = self.waiting[slot].take() else {
                continue;
            };
            self.free.push(slot);
            match step {
                Step::Answer => due.push(answer),
                Step::Ask(ticket, overhead) => {
                    let (time, step) = self.ask(ticket, overhead, now);
                    self.wait_for(time, step, answer);
                }
            }
        }
    }

    /// When to do what next for a request of the model's.
    fn ask(&mut self, ticket: Ticket, overhead: u64, now: u64) -> (u64, Step) {
        match self.model.ask(ticket, now) {
            Timing::Complete(time) => (time.saturating_sub(overhead), Step::Answer),
            Timing::AskAt(time) => (time, Step::Ask(ticket, overhead)),
        }
    }

    fn wait_for(&mut self, time: u64, step: Step, answer: A) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[slot] = Some((step, answer));
        self.order.push(Reverse((time, slot)));
    }
}
