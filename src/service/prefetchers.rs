//! The prefetch threads of launches under way.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use libbpf_rs::{MapCore, MapFlags};

use super::allowance::Allowance;
use super::cached_profile::CachedProfile;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::take_ordinary_priority;
use crate::kernel::Watch;
use crate::model::PrefetchReport;
use crate::prefetch::{Prefetch, PrefetchOptions, ThreadNotice};
use crate::profile::decode;

/// Most prefetches of one user of which a thread runs. A thread may outlive its launch for as long as a drive does not
/// answer, and a user can have such a drive: an image of his own.
const MOST_OF_A_USER: usize = 16;

/// Most of them with which the first requests are made at once. A drive takes some hundred requests; whoever makes more
/// waits, and the event loop must not.
const MOST_AT_ONCE: usize = 6;

/// What may be read ahead for one user's launches at once, and what of it comes back in a second, in bytes: 4 GiB, and 1 GiB
/// a minute. The largest apps read one at a launch. It bounds what a user can have read past his own limits, and pushed
/// out of others' caches. Root's launches have no bound.
const MOST_BYTES: u64 = 4 << 30;
const BYTES_BACK: u64 = (1 << 30) / 60;

/// The prefetches of which a thread runs, each with its user.
#[derive(Default)]
struct RunningThreads(Vec<(u32, Weak<()>)>);

impl RunningThreads {
    /// Number of prefetches of which a thread runs for this user.
    fn of_user(&mut self, uid: u32) -> usize {
        self.0.retain(|(_, running)| running.strong_count() > 0);
        self.0.iter().filter(|(user, _)| *user == uid).count()
    }
}

/// Dropped when the prefetch of a launch ends, also if its thread cannot be started, or panics: by the thread, whose reads
/// count as the launch's no longer.
struct PrefetchEnd {
    launch: u64,
    /// Dead for others before they hear of the end.
    alive: Option<Arc<()>>,
    count_reads: ThreadNotice,
    outbox: Outbox,
}

impl Drop for PrefetchEnd {
    fn drop(&mut self) {
        self.alive = None;
        (self.count_reads)(false);
        self.outbox.send(Message::Prefetched(self.launch));
    }
}

/// The prefetch of a launch.
struct RunningPrefetch {
    prefetch: Prefetch,
    /// Dead once it has ended.
    under_way: Weak<()>,
    /// Whose launch it is, and what its schedule has been charged to him.
    uid: u32,
    charged: u64,
}

/// The prefetch threads, by launch.
pub struct Prefetchers {
    running: HashMap<u64, RunningPrefetch>,
    /// With those whose launches are over.
    threads: RunningThreads,
    /// Bytes that were read ahead for each user.
    share: Allowance,
    outbox: Outbox,
}

impl Prefetchers {
    /// No threads yet. They will report to this mailbox.
    pub fn new(outbox: Outbox) -> Self {
        Prefetchers {
            running: HashMap::new(),
            threads: RunningThreads::default(),
            share: Allowance::new(MOST_BYTES, BYTES_BACK),
            outbox,
        }
    }

    /// Whether so many bytes may be read ahead for this user now. A schedule that is larger than all that he may have read
    /// at once is, if nothing else was lately.
    pub fn has_share(&self, uid: u32, bytes: u64) -> bool {
        let now = Instant::now();
        self.share.left(uid, now) >= bytes || self.share.is_untouched(uid, now)
    }

    /// Charges this user for bytes that were read ahead before a launch.
    pub fn charge(&mut self, uid: u32, bytes: u64) {
        self.share.charge(uid, bytes, Instant::now());
    }

