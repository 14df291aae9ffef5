//! A disk with heads: seek, wait for the sector, transfer while it passes. With command queuing the
//! next request is the one that the heads reach first; without, the oldest. Writes go to the medium before
//! they are answered; those that continue one another do so without a rotation in between.

use super::units::{micros, transfer};
use super::{Operation, Request, Ticket, Timing};
use crate::drive::profile::{Bus, Heads};

/// The mean of √x over the distances of two random points, as a share of the stroke (mean x is 1/3).
const MEAN_ROOT_OF_DISTANCE: f64 = 8.0 / 15.0;

#[derive(Clone, Debug)]
pub(super) struct HeadsModel {
    interface_mb_s: f64,
    track_mb_s: f64,
    command: u64,
    depth: usize,
    capacity: u64,
    lookahead: u64,
    track_bytes: u64,
    rotation: u64,
    track_seek: f64,
    seek_factor: f64,
    /// Requests that have not been chosen, in order of arrival.
    waiting: Vec<(Ticket, Request)>,
    /// Requests that have been chosen and not been asked for since, with their completion.
    chosen: Vec<(Ticket, u64)>,
    /// When the heads are free.
    free: u64,
    /// Where they are.
    position: u64,
    /// When the medium had delivered all up to `position`, if what follows is being read on.
    delivered: Option<u64>,
    /// When the medium had all up to `position`, if the heads were writing it.
    written: Option<u64>,
}

impl HeadsModel {
    pub(super) fn new(bus: &Bus, heads: &Heads, capacity: u64) -> HeadsModel {
        let rotation = 60e9 / heads.rpm;
        let above_track = heads.average_seek_ms - heads.track_seek_ms;
        HeadsModel {
            interface_mb_s: bus.interface_mb_s,
            track_mb_s: heads.track_mb_s,
            command: micros(bus.command_us),
            depth: bus.queue_depth as usize,
            capacity: capacity.max(1),
            lookahead: heads.lookahead_bytes,
            track_bytes: ((heads.track_mb_s * rotation / 1e3) as u64).max(1),
            rotation: (rotation as u64).max(1),
            track_seek: heads.track_seek_ms * 1e6,
            seek_factor: above_track * 1e6 / MEAN_ROOT_OF_DISTANCE,
            waiting: Vec::new(),
            chosen: Vec::new(),
            free: 0,
            position: 0,
            delivered: None,
            written: None,
        }
    }

    pub(super) fn arrive(&mut self, ticket: Ticket, request: Request) {
        match request.operation {
            Operation::Read | Operation::Write => self.waiting.push((ticket, request)),
            // Nothing is buffered, and a disk has nothing to forget.
            Operation::Discard | Operation::Flush => self.chosen.push((ticket, request.arrival)),
        }
    }

    pub(super) fn ask(&mut self, ticket: Ticket, now: u64) -> Timing {
        while let Some(time) = self.next_choice().filter(|time| *time <= now) {
            self.choose(time);
        }
        if let Some(index) = self.chosen.iter().position(|(other, _)| *other == ticket) {
            return Timing::Complete(self.chosen.swap_remove(index).1);
        }
        if self.waiting.iter().all(|(other, _)| *other != ticket) {
            return Timing::Complete(now);
        }
        // Not chosen, so the next choice is yet to come.
        Timing::AskAt(self.next_choice().unwrap_or(now).max(now + 1))
    }

    /// When the heads are free and something waits for them.
    fn next_choice(&self) -> Option<u64> {
        let earliest = self.waiting.iter().map(|(_, request)| request.arrival);
        Some(self.free.max(earliest.min()?))
    }

    /// Sends the heads, at the time `now`, to the nearest of the requests that the queue holds.
    fn choose(&mut self, now: u64) {
        let arrived = |(_, (_, request)): &(usize, &(Ticket, Request))| request.arrival <= now;
        let nearest = self
            .waiting
            .iter()
            .enumerate()
            .filter(arrived)
            .take(self.depth)
            .min_by_key(|(_, (_, request))| self.serve(request, now).complete)
            .map(|(index, _)| index);
        let Some(index) = nearest else { return };
        let (ticket, request) = self.waiting.remove(index);
        let served = self.serve(&request, now);
        self.free = served.complete;
        self.position = request.offset.saturating_add(request.length);
        let write = request.operation == Operation::Write;
        self.delivered = (!write).then_some(served.delivered);
        self.written = write.then_some(served.delivered);
        self.chosen.push((ticket, served.complete));
    }

    /// What a request would take if it were chosen now.
    fn serve(&self, request: &Request, now: u64) -> Served {
        let started = now + self.command;
        let sent = started + transfer(request.length, self.interface_mb_s);
        let passing = transfer(request.length, self.track_mb_s);
        let write = request.operation == Operation::Write;
        // Its data were there before the heads had written what comes before them.
        let in_time =
            request.arrival + self.command + transfer(request.length, self.interface_mb_s);
        if let (true, Some(written)) = (write && self.depth > 1, self.written)
            && request.offset == self.position
            && in_time <= written
            && now <= written
        {
            let complete = written + passing;
            return Served {
                complete,
                delivered: complete,
            };
        }
        // Where the heads have been reading on, the data are in the buffer, or are just coming.
        let ahead = request.offset.checked_sub(self.position);
        let read_on = ahead.filter(|ahead| *ahead <= self.lookahead);
        if let (Some(ahead), Some(delivered), false) = (read_on, self.delivered, write) {
            let window = transfer(self.lookahead, self.track_mb_s);
            let delivered = delivered.max(now.saturating_sub(window))
                + transfer(ahead, self.track_mb_s)
                + passing;
            return Served {
                complete: sent.max(delivered),
                delivered,
            };
        }
        let there = started + self.seek(request.offset);
        let delivered = there + self.rotate(request.offset, there) + passing;
        Served {
            complete: delivered.max(sent),
            delivered,
        }
    }

    /// The time to move the heads to `offset`.
    fn seek(&self, offset: u64) -> u64 {
        let distance = self.position.abs_diff(offset);
        if distance < self.track_bytes {
            return 0;
        }
        let share = (distance as f64 / self.capacity as f64).min(1.0);
        (self.track_seek + self.seek_factor * share.sqrt()) as u64
    }

    /// The time from `now` until `offset` passes the head.
    fn rotate(&self, offset: u64, now: u64) -> u64 {
        let along_track = (offset % self.track_bytes) as f64 / self.track_bytes as f64;
        let target = (along_track * self.rotation as f64) as u64;
        (target + self.rotation - now % self.rotation) % self.rotation
    }
}

struct Served {
    /// When the host has the data, or knows them written.
    complete: u64,
    /// When the last of them passed the head.
    delivered: u64,
}
