//! A thread for what the event loop must not wait for: writing state, reading profiles, scheduling anew.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::history::LaunchRecord;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::release_heap;
use super::pending_writes::PendingWrites;
use super::records::Records;
use super::registry::Registry;

/// Jobs that wait until no other is taken that the service can do without: many more than launches and calls of a
/// busy desktop make while one job waits for a slow drive.
const MOST_JOBS: usize = 256;

/// A piece of work, which is given the history.
type Work = Box<dyn FnOnce(&mut Records) + Send>;

enum Job {
    Do(Work),
    /// The same, and it is not counted.
    DoUncounted(Work),
    /// Once all that waits to be written is written.
    DoAfterWriting(Work),
    /// Something waits to be written.
    Look,
}

/// The worker thread. It does one job after the other, and gives freed memory back after each.
pub struct Worker {
    pub jobs: Jobs,
    thread: JoinHandle<()>,
    /// Whether a job was done since the last look.
    has_worked: Arc<AtomicBool>,
}

/// A way to give the worker jobs, from any thread.
#[derive(Clone)]
pub struct Jobs {
    sender: Sender<Job>,
    backlog: Arc<Backlog>,
}

/// What waits for the worker.
#[derive(Default)]
struct Backlog {
    /// Jobs that wait or are being done.
    jobs: AtomicUsize,
    pending: Mutex<PendingWrites>,
    /// Whether the worker has been told that something is pending, and has not looked yet.
    is_told: AtomicBool,
}

impl Worker {
    /// Starts the thread. It sends warnings to the event loop.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(records: Records, outbox: Outbox) -> io::Result<Self> {
        let (sender, inbox) = channel();
        let backlog = Arc::new(Backlog::default());
        let has_worked = Arc::new(AtomicBool::new(false));
        let mut state = WorkerState {
            records,
            backlog: Arc::clone(&backlog),
            has_worked: Arc::clone(&has_worked),
            outbox,
        };
        let thread = Builder::new()
            .name("pf-work".to_owned())
            .spawn(move || state.work(&inbox))?;
        Ok(Worker {
            jobs: Jobs { sender, backlog },
            thread,
            has_worked,
        })
    }

    /// Asks the thread to show that it works, once it has done the jobs before.
    pub fn ask(&self) {
        self.jobs.run(|_| ());
    }

    /// Whether the thread has done a job since the last call.
    pub fn has_answered(&self) -> bool {
        self.has_worked.swap(false, Ordering::AcqRel)
    }

    /// Waits until all jobs are done and everything is written, and ends the thread. All other [`Jobs`] must be gone.
    pub fn finish(self) {
        drop(self.jobs);
        // A job that has panicked has printed why.
        let _ = self.thread.join();
    }
}

impl Jobs {
    /// Has a job done after those before it, however many wait.
    pub fn run(&self, work: impl FnOnce(&mut Records) + Send + 'static) {
        self.send(Job::Do(Box::new(work)));
    }

    /// The same for a job that keeps no other waiting for long, and is not counted ([`Jobs::are_many`]).
    pub fn run_uncounted(&self, work: impl FnOnce(&mut Records) + Send + 'static) {
        let _ = self.sender.send(Job::DoUncounted(Box::new(work)));
    }

    /// The same for a job that reads or changes what is written.
    pub fn run_on_written(&self, work: impl FnOnce(&mut Records) + Send + 'static) {
        self.send(Job::DoAfterWriting(Box::new(work)));
    }

    /// Whether so many jobs wait that no other is to be given that the service can do without.
    pub fn are_many(&self) -> bool {
        self.backlog.jobs.load(Ordering::Relaxed) >= MOST_JOBS
    }

    /// Has the registry written, with others of the next seconds.
    pub fn save(&self, registry: Registry) {
        self.change_pending(|pending| pending.save(registry));
    }

    /// Has a launch written into the history, with others of the next seconds.
    pub fn add_launch(&self, launch: LaunchRecord) {
        self.change_pending(|pending| pending.add(launch));
    }

    fn change_pending(&self, change: impl FnOnce(&mut PendingWrites)) {
        change(&mut self.backlog.pending());
        if !self.backlog.is_told.swap(true, Ordering::AcqRel) {
            self.send(Job::Look);
        }
    }

