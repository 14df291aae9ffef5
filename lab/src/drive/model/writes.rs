//! The write side of a flash drive: its buffer, its SLC cache, and what a page costs.
//!
//! Pages are programmed on the channels in turn, wherever their addresses are, as controllers do that
//! write a log; so random writes that share pages are as fast as sequential ones, as long as the
//! controller and free blocks allow. Reads find their channel by the address all the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::blocks::Blocks;
use super::channels::Channels;
use super::units::{micros, transfer};
use crate::drive::profile::{self, Flash};

#[derive(Clone, Debug)]
pub(super) struct WriteSide {
    page_bytes: u64,
    channel_mb_s: f64,
    program: u64,
    buffer: Option<Buffer>,
    slc: Option<Slc>,
    blocks: Option<Blocks>,
    /// When the last program ends.
    programmed: u64,
}

impl WriteSide {
    /// Of an empty drive.
    pub(super) fn new(flash: &Flash, capacity: u64) -> WriteSide {
        let program = micros(flash.program_us);
        let move_page = micros(flash.read_us) + program;
        let blocks = flash.blocks.as_ref();
        WriteSide {
            page_bytes: flash.page_bytes,
            channel_mb_s: flash.channel_mb_s,
            program,
            buffer: flash.buffer.as_ref().map(Buffer::new),
            slc: flash.slc.as_ref().map(|slc| Slc {
                bytes: slc.bytes,
                program: micros(slc.program_us),
                idle: micros(slc.idle_ms * 1e3),
                step: move_page.max(1),
                step_bytes: flash.round_bytes(),
                used: 0,
            }),
            blocks: blocks.map(|blocks| Blocks::new(blocks, flash.channels, capacity, move_page)),
            programmed: 0,
        }
    }

    /// Notes data that were there before the first request.
    pub(super) fn occupy(&mut self, offset: u64, length: u64) {
        if let Some(blocks) = &mut self.blocks {
            blocks.write(offset, length);
        }
    }

    /// Notes that nothing was asked of the drive from `since` to `now`: the SLC cache is emptied a little.
    pub(super) fn rest(&mut self, since: u64, now: u64, channels: &mut Channels) {
        if let Some(slc) = &mut self.slc
            && let Some(until) = slc.rest(since.max(self.programmed), now)
        {
            channels.occupy(until);
        }
    }

    /// When there is room for `bytes` more, at `from` or later.
    pub(super) fn room(&mut self, from: u64, bytes: u64) -> u64 {
        match &mut self.buffer {
            Some(buffer) => buffer.room(from, bytes),
            None => from,
        }
    }

    /// Takes the `length` bytes at `offset`, in one page, that have come over the link at `received`, and
    /// returns when the drive has them: in its buffer, or programmed.
    pub(super) fn take(
        &mut self,
        offset: u64,
        length: u64,
        received: u64,
        channels: &mut Channels,
    ) -> u64 {
        if let Some(blocks) = &mut self.blocks {
            blocks.write(offset, length);
        }
        let Some(buffer) = &mut self.buffer else {
            if let Some(blocks) = &mut self.blocks {
                blocks.end_page(self.page_bytes);
            }
            return self.program(received, length, channels);
        };
        buffer.begun += length;
        let answer = buffer.answer;
        if buffer.begun >= self.page_bytes {
            buffer.begun -= self.page_bytes;
            self.program_buffered(received, self.page_bytes, channels);
        }
        received + answer
    }

    /// When all that the buffer holds at `from` is programmed.
    pub(super) fn flush(&mut self, from: u64, channels: &mut Channels) -> u64 {
        let Some(buffer) = &mut self.buffer else {
            // Every write that was answered is programmed.
            return from;
        };
        let begun = std::mem::take(&mut buffer.begun);
        if begun > 0 {
            if let Some(blocks) = &mut self.blocks {
                blocks.end_page(self.page_bytes);
            }
            self.program_buffered(from, begun, channels);
        }
        from.max(self.programmed)
    }

    /// Forgets the data of these bytes.
    pub(super) fn discard(&mut self, offset: u64, length: u64) {
        if let Some(blocks) = &mut self.blocks {
            blocks.discard(offset, length);
        }
    }

    fn program_buffered(&mut self, from: u64, bytes: u64, channels: &mut Channels) {
        let end = self.program(from, bytes, channels);
        if let Some(buffer) = &mut self.buffer {
            buffer.held += bytes;
            buffer.programs.push(Reverse((end, bytes)));
        }
    }

    /// Programs a page with so many bytes, and returns the end.
    fn program(&mut self, from: u64, bytes: u64, channels: &mut Channels) -> u64 {
        let slc = self.slc.as_mut().and_then(|slc| slc.take(self.page_bytes));
        // What is written to the cache costs its erasure and collection when that is emptied.
        let time =
            slc.unwrap_or_else(|| self.program + self.blocks.as_mut().map_or(0, Blocks::cost));
        let end = channels.program(from, transfer(bytes, self.channel_mb_s) + time);
        self.programmed = self.programmed.max(end);
        end
    }
}

/// The controller's memory for writes.
#[derive(Clone, Debug)]
struct Buffer {
    bytes: u64,
    answer: u64,
    /// Bytes of the page that is not full yet.
    begun: u64,
    /// Bytes of the pages that are being programmed.
    held: u64,
    /// The ends of these programs, earliest first, each with its bytes.
    programs: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Buffer {
    fn new(buffer: &profile::Buffer) -> Buffer {
        Buffer {
            bytes: buffer.bytes,
            answer: micros(buffer.answer_us),
            begun: 0,
            held: 0,
            programs: BinaryHeap::new(),
        }
    }

    fn room(&mut self, from: u64, bytes: u64) -> u64 {
        let mut at = from;
        while let Some(Reverse((end, held))) = self.programs.peek().copied() {
            if end > at && self.begun + self.held + bytes <= self.bytes {
                break;
            }
            self.programs.pop();
            self.held -= held;
            at = at.max(end);
        }
        at
    }
}

/// The SLC cache.
#[derive(Clone, Debug)]
struct Slc {
    bytes: u64,
    program: u64,
    idle: u64,
    /// Moving a page of each channel, in ns.
    step: u64,
    /// Bytes that this frees.
    step_bytes: u64,
    used: u64,
}

impl Slc {
    /// The time to program a page of so many bytes, if there is room for it.
    fn take(&mut self, page_bytes: u64) -> Option<u64> {
        if self.used + page_bytes > self.bytes {
            return None;
        }
        self.used += page_bytes;
        Some(self.program)
    }

    /// Is emptied while the drive has nothing to do from `since` to `now`. Returns when the move ends that
    /// is under way, if one is.
    fn rest(&mut self, since: u64, now: u64) -> Option<u64> {
        let spent = now.checked_sub(since.saturating_add(self.idle))?;
        let bytes = (spent / self.step).saturating_mul(self.step_bytes);
        self.used = self.used.saturating_sub(bytes);
        if self.used == 0 {
            return None;
        }
        self.used = self.used.saturating_sub(self.step_bytes);
        Some(now - spent % self.step + self.step)
    }
}
