//! The drive's requests, and which of them ended a wait.

use std::collections::HashMap;

use super::event::{By, Event, Place, What};
use super::tasks::Wait;

/// A request to the drive; times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the drive got it.
    pub issued_ns: u64,
    /// When it was completed; `None` if the recording ended before.
    pub done_ns: Option<u64>,
    /// First 512-byte sector.
    pub sector: u64,
    /// Size.
    pub bytes: u64,
    /// Anything but a read.
    pub write: bool,
    /// On whose behalf.
    pub by: By,
    /// Thread that made it.
    pub pid: u32,
    /// The pages that it reads.
    pub place: Option<Place>,
}

/// Pairs issues and completions; `events` in time order. Completions of requests from before the
/// recording are passed over; a request that is issued again before it is done was requeued, and
/// counts from its first issue.
pub fn requests(events: &[Event]) -> Vec<Request> {
    let mut all = Vec::new();
    let mut in_flight = HashMap::new();
    for event in events {
        match event.what {
            What::Issue {
                request,
                sector,
                bytes,
                write,
                pid,
                by,
                place,
            } => {
                in_flight.entry(request).or_insert_with(|| {
                    all.push(Request {
                        issued_ns: event.time_ns,
                        done_ns: None,
                        sector,
                        bytes,
                        write,
                        by,
                        pid,
                        place,
                    });
                    all.len() - 1
                });
            }
            What::Done(request) => {
                if let Some(index) = in_flight.remove(&request) {
                    all[index].done_ns = Some(event.time_ns);
                }
            }
            _ => {}
        }
    }
    all
}

/// Finds the read request that a wait was for.
pub struct Waited<'a> {
    requests: &'a [Request],
    /// Completion times and indices of reads, in order.
    done: Vec<(u64, usize)>,
}

impl<'a> Waited<'a> {
    /// For these requests.
    pub fn new(requests: &'a [Request]) -> Self {
        let mut done: Vec<(u64, usize)> = requests
            .iter()
            .enumerate()
            .filter(|(_, request)| !request.write)
            .filter_map(|(index, request)| Some((request.done_ns?, index)))
            .collect();
        done.sort_unstable();
        Waited { requests, done }
    }

    /// The index of the read that ended the wait. The kernel does not say what a task waits for, but
    /// it was completed during the wait, and: it read what the task used last; or else the task made
    /// it itself; or else it was the last one that the tree or the helper made. `None` if no read of
    /// these two was completed then: the wait was for a write, or for the read of another process.
    pub fn for_what(&self, wait: &Wait) -> Option<usize> {
        let from = self
            .done
            .partition_point(|(done, _)| *done <= wait.start_ns);
        let to = self.done.partition_point(|(done, _)| *done <= wait.end_ns);
        let candidates = self.done.get(from..to)?;
        let last = |fits: &dyn Fn(&Request) -> bool| {
            let mut found = candidates.iter().rev().map(|(_, index)| *index);
            found.find(|&index| fits(&self.requests[index]))
        };
        let same_place = |request: &Request| {
            let places = wait.place.zip(request.place);
            places.is_some_and(|(used, read)| used.overlaps(&read))
        };
        last(&same_place)
            .or_else(|| last(&|request| request.by == By::Tree && request.pid == wait.pid))
            .or_else(|| last(&|request| request.by != By::Other))
    }
}