    fn send(&self, job: Job) {
        self.backlog.jobs.fetch_add(1, Ordering::Relaxed);
        // The worker is only gone if a job has panicked, which has been printed.
        let _ = self.sender.send(job);
    }
}

impl Backlog {
    /// Held for some instructions only, by the worker too.
    fn pending(&self) -> std::sync::MutexGuard<'_, PendingWrites> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until_due(&self) -> Option<Duration> {
        self.pending().until_due(Instant::now())
    }
}

/// What the thread has.
struct WorkerState {
    records: Records,
    backlog: Arc<Backlog>,
    has_worked: Arc<AtomicBool>,
    outbox: Outbox,
}

impl WorkerState {
    /// Works until nobody can give it jobs any more.
    fn work(&mut self, inbox: &Receiver<Job>) {
        loop {
            let job = match self.backlog.until_due() {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(Duration::ZERO) => {
                    self.write();
                    continue;
                }
                Some(left) => inbox.recv_timeout(left),
            };
            match job {
                Ok(job) => self.perform(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.write();
    }

    fn perform(&mut self, job: Job) {
        let is_counted = !matches!(job, Job::DoUncounted(_));
        match job {
            Job::Do(work) | Job::DoUncounted(work) => work(&mut self.records),
            Job::DoAfterWriting(work) => {
                self.write();
                work(&mut self.records);
            }
            Job::Look => self.backlog.is_told.store(false, Ordering::Release),
        }
        if is_counted {
            self.backlog.jobs.fetch_sub(1, Ordering::Relaxed);
        }
        release_heap();
        self.has_worked.store(true, Ordering::Release);
    }

    /// Writes all that waits.
    fn write(&mut self) {
        let due = self.backlog.pending().take(Instant::now());
        let Some(due) = due else { return };
        let saved = due.registry.as_ref().map_or(Ok(()), Registry::save);
        let added = self.records.add(&due.launches);
        let registry = due.registry.filter(|_| saved.is_err());
        let launches = if added.is_err() {
            due.launches
        } else {
            Vec::new()
        };
        if registry.is_some() || !launches.is_empty() {
            let mut pending = self.backlog.pending();
            pending.take_back(registry, launches, Instant::now());
        }
        let warnings = [
            saved.err().map(|error| error.to_string()),
            added.unwrap_or_else(Some),
        ];
        for warning in warnings.into_iter().flatten() {
            self.warn(warning);
        }
        if due.lost > 0 {
            let lost = due.lost;
            self.warn(format!(
                "{lost} launches are missing in the history: the drive is too slow"
            ));
        }
        release_heap();
    }

    fn warn(&self, warning: String) {
        self.outbox.send(Message::Warning(warning));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::service::config::HistoryConfig;
    use crate::service::mailbox::mailbox;

    fn launch(uid: u32) -> LaunchRecord {
        LaunchRecord {
            uid,
            app: "/app".to_owned(),
            ..LaunchRecord::default()
        }
    }

    #[test]
    fn what_waits_is_written_before_it_is_read_and_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Records::open(dir.path(), &HistoryConfig::default()).0;
        let (outbox, _inbox) = mailbox().unwrap();
        let worker = Worker::start(open(), outbox).unwrap();
        let (tell, told) = channel();
        for uid in 1..=3 {
            worker.jobs.add_launch(launch(uid));
        }
        let count = |records: &Records| records.history().unwrap().launches(None, None, 9);
        worker
            .jobs
            .run_on_written(move |records| tell.send(count(records).unwrap().len()).unwrap());
        assert_eq!(told.recv().unwrap(), 3);
        worker.jobs.add_launch(launch(4));
        worker.finish();
        assert_eq!(count(&open()).unwrap().len(), 4);
    }

    #[test]
    fn jobs_that_wait_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path(), &HistoryConfig::default()).0;
        let (outbox, _inbox) = mailbox().unwrap();
        let worker = Worker::start(records, outbox).unwrap();
        let (go, wait) = channel::<()>();
        worker.jobs.run(move |_| wait.recv().unwrap());
        for _ in 1..MOST_JOBS {
            assert!(!worker.jobs.are_many());
            worker.jobs.run(|_| ());
        }
        assert!(worker.jobs.are_many());
        go.send(()).unwrap();
        let (tell, told) = channel();
        worker.jobs.run(move |_| tell.send(()).unwrap());
        told.recv().unwrap();
        assert!(!worker.jobs.are_many());
        worker.finish();
    }
}
