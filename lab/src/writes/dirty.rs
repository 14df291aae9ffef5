//! The kernel's limits on dirty memory, and how large a file must be to run against them.

use std::fs;

use anyhow::{Context, Result};

/// Bytes of a page, as /proc/vmstat counts.
const PAGE: u64 = 4096;

/// The paper's writer: 8 GB.
const LARGEST: u64 = 8_000_000_000;

/// The smallest that is still a large file.
const SMALLEST: u64 = 256 << 20;

/// Dirty memory and its limits, in bytes, the whole system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Dirty or being written.
    pub now: u64,
    /// From here on the kernel writes in the background.
    pub background: u64,
    /// Here writers have to wait.
    pub limit: u64,
}

impl Dirty {
    /// Reads /proc/vmstat.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string("/proc/vmstat").context("cannot read /proc/vmstat")?;
        Self::parse(&text).context("cannot make sense of /proc/vmstat")
    }

    fn parse(vmstat: &str) -> Option<Self> {
        let pages = |name: &str| {
            let mut fields = vmstat.lines().filter_map(|line| line.split_once(' '));
            let (_, value) = fields.find(|(field, _)| *field == name)?;
            value.trim().parse::<u64>().ok()
        };
        Some(Dirty {
            now: (pages("nr_dirty")? + pages("nr_writeback")?) * PAGE,
            background: pages("nr_dirty_background_threshold")? * PAGE,
            limit: pages("nr_dirty_threshold")? * PAGE,
        })
    }

    /// Where the kernel begins to slow writers down: halfway between its two limits (dirty_freerun_ceiling in
    /// mm/page-writeback.c).
    pub fn slows_down(&self) -> u64 {
        self.background.midpoint(self.limit)
    }
}

/// Size of a writer's file, in bytes: twice the dirty limit, so that the writer is slowed down by it, but
/// no more than the paper's, nor than a quarter of the memory, in which an emulated drive keeps it.
pub fn file_size(dirty: &Dirty, memory: u64) -> u64 {
    (dirty.limit * 2)
        .clamp(SMALLEST, LARGEST)
        .min((memory / 4).max(SMALLEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn limits_are_read() {
        let text = "nr_free_pages 7\nnr_dirty 10\nnr_writeback 2\nnr_writeback_temp 9\n\
                    nr_dirty_threshold 400\nnr_dirty_background_threshold 200\n";
        let dirty = Dirty::parse(text).unwrap();
        assert_eq!((dirty.now, dirty.background), (12 * PAGE, 200 * PAGE));
        assert_eq!(dirty.slows_down(), 300 * PAGE);
        assert_eq!(Dirty::parse("nr_dirty 1\n"), None);
    }

    #[test]
    fn files_exceed_the_limit_but_not_the_memory() {
        let dirty = |limit| Dirty {
            limit,
            ..Dirty::default()
        };
        assert_eq!(file_size(&dirty(GIB), 64 * GIB), 2 * GIB);
        assert_eq!(file_size(&dirty(20 * GIB), 100 * GIB), LARGEST);
        assert_eq!(file_size(&dirty(GIB), 2 * GIB), GIB / 2);
        assert_eq!(file_size(&dirty(1 << 20), 2 * GIB), SMALLEST);
        assert_eq!(file_size(&dirty(GIB), 100 << 20), SMALLEST);
    }
}
