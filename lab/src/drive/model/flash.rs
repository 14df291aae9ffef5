//! Flash behind a controller: a command waits for a free slot of the queue, then for the controller;
//! its pages wait for their channels, which sense, program and transfer one page at a time; and the
//! data cross the link to the host. What is written, and when: [`super::writes`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::channels::Channels;
use super::timeline::Timeline;
use super::units::{micros, transfer};
use super::writes::WriteSide;
use super::{Operation, Request};
use crate::drive::profile::{Bus, Flash};

/// How much earlier than the one before it a request may arrive, in ns: servers take
/// them in threads.
const OUT_OF_ORDER: u64 = 10_000_000;

#[derive(Clone, Debug)]
pub(super) struct FlashModel {
    flash: Flash,
    interface_mb_s: f64,
    command: u64,
    read: u64,
    depth: usize,
    /// Completions of the commands that the drive works on, earliest first.
    working: BinaryHeap<Reverse<u64>>,
    controller_free: u64,
    channels: Channels,
    interface: Timeline,
    writes: WriteSide,
    /// The latest completion of all.
    busy_until: u64,
    /// Pages of the map that are cached, the most recently used one last.
    map: VecDeque<u64>,
}

impl FlashModel {
    pub(super) fn new(bus: &Bus, flash: &Flash, capacity: u64) -> FlashModel {
        FlashModel {
            interface_mb_s: bus.interface_mb_s,
            command: micros(bus.command_us),
            read: micros(flash.read_us),
            depth: bus.queue_depth as usize,
            working: BinaryHeap::new(),
            controller_free: 0,
            channels: Channels::new(flash.channels as usize),
            interface: Timeline::default(),
            writes: WriteSide::new(flash, capacity),
            busy_until: 0,
            map: VecDeque::new(),
            flash: flash.clone(),
        }
    }

    /// Notes data that were there before the first request.
    pub(super) fn occupy(&mut self, offset: u64, length: u64) {
        self.writes.occupy(offset, length);
    }

    /// The completion of a request, in ns.
    pub(super) fn complete(&mut self, request: &Request) -> u64 {
        self.writes
            .rest(self.busy_until, request.arrival, &mut self.channels);
        let complete = match request.operation {
            Operation::Flush => self.writes.flush(request.arrival, &mut self.channels),
            Operation::Read | Operation::Write | Operation::Discard => self.command(request),
        };
        self.busy_until = self.busy_until.max(complete);
        complete
    }

    fn command(&mut self, request: &Request) -> u64 {
        let accepted = self.accept(request.arrival);
        self.interface.forget(accepted.saturating_sub(OUT_OF_ORDER));
        let mut started = accepted.max(self.controller_free) + self.command;
        started += match request.operation {
            Operation::Write => micros(self.flash.write_us),
            Operation::Discard => micros(self.flash.discard_us),
            Operation::Read | Operation::Flush => 0,
        };
        self.controller_free = started;
        let complete = match request.operation {
            Operation::Read => {
                let mapped = self.look_up(request, started);
                self.read(request, mapped)
            }
            Operation::Write => {
                let mapped = self.look_up(request, started);
                self.write(request, mapped)
            }
            Operation::Discard | Operation::Flush => {
                self.writes.discard(request.offset, request.length);
                started
            }
        };
        self.working.push(Reverse(complete));
        complete
    }

    /// When the drive takes the command: at once, or when another one's completion makes room.
    fn accept(&mut self, arrival: u64) -> u64 {
        while self.working.peek().is_some_and(|end| end.0 <= arrival) {
            self.working.pop();
        }
        let mut accepted = arrival;
        while self.working.len() >= self.depth {
            if let Some(Reverse(end)) = self.working.pop() {
                accepted = accepted.max(end);
            }
        }
        accepted
    }

    fn read(&mut self, request: &Request, from: u64) -> u64 {
        let mut pages: Vec<(u64, u64)> = Vec::new();
        for (at, bytes) in self.pages(request) {
            let time = self.read + transfer(bytes, self.flash.channel_mb_s);
            let out = self.channels.read(self.channel(at), from, time);
            pages.push((out, bytes));
        }
        // The link takes pages as they come out of their channels.
        pages.sort_unstable();
        let mut complete = from;
        for (out, bytes) in pages {
            let time = transfer(bytes, self.interface_mb_s);
            complete = complete.max(self.interface.reserve(out, time));
        }
        complete
    }

    fn write(&mut self, request: &Request, from: u64) -> u64 {
        let mut complete = from;
        for (at, bytes) in self.pages(request) {
            let time = transfer(bytes, self.interface_mb_s);
            let ready = self.writes.room(from, bytes);
            let received = self.interface.reserve(ready, time);
            let taken = self.writes.take(at, bytes, received, &mut self.channels);
            complete = complete.max(taken);
        }
        complete
    }

    /// The request's flash pages: where each begins, and the bytes wanted of it.
    fn pages(&self, request: &Request) -> Vec<(u64, u64)> {
        let mut pages = Vec::new();
        let end = request.offset.saturating_add(request.length);
        let mut at = request.offset;
        while at < end {
            let next = (at - at % self.flash.page_bytes)
                .saturating_add(self.flash.page_bytes)
                .min(end);
            pages.push((at, next - at));
            at = next;
        }
        pages
    }

    /// The channel that has the page of this address.
    fn channel(&self, at: u64) -> usize {
        (at / self.flash.stripe_bytes % u64::from(self.channels.count())) as usize
    }

    /// When the request's addresses are known: after a page read for each page of the map that is not
    /// cached, on the channel where the map has it.
    fn look_up(&mut self, request: &Request, from: u64) -> u64 {
        let Some(map) = self.flash.map.clone() else {
            return from;
        };
        let mut known = from;
        let last = request.offset.saturating_add(request.length.max(1) - 1);
        for segment in request.offset / map.segment_bytes..=last / map.segment_bytes {
            if let Some(index) = self.map.iter().position(|held| *held == segment) {
                self.map.remove(index);
            } else {
                let channel = (segment % u64::from(self.flash.channels)) as usize;
                known = self.channels.read(channel, known, self.read);
            }
            self.map.push_back(segment);
            if self.map.len() > map.cached_segments as usize {
                self.map.pop_front();
            }
        }
        known
    }
}