    /// Makes the first requests of a profile at once for a launch of this user, and has a thread make all others. The
    /// profile may be one for every user: what it takes is this user's all the same.
    ///
    /// # Errors
    /// When the system has no thread or descriptor to give, or too many prefetches of the user do not end.
    pub fn start(
        &mut self,
        launch: u64,
        uid: u32,
        profile: &CachedProfile,
        mut options: PrefetchOptions,
        kernel: &mut Watch,
    ) -> io::Result<()> {
        let of_user = self.threads.of_user(uid);
        if of_user >= MOST_OF_A_USER {
            return Err(io::Error::other("too many of this user do not end"));
        }
        let head_start = profile.head_start.as_ref();
        if let Some(head_start) = head_start.filter(|_| of_user < MOST_AT_ONCE) {
            kernel.attribute_reads_to(Some(launch));
            head_start.read();
            kernel.attribute_reads_to(None);
        }
        let helpers = kernel.helpers().map_err(io::Error::other)?;
        let own_tid = || {
            rustix::thread::gettid()
                .as_raw_nonzero()
                .get()
                .to_ne_bytes()
        };
        // Dropped when the last of its threads has ended.
        let has_threads = Arc::new(());
        let any_threads = Arc::downgrade(&has_threads);
        let count_reads = move |is_thread_of_launch: bool| {
            let _ = &has_threads;
            // If the map is full, its reads count as the app's, and it has no entry.
            let _ = match is_thread_of_launch {
                true => helpers.update(&own_tid(), &launch.to_ne_bytes(), MapFlags::ANY),
                false => helpers.delete(&own_tid()),
            };
        };
        let count_reads: ThreadNotice = Arc::new(count_reads);
        options.helping = Some(Arc::clone(&count_reads));
        let (packed, begin) = (Arc::clone(&profile.packed), Arc::clone(&count_reads));
        let load = move || {
            // Not before it runs: on a busy system, it would first wait for a processor, behind all that the app's start wakes.
            take_ordinary_priority();
            begin(true);
            // This program has packed it.
            decode(&packed).ok()
        };
        let alive = Arc::new(());
        let under_way = Arc::downgrade(&alive);
        let end = PrefetchEnd {
            launch,
            alive: Some(alive),
            count_reads,
            outbox: self.outbox.clone(),
        };
        let done = move || drop(end);
        let prefetch = Prefetch::start_then(load, options, done)?;
        self.threads.0.push((uid, any_threads));
        let running = RunningPrefetch {
            prefetch,
            under_way,
            uid,
            charged: profile.bytes,
        };
        self.share.charge(uid, profile.bytes, Instant::now());
        self.running.insert(launch, running);
        Ok(())
    }

    /// A reference that is dead unless the launch is being prefetched, for other threads.
    pub fn under_way(&self, launch: u64) -> Weak<()> {
        let running = self.running.get(&launch);
        running.map_or_else(Weak::new, |running| Weak::clone(&running.under_way))
    }

    /// The report of a thread that has ended by itself. One that has not is stopped. `bytes` is what was read ahead for the
    /// launch, if that is known: what was cached already is not charged to its user.
    pub fn end(&mut self, launch: u64, bytes: Option<u64>) -> Option<PrefetchReport> {
        let running = self.running.remove(&launch)?;
        if let Some(spared) = bytes.and_then(|bytes| running.charged.checked_sub(bytes)) {
            self.share.give_back(running.uid, spared, Instant::now());
        }
        let prefetch = running.prefetch;
        let report = prefetch.poll();
        if report.is_none() {
            prefetch.stop();
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::service::mailbox::mailbox;

    #[test]
    fn the_end_of_a_thread_that_panics_is_told_and_its_reads_count_no_longer() {
        let (outbox, inbox) = mailbox().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ended);
        let count_reads = move |is_thread_of_launch: bool| {
            counted.fetch_add(usize::from(!is_thread_of_launch), Ordering::Relaxed);
        };
        let end = PrefetchEnd {
            launch: 7,
            alive: Some(Arc::new(())),
            count_reads: Arc::new(count_reads),
            outbox,
        };
        let options = PrefetchOptions::default();
        let prefetch = Prefetch::start_then(|| panic!("meant"), options, move || drop(end));
        let limit = Timespec::try_from(Duration::from_secs(60)).unwrap();
        let fds = &mut [PollFd::from_borrowed_fd(inbox.fd(), PollFlags::IN)];
        assert_eq!(poll(fds, Some(&limit)), Ok(1));
        assert!(matches!(inbox.take()[..], [Message::Prefetched(7)]));
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        assert!(prefetch.unwrap().poll().is_none());
    }

    #[test]
    fn threads_count_for_their_user_until_they_end() {
        let mut threads = RunningThreads::default();
        let alive: Vec<Arc<()>> = (0..4).map(|_| Arc::new(())).collect();
        let users = [1000, 1000, 0, 1000];
        let running = users.into_iter().zip(alive.iter().map(Arc::downgrade));
        threads.0.extend(running);
        assert_eq!((threads.of_user(1000), threads.of_user(0)), (3, 1));
        assert_eq!(threads.of_user(1001), 0);
        drop(alive);
        assert_eq!(threads.of_user(1000), 0);
        assert!(threads.0.is_empty());
    }
}
