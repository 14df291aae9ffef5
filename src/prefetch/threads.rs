//! The threads that help the prefetch thread: some to carry operations out, some to read pages ahead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use super::sys::raise_io_priority;
use super::thread::THREAD_NAME;

/// How long the prefetch waits for helping threads of which none ends its step: as long as a drive that is alive takes for
/// a step, however busy it is.
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// How long it does once it is to end, and how often it looks: less than half of what [`super::Prefetch::finish`] waits.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Called by each helping thread, with `true` before its first step and with `false` after its last, also if that panics.
pub type ThreadNotice = Arc<dyn Fn(bool) + Send + Sync>;

/// Helping threads.
#[derive(Default)]
pub struct HelpingThreads {
    running: Mutex<usize>,
    has_ended: Condvar,
}

impl HelpingThreads {
    /// Starts up to `count` threads, each of which does `work` with a number of its own below `count`. The first one starts the
    /// others and has number 0: clone(2) takes 20 to 60 µs, and the caller has a schedule to begin. If the system has
    /// no more threads, there are fewer.
    pub fn start<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        count: usize,
        notice: Option<&'env ThreadNotice>,
        work: impl Fn(usize) + Copy + Send + 'env,
    ) {
        if count == 0 {
            return;
        }
        self.start_one(scope, notice, move || {
            for number in 1..count {
                if !self.start_one(scope, notice, move || work(number)) {
                    break;
                }
            }
            work(0);
        });
    }

    /// Whether a thread could be started.
    fn start_one<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        notice: Option<&'env ThreadNotice>,
        work: impl FnOnce() + Send + 'scope,
    ) -> bool {
        *self.running() += 1;
        let thread = Builder::new().name(THREAD_NAME.to_owned());
        let started = thread.spawn_scoped(scope, move || {
            let _ = raise_io_priority();
            let tell = |begins| notice.map(|notice| notice(begins));
            tell(true);
            // The message was printed. Without this, the prefetch thread would panic as well, and wait for it before.
            let _ = catch_unwind(AssertUnwindSafe(work));
            tell(false);
            self.end();
        });
        if started.is_err() {
            self.end();
        }
        started.is_ok()
    }

    /// Waits until all threads have ended, or none has ended a step for [`STEP_LIMIT`], or for a moment once `is_over` says
    /// that the prefetch is to end. `steps` counts those that all have begun. Returns how many threads are left.
    pub fn wait(&self, steps: impl Fn() -> usize, is_over: impl Fn() -> bool) -> usize {
        let mut running = self.running();
        let (mut before, mut since) = ((*running, steps()), Duration::ZERO);
        while *running > 0 && since < STEP_LIMIT && (since.is_zero() || !is_over()) {
            let waited = self.has_ended.wait_timeout(running, LOOK_EVERY);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
            let now = (*running, steps());
            since = match before == now {
                true => since + LOOK_EVERY,
                false => Duration::ZERO,
            };
            before = now;
        }
        *running
    }

    fn end(&self) {
        *self.running() -= 1;
        self.has_ended.notify_all();
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_first_thread_starts_the_others_and_each_has_a_number_of_its_own() {
        let threads = HelpingThreads::default();
        let (begun, hold) = (AtomicUsize::new(0), Arc::new(Barrier::new(2)));
        let held = Arc::clone(&hold);
        let notice: ThreadNotice = Arc::new(move |begins| {
            if begins && begun.fetch_add(1, Ordering::Relaxed) == 0 {
                held.wait();
            }
        });
        let numbers = Mutex::new(Vec::new());
        let work = |number| numbers.lock().unwrap().push(number);
        let started = std::thread::scope(|scope| {
            threads.start(scope, 4, Some(&notice), work);
            threads.start(scope, 0, Some(&notice), work);
            let started = *threads.running();
            hold.wait();
            started
        });
        assert_eq!(started, 1, "by the caller");
        let mut numbers = numbers.into_inner().unwrap();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn a_thread_that_hangs_is_given_up_and_one_that_panics_has_ended() {
        let (threads, hang, begun) = (
            HelpingThreads::default(),
            Barrier::new(2),
            AtomicUsize::new(0),
        );
        let told = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&told);
        let notice: ThreadNotice = Arc::new(move |begins| {
            counted.fetch_add(if begins { 10 } else { 1 }, Ordering::Relaxed);
        });
        let work = |_| match begun.fetch_add(1, Ordering::Relaxed) {
            0 => drop(hang.wait()),
            1 => panic!("as a test asks for"),
            _ => {}
        };
        let steps = || begun.load(Ordering::Relaxed);
        let (left, told_by_then) = std::thread::scope(|scope| {
            threads.start(scope, 4, Some(&notice), work);
            // Each look ends soon. How late a busy machine runs the threads, it does not know.
            let left = (0..1000).find(|_| {
                let have_begun = steps() == 4;
                threads.wait(steps, || true) == 1 && have_begun
            });
            let told_by_then = told.load(Ordering::Relaxed);
            hang.wait();
            (left, told_by_then)
        });
        assert!(left.is_some());
        assert_eq!(told_by_then, 43, "three have said that they end");
        assert_eq!(threads.wait(steps, || false), 0);
        assert_eq!(told.load(Ordering::Relaxed), 44);
    }
}
