//! What reading a file system's metadata may cost.
//!
//! A user can mount an image that he has made, and can change it while it is mounted. Trees in it may run in
//! circles, and numbers may claim any size.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Bounds on reading one file system.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Most reads that the answer to one question takes.
    pub reads: u32,
    /// Longest time that all answers take together.
    pub time: Duration,
    /// The clock that measures it.
    pub clock: fn() -> Duration,
}

impl Default for ReadLimits {
    /// For a file, 65,536 tree nodes and their parents; a minute by CLOCK_MONOTONIC.
    fn default() -> Self {
        ReadLimits {
            reads: 1 << 17,
            time: Duration::from_secs(60),
            clock: monotonic,
        }
    }
}

fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

unsafe extern "C" {
    /// Sets what the shim asks before each read that the calling thread makes from now on.
    fn pf_ext4_guard(
        may_read: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        context: *mut c_void,
    );
}

/// Holds the reads of one file system to the limits.
#[derive(Debug)]
pub(super) struct ReadGuard {
    limits: ReadLimits,
    /// Reads that are left for this question.
    left: Cell<u32>,
    /// When this question was asked.
    asked: Cell<Duration>,
    /// Time that the questions before it took.
    spent: Cell<Duration>,
    exceeded: Cell<Option<&'static str>>,
}

impl ReadGuard {
    pub fn new(limits: ReadLimits) -> Self {
        ReadGuard {
            limits,
            left: Cell::new(0),
            asked: Cell::default(),
            spent: Cell::default(),
            exceeded: Cell::default(),
        }
    }

    /// Makes a call of the shim that answers one question. With its result comes the limit that its reads exceeded, as
    /// a clause, if they did.
    pub fn ask<T>(&self, call: impl FnOnce() -> T) -> (T, Option<&'static str>) {
        self.left.set(self.limits.reads);
        self.asked.set((self.limits.clock)());
        self.exceeded.set(None);
        let context = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the shim calls back in this thread and only while `call` runs: `self` lives longer.
        unsafe { pf_ext4_guard(Some(may_read), context) };
        let answer = call();
        // SAFETY: nobody is asked from now on, and no read is made.
        unsafe { pf_ext4_guard(None, std::ptr::null_mut()) };
        self.spent.set(self.time());
        (answer, self.exceeded.get())
    }

    /// Time that all questions have taken so far.
    fn time(&self) -> Duration {
        let since = (self.limits.clock)().saturating_sub(self.asked.get());
        self.spent.get() + since
    }

    fn may_read(&self) -> bool {
        let exceeded = match self.left.get().checked_sub(1) {
            None => Some("it takes too many reads, as if its blocks ran in circles"),
            Some(_) if self.time() > self.limits.time => {
                Some("finding the metadata of its file system takes too long")
            }
            Some(left) => {
                self.left.set(left);
                None
            }
        };
        self.exceeded.set(exceeded);
        exceeded.is_none()
    }
}

unsafe extern "C" fn may_read(context: *mut c_void) -> c_int {
    // SAFETY: `ReadGuard::ask` passes itself.
    let guard = unsafe { &*context.cast::<ReadGuard>() };
    guard.may_read().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1000) };
    }

    fn guard(reads: u32) -> ReadGuard {
        ReadGuard::new(ReadLimits {
            reads,
            time: Duration::from_secs(10),
            clock: || Duration::from_secs(NOW.get()),
        })
    }

    #[test]
    fn each_question_has_as_many_reads() {
        let guard = guard(3);
        for _ in 0..2 {
            let reads = || (0..5).filter(|_| guard.may_read()).count();
            let (reads, exceeded) = guard.ask(reads);
            assert_eq!(reads, 3);
            assert!(exceeded.is_some_and(|why| why.contains("too many reads")));
        }
        assert_eq!(guard.ask(|| guard.may_read()), (true, None));
    }

    #[test]
    fn all_questions_share_the_time_and_what_passes_between_them_is_free() {
        let guard = guard(100);
        let pass = |seconds| NOW.set(NOW.get() + seconds);
        let question = |seconds| {
            guard.ask(|| {
                pass(seconds);
                guard.may_read()
            })
        };
        assert_eq!(question(6), (true, None));
        pass(100);
        assert_eq!(question(4), (true, None));
        let (may_read, exceeded) = question(1);
        assert!(!may_read);
        assert!(exceeded.is_some_and(|why| why.contains("too long")));
        assert!(!question(0).0, "and from then on");
    }
}
