//! A single processor for a launch and its prefetcher (Paralfetch §5.5).

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// While it is there, what the calling thread starts has one processor, the last of those that it may use. The
/// others stay free for the drive's emulator and the display.
pub struct OneProcessor {
    before: CpuSet,
}

impl OneProcessor {
    /// Leaves the calling thread one processor.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn begin() -> Result<OneProcessor> {
        let before = sched_getaffinity(None).context("cannot ask for the processors")?;
        let last = (0..CpuSet::MAX_CPU)
            .rev()
            .find(|&processor| before.is_set(processor));
        let mut one = CpuSet::new();
        one.set(last.context("no processor may be used")?);
        sched_setaffinity(None, &one).context("cannot keep to one processor")?;
        Ok(OneProcessor { before })
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Err(error) = sched_setaffinity(None, &self.before) {
            eprintln!("lab: cannot use all processors again: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_has_one_processor_and_the_thread_has_all_again() {
        let before = sched_getaffinity(None).unwrap();
        let count = || sched_getaffinity(None).unwrap().count();
        let one = OneProcessor::begin().unwrap();
        assert_eq!(std::thread::spawn(count).join().unwrap(), 1);
        drop(one);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
