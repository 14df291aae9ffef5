//! Flash behind a controller, as a profile describes it.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::number;

/// Smallest block that is erased at once, in bytes.
const LEAST_BLOCK: u64 = 64 << 10;

/// Flash behind a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Channels that work independently; each does one thing at a time.
    pub channels: u32,
    /// Bytes that are sensed or programmed at once, a power of two.
    pub page_bytes: u64,
    /// Sensing a page (tR), in µs.
    pub read_us: f64,
    /// Programming a page (tPROG), in µs.
    pub program_us: f64,
    /// Rate between flash and controller on each channel, in MB/s.
    pub channel_mb_s: f64,
    /// Bytes in sequence on one channel before the next one's turn; a multiple of the page.
    pub stripe_bytes: u64,
    /// What the controller spends on each write besides `command_us`, one after another, in µs.
    #[serde(default)]
    pub write_us: f64,
    /// What the controller spends on a discard besides `command_us`, in µs, whatever its length.
    #[serde(default)]
    pub discard_us: f64,
    /// Memory of the controller that takes writes. Absent: a write is answered once it is programmed.
    pub buffer: Option<Buffer>,
    /// The part of the flash that is first written with one bit a cell, if there is one.
    pub slc: Option<Slc>,
    /// Erasure and the collection of free blocks. Absent: there is always an erased one.
    pub blocks: Option<Blocks>,
    /// The map from logical to physical addresses, if it does not fit into the controller.
    pub map: Option<Map>,
}

/// Memory of the controller: it answers a write once it has the data, and writes of a few KiB share pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Size of the buffer, at least four pages.
    pub bytes: u64,
    /// From the last byte of a write to its answer, in µs; of several writes at a time.
    pub answer_us: f64,
}

/// An SLC cache. It is emptied while the drive has nothing to do, a page of each channel at a time: sensed,
/// and programmed again in `program_us`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slc {
    /// Size of the cache, at least a page of each channel. What is written while it is full is programmed in
    /// `program_us`.
    pub bytes: u64,
    /// Programming a page of it, in µs.
    pub program_us: f64,
    /// How long the drive has had nothing to do when it begins to empty it, in ms.
    pub idle_ms: f64,
}

/// Erasure: what is written goes to an erased block; where there is none, to one that is collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Bytes that are erased at once, over all channels; 64 KiB at least, a multiple of a page of each.
    pub bytes: u64,
    /// Erasing (tBERS), in µs, on each channel.
    pub erase_us: f64,
    /// Blocks besides those that the drive's capacity needs, in percent of these; three at least.
    pub spare_percent: f64,
}

/// The address map of a drive without DRAM: what is not cached costs a page read of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Bytes of the drive that one page of the map covers.
    pub segment_bytes: u64,
    /// Pages of the map that the controller holds; the least recently used one makes way.
    pub cached_segments: u32,
}

impl Flash {
    /// Bytes of a page of each channel.
    pub fn round_bytes(&self) -> u64 {
        u64::from(self.channels) * self.page_bytes
    }

    pub(super) fn validate(&self) -> Result<()> {
        number("channels", u64::from(self.channels), 1, 1024)?;
        number("page_bytes", self.page_bytes, 512, 1 << 20)?;
        ensure!(
            self.page_bytes.is_power_of_two(),
            "'page_bytes' must be a power of two"
        );
        number("read_us", self.read_us, 0.0, 1e6)?;
        number("program_us", self.program_us, 0.0, 1e6)?;
        number("channel_mb_s", self.channel_mb_s, 0.1, 1e5)?;
        number("stripe_bytes", self.stripe_bytes, self.page_bytes, 1 << 30)?;
        ensure!(
            self.stripe_bytes.is_multiple_of(self.page_bytes),
            "'stripe_bytes' must be a multiple of 'page_bytes'"
        );
        number("write_us", self.write_us, 0.0, 1e6)?;
        number("discard_us", self.discard_us, 0.0, 1e7)?;
        self.validate_write_side()?;
        if let Some(map) = &self.map {
            number("segment_bytes", map.segment_bytes, self.page_bytes, 1 << 40)?;
            number(
                "cached_segments",
                u64::from(map.cached_segments),
                1,
                1 << 20,
            )?;
        }
        Ok(())
    }

    fn validate_write_side(&self) -> Result<()> {
        if let Some(buffer) = &self.buffer {
            number("buffer.bytes", buffer.bytes, 4 * self.page_bytes, 1 << 30)?;
            number("buffer.answer_us", buffer.answer_us, 0.0, 1e6)?;
        }
        if let Some(slc) = &self.slc {
            number("slc.bytes", slc.bytes, self.round_bytes(), 1 << 40)?;
            number("slc.program_us", slc.program_us, 0.0, 1e6)?;
            number("slc.idle_ms", slc.idle_ms, 0.0, 1e6)?;
        }
        if let Some(blocks) = &self.blocks {
            number("blocks.bytes", blocks.bytes, LEAST_BLOCK, 1 << 32)?;
            ensure!(
                blocks.bytes.is_multiple_of(self.round_bytes()),
                "'blocks.bytes' must be a multiple of a page of each channel"
            );
            number("blocks.erase_us", blocks.erase_us, 0.0, 1e7)?;
            number("blocks.spare_percent", blocks.spare_percent, 1.0, 1000.0)?;
        }
        Ok(())
    }
}
