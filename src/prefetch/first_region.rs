//! Waiting until the first region of a schedule has arrived, for an app that is held so long.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use crate::model::PAGE_SIZE;

/// Requests whose arrival is waited for: those that were made last. What a drive and its scheduler hold is about as many, and of
/// one that is still under way the app waits for by itself.
const LAST: usize = 64;

/// Said once, at the latest when it is dropped: nobody waits for a thread that has ended or unwound.
pub struct Arrived(Option<Box<dyn FnOnce() + Send>>);

impl Arrived {
    /// Not said yet.
    pub fn new(say: impl FnOnce() + Send + 'static) -> Self {
        Arrived(Some(Box::new(say)))
    }

    /// Says it, unless it was said.
    pub fn say(&mut self) {
        if let Some(say) = self.0.take() {
            say();
        }
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        self.say();
    }
}

/// The requests of a first region.
pub struct FirstRegion<'a> {
    /// Entries of the schedule that belong to it, from the start.
    entries: usize,
    arrived: &'a mut Arrived,
    /// The last requests, with the offset of their last page in bytes.
    last: VecDeque<(OwnedFd, u64)>,
}

impl<'a> FirstRegion<'a> {
    /// So many entries from the start of the schedule.
    pub fn new(entries: u32, arrived: &'a mut Arrived) -> Self {
        FirstRegion {
            entries: entries as usize,
            arrived,
            last: VecDeque::with_capacity(LAST),
        }
    }

    /// Notes that a span was asked for that ends with this page.
    pub fn asked(&mut self, fd: BorrowedFd<'_>, page: u64) {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        // At the limit on open files, the app is let go a little early.
        if let Ok(fd) = fd.try_clone_to_owned() {
            self.last.push_back((fd, page * PAGE_SIZE));
        }
    }

    /// Whether all of it was asked for when so many entries of the schedule were.
    pub fn is_asked(&self, entries: usize) -> bool {
        entries >= self.entries
    }

    /// Waits for the last requests, and says that the region has arrived. `is_stopped` is asked before each of them.
    pub fn wait(self, is_stopped: impl Fn() -> bool) {
        for (fd, offset) in self.last {
            if is_stopped() {
                break;
            }
            // A read returns when the page is there. What cannot be read, the app will find out.
            let _ = File::from(fd).read_at(&mut [0], offset);
        }
        self.arrived.say();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn arrival_is_said_once_whatever_happens() {
        let said = Arc::new(AtomicU32::new(0));
        let counter = || {
            let said = Arc::clone(&said);
            Arrived::new(move || {
                said.fetch_add(1, Ordering::Relaxed);
            })
        };
        let mut arrived = counter();
        arrived.say();
        arrived.say();
        drop(arrived);
        assert_eq!(said.load(Ordering::Relaxed), 1);
        drop(counter());
        assert_eq!(said.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_last_requests_are_waited_for() {
        let file = tempfile::tempfile().unwrap();
        let said = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&said);
        let mut arrived = Arrived::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mut region = FirstRegion::new(3, &mut arrived);
        for page in 1..=2 * LAST as u64 {
            region.asked(file.as_fd(), page);
        }
        assert!(!region.is_asked(2) && region.is_asked(3) && region.is_asked(4));
        assert_eq!(region.last.len(), LAST);
        let last = region.last.back().map(|(_, offset)| *offset);
        assert_eq!(last, Some(2 * LAST as u64 * PAGE_SIZE));
        // The file is empty: nothing can be read, and nobody is kept.
        region.wait(|| false);
        assert_eq!(said.load(Ordering::Relaxed), 1);
    }
}
