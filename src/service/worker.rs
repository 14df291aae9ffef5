//! A thread for what the event loop must not wait for: writing state, reading profiles, scheduling anew.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::history::LaunchRecord;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::release_heap;
use super::pending_writes::{DueWrites, PendingWrites};
use super::records::{Records, RecordsPlace};
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
    /// Disconnected once the thread has ended. It is not joined: a drive may keep it for any time.
    ended: Receiver<()>,
    /// Where another thread writes if this one does not end.
    place: RecordsPlace,
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
        let (alive, ended) = channel();
        let place = records.place();
        let backlog = Arc::new(Backlog::default());
        let has_worked = Arc::new(AtomicBool::new(false));
        let mut state = WorkerState {
            records,
            backlog: Arc::clone(&backlog),
            has_worked: Arc::clone(&has_worked),
            outbox,
        };
        Builder::new().name("pf-work".to_owned()).spawn(move || {
            // Dropped with the thread, also if a job panics.
            let _alive = alive;
            state.work(&inbox);
        })?;
        Ok(Worker {
            jobs: Jobs { sender, backlog },
            ended,
            place,
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

    /// Waits until all jobs are done and everything is written, for at most `patience`, and ends the thread. All other
    /// [`Jobs`] must be gone. If a job does not end, since a drive does not answer, the thread is left behind, and another
    /// one writes what waits, in at most `rescue`.
    pub fn finish(self, patience: Duration, rescue: Duration) {
        let Jobs { sender, backlog } = self.jobs;
        drop(sender);
        if has_ended(&self.ended, patience) {
            return;
        }
        tracing::warn!(
            "the thread that writes state waits for a drive that does not answer: it is left behind, and its jobs are \
             lost"
        );
        let due = backlog.pending().take(Instant::now());
        // Without anything that waits, the state is as it was written last.
        if let Some(due) = due
            && !write_elsewhere(due, self.place, rescue)
        {
            tracing::warn!("the last changes of the state could not be written in time");
        }
    }
}

/// Whether the thread that holds the other end has ended within this time.
fn has_ended(ended: &Receiver<()>, patience: Duration) -> bool {
    matches!(
        ended.recv_timeout(patience),
        Err(RecvTimeoutError::Disconnected)
    )
}

/// Has another thread write what is due. False if it cannot be started, or has not ended in time.
fn write_elsewhere(due: DueWrites, place: RecordsPlace, patience: Duration) -> bool {
    let (alive, ended) = channel::<()>();
    let write = move || {
        let _alive = alive;
        let (mut records, warning) = place.open();
        let failed = write_out(&due, &mut records);
        for warning in warning.into_iter().chain(failed.warnings()) {
            tracing::warn!("{warning}");
        }
    };
    let started = Builder::new().name("pf-rescue".to_owned()).spawn(write);
    started.is_ok() && has_ended(&ended, patience)
}

/// What became of the registry and of launches that were to be written.
struct WriteOutcome {
    registry: Result<(), String>,
    launches: Result<Option<String>, String>,
}

impl WriteOutcome {
    fn warnings(self) -> impl Iterator<Item = String> {
        let launches = self.launches.unwrap_or_else(Some);
        [self.registry.err(), launches].into_iter().flatten()
    }
}

fn write_out(due: &DueWrites, records: &mut Records) -> WriteOutcome {
    let registry = due.registry.as_ref().map_or(Ok(()), Registry::save);
    WriteOutcome {
        registry: registry.map_err(|error| error.to_string()),
        launches: records.add(&due.launches),
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
        let written = write_out(&due, &mut self.records);
        let registry = due.registry.filter(|_| written.registry.is_err());
        let launches = match written.launches {
            Ok(_) => Vec::new(),
            Err(_) => due.launches,
        };
        if registry.is_some() || !launches.is_empty() {
            let mut pending = self.backlog.pending();
            pending.take_back(registry, launches, Instant::now());
        }
        for warning in written.warnings() {
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

    /// How long to wait for what is sure to come.
    const LIMIT: Duration = Duration::from_secs(60);

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
        worker.finish(LIMIT, LIMIT);
        assert_eq!(count(&open()).unwrap().len(), 4);
    }

    #[test]
    fn a_job_that_never_ends_is_left_behind_and_what_waits_is_written_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Records::open(dir.path(), &HistoryConfig::default()).0;
        let (outbox, _inbox) = mailbox().unwrap();
        let worker = Worker::start(open(), outbox).unwrap();
        let (_never, wait) = channel::<()>();
        let (tell, told) = channel();
        worker.jobs.run(move |_| {
            tell.send(()).unwrap();
            let _ = wait.recv();
        });
        told.recv().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        registry.checked(7);
        worker.jobs.save(registry);
        worker.jobs.add_launch(launch(1));
        // As if its time were over at once.
        worker.finish(Duration::ZERO, LIMIT);
        let launches = open().history().unwrap().launches(None, None, 9);
        assert_eq!(launches.unwrap().len(), 1);
        let written = std::fs::read_to_string(dir.path().join("managed.json")).unwrap();
        assert!(written.contains("7"), "{written}");
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
        worker.finish(LIMIT, LIMIT);
    }
}
