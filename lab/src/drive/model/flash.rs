//! Flash behind a controller: a command waits for a free slot of the queue, then for the controller;
//! its pages wait for their channels, which sense, program and transfer one page at a time; and the
//! data cross the link to the host. No read priority: a read waits for a program before it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::timeline::Timeline;
use super::{Request, micros, transfer};
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
    program: u64,
    depth: usize,
    /// Completions of the commands that the drive works on, earliest first.
    working: BinaryHeap<Reverse<u64>>,
    controller_free: u64,
    channel_free: Vec<u64>,
    interface: Timeline,
    /// Pages of the map that are cached, the most recently used one last.
    map: VecDeque<u64>,
}

impl FlashModel {
    pub(super) fn new(bus: &Bus, flash: &Flash) -> FlashModel {
        FlashModel {
            interface_mb_s: bus.interface_mb_s,
            command: micros(bus.command_us),
            read: micros(flash.read_us),
            program: micros(flash.program_us),
            depth: bus.queue_depth as usize,
            working: BinaryHeap::new(),
            controller_free: 0,
            channel_free: vec![0; flash.channels as usize],
            interface: Timeline::default(),
            map: VecDeque::new(),
            flash: flash.clone(),
        }
    }

    /// The completion of a request, in ns.
    pub(super) fn complete(&mut self, request: &Request) -> u64 {
        let accepted = self.accept(request.arrival);
        self.interface.forget(accepted.saturating_sub(OUT_OF_ORDER));
        let started = accepted.max(self.controller_free) + self.command;
        self.controller_free = started;
        let mapped = self.look_up(request, started);
        let complete = if request.write {
            self.write(request, mapped)
        } else {
            self.read(request, mapped)
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
        for (channel, bytes) in self.pages(request) {
            let sensed = from.max(self.channel_free[channel]) + self.read;
            let out = sensed + transfer(bytes, self.flash.channel_mb_s);
            self.channel_free[channel] = out;
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
        for (channel, bytes) in self.pages(request) {
            let time = transfer(bytes, self.interface_mb_s);
            let received = self.interface.reserve(from, time);
            let programmed = received.max(self.channel_free[channel])
                + transfer(bytes, self.flash.channel_mb_s)
                + self.program;
            self.channel_free[channel] = programmed;
            complete = complete.max(programmed);
        }
        complete
    }

    /// The request's flash pages: their channel, and the bytes wanted of them.
    fn pages(&self, request: &Request) -> Vec<(usize, u64)> {
        let mut pages = Vec::new();
        let end = request.offset.saturating_add(request.length);
        let mut at = request.offset;
        while at < end {
            let next = (at - at % self.flash.page_bytes)
                .saturating_add(self.flash.page_bytes)
                .min(end);
            let stripe = at / self.flash.stripe_bytes;
            let channel = (stripe % u64::from(self.flash.channels)) as usize;
            pages.push((channel, next - at));
            at = next;
        }
        pages
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
                known = known.max(self.channel_free[channel]) + self.read;
                self.channel_free[channel] = known;
            }
            self.map.push_back(segment);
            if self.map.len() > map.cached_segments as usize {
                self.map.pop_front();
            }
        }
        known
    }
}
