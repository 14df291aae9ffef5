//! Threads for what the event loop must not wait for: `pf-work` reads profiles, looks files up and schedules anew; `pf-state`
//! writes state and answers from the history.
//!
//! What users choose, such as a drive of their own that never answers, may keep the first one for any time. The second one
//! touches the state directory alone: calls are answered, and what happens is written, whatever the first one waits for.

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
use super::pending_writes::PendingWrites;
use super::records::Records;
use super::registry::Registry;

/// Jobs of a thread that wait until no other is taken that the service can do without: many more than launches and calls of
/// a busy desktop make while one job waits for a slow drive.
const MOST_JOBS: usize = 256;

/// A piece of work for `pf-work`, and whether it counts ([`Jobs::are_many`]).
struct WorkJob {
    work: Box<dyn FnOnce() + Send>,
    is_counted: bool,
}

/// A piece of work for `pf-state`.
enum StateJob {
    /// Once all that waits to be written is written. It is given the history.
    Do(Box<dyn FnOnce(&mut Records) + Send>),
    /// Something waits to be written.
    Look,
}

/// Both threads. Each does one job after the other, and gives freed memory back after each.
pub struct Worker {
    jobs: Jobs,
    work: WorkerThread,
    state: WorkerThread,
}

/// What is known of a thread. It is not joined: a drive may keep it for any time.
struct WorkerThread {
    /// Disconnected once it has ended.
    ended: Receiver<()>,
    /// Whether a job was done since the last look.
    has_worked: Arc<AtomicBool>,
}

/// A way to give both threads jobs, from any thread.
#[derive(Clone)]
pub struct Jobs {
    work: Sender<WorkJob>,
    state: Sender<StateJob>,
    backlog: Arc<Backlog>,
}

/// What waits for the threads.
#[derive(Default)]
struct Backlog {
    /// Jobs that wait or are being done, of `pf-work`.
    work: AtomicUsize,
    /// Jobs that wait or are being done, of `pf-state`.
    state: AtomicUsize,
    pending: Mutex<PendingWrites>,
    /// Whether `pf-state` has been told that something is pending, and has not looked yet.
    is_told: AtomicBool,
}

impl Worker {
    /// Starts the threads. They send warnings to the event loop.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(records: Records, outbox: Outbox) -> io::Result<Self> {
        let backlog = Arc::new(Backlog::default());
        let (work, inbox) = channel();
        let of_work = Arc::clone(&backlog);
        let work_thread = WorkerThread::start("pf-work", move |has_worked| {
            do_work(&inbox, &of_work.work, has_worked);
        })?;
        let (state, inbox) = channel();
        let mut writer = StateWriter {
            records,
            backlog: Arc::clone(&backlog),
            outbox,
        };
        let state_thread = WorkerThread::start("pf-state", move |has_worked| {
            writer.work(&inbox, has_worked);
        })?;
        Ok(Worker {
            jobs: Jobs {
                work,
                state,
                backlog,
            },
            work: work_thread,
            state: state_thread,
        })
    }

    /// Gives both threads jobs.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Asks `pf-work` to show that it works, once it has done the jobs before.
    pub fn ask_work(&self) {
        self.jobs.run(|| ());
    }

    /// Whether `pf-work` has done a job since the last call.
    pub fn has_work_answered(&self) -> bool {
        self.work.has_answered()
    }

    /// Asks `pf-state` to show that it works, once it has done the jobs before.
    pub fn ask_state(&self) {
        self.jobs.send_state(StateJob::Look);
    }

    /// Whether `pf-state` has done a job since the last call.
    pub fn has_state_answered(&self) -> bool {
        self.state.has_answered()
    }

    /// Ends both threads once all their jobs are done and everything is written, and waits for that: for `pf-work` as long
    /// as its `patience`, for `pf-state` as long as another one. All other [`Jobs`] must be gone, or be those of `pf-work`'s
    /// own jobs. A thread that waits for a drive that does not answer is left behind.
    pub fn finish(self, patience: Duration, state_patience: Duration) {
        let Jobs {
            work,
            state,
            backlog: _backlog,
        } = self.jobs;
        drop(work);
        if !self.work.has_ended_within(patience) {
            tracing::warn!(
                "the thread that works on profiles waits for a drive that does not answer: it is left behind"
            );
        }
        drop(state);
        if !self.state.has_ended_within(state_patience) {
            tracing::warn!("the last changes of the state could not be written in time");
        }
    }
}

impl WorkerThread {
    fn start(
        name: &str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<WorkerThread> {
        let (alive, ended) = channel::<()>();
        let has_worked = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&has_worked);
        Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped with the thread, also if a job panics.
            let _alive = alive;
            work(&of_thread);
        })?;
        Ok(WorkerThread { ended, has_worked })
    }

    fn has_answered(&self) -> bool {
        self.has_worked.swap(false, Ordering::AcqRel)
    }

    fn has_ended_within(&self, patience: Duration) -> bool {
        matches!(
            self.ended.recv_timeout(patience),
            Err(RecvTimeoutError::Disconnected)
        )
    }
}

impl Jobs {
    /// Has `pf-work` do a job after those before it, however many wait.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        self.backlog.work.fetch_add(1, Ordering::Relaxed);
        self.send_work(work, true);
    }

    /// Has `pf-work` do a job that keeps no other waiting for long, and is not counted ([`Jobs::are_many`]).
    pub fn run_uncounted(&self, work: impl FnOnce() + Send + 'static) {
        self.send_work(work, false);
    }

    fn send_work(&self, work: impl FnOnce() + Send + 'static, is_counted: bool) {
        let work = Box::new(work);
        // The thread is only gone if a job has panicked, which has been printed.
        let _ = self.work.send(WorkJob { work, is_counted });
    }

    /// Has `pf-state` do a job that reads or changes what is written, once all that waits is.
    pub fn run_on_written(&self, work: impl FnOnce(&mut Records) + Send + 'static) {
        self.send_state(StateJob::Do(Box::new(work)));
    }

    /// Whether so many jobs wait for `pf-work` that no other is to be given that the service can do without.
    pub fn are_many(&self) -> bool {
        self.backlog.work.load(Ordering::Relaxed) >= MOST_JOBS
    }

    /// Whether so many jobs wait for `pf-state` that no other is to be given that the service can do without.
    pub fn are_many_on_written(&self) -> bool {
        self.backlog.state.load(Ordering::Relaxed) >= MOST_JOBS
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
            self.send_state(StateJob::Look);
        }
    }

    fn send_state(&self, job: StateJob) {
        self.backlog.state.fetch_add(1, Ordering::Relaxed);
        // As in `send_work`.
        let _ = self.state.send(job);
    }
}

impl Backlog {
    /// Held for some instructions only, by `pf-state` too.
    fn pending(&self) -> std::sync::MutexGuard<'_, PendingWrites> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until_due(&self) -> Option<Duration> {
        self.pending().until_due(Instant::now())
    }
}

/// Works until nobody can give `pf-work` jobs any more.
fn do_work(inbox: &Receiver<WorkJob>, waiting: &AtomicUsize, has_worked: &AtomicBool) {
    for WorkJob { work, is_counted } in inbox {
        work();
        if is_counted {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
        release_heap();
        has_worked.store(true, Ordering::Release);
    }
}

/// What `pf-state` has.
struct StateWriter {
    records: Records,
    backlog: Arc<Backlog>,
    outbox: Outbox,
}

impl StateWriter {
    /// Works until nobody can give it jobs any more.
    fn work(&mut self, inbox: &Receiver<StateJob>, has_worked: &AtomicBool) {
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
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            has_worked.store(true, Ordering::Release);
        }
        self.write();
    }

    fn perform(&mut self, job: StateJob) {
        match job {
            StateJob::Do(work) => {
                self.write();
                work(&mut self.records);
            }
            StateJob::Look => self.backlog.is_told.store(false, Ordering::Release),
        }
        self.backlog.state.fetch_sub(1, Ordering::Relaxed);
        release_heap();
    }

    /// Writes all that waits.
    fn write(&mut self) {
        let due = self.backlog.pending().take(Instant::now());
        let Some(due) = due else { return };
        let saved = due.registry.as_ref().map_or(Ok(()), Registry::save);
        let added = self.records.add(&due.launches);
        let registry = due.registry.filter(|_| saved.is_err());
        let launches = match added {
            Ok(_) => Vec::new(),
            Err(_) => due.launches,
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
            worker.jobs().add_launch(launch(uid));
        }
        let count = |records: &Records| records.history().unwrap().launches(None, None, 9);
        worker
            .jobs()
            .run_on_written(move |records| tell.send(count(records).unwrap().len()).unwrap());
        assert_eq!(told.recv().unwrap(), 3);
        worker.jobs().add_launch(launch(4));
        worker.finish(LIMIT, LIMIT);
        assert_eq!(count(&open()).unwrap().len(), 4);
    }

    #[test]
    fn a_job_that_never_ends_keeps_neither_answers_nor_state_and_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Records::open(dir.path(), &HistoryConfig::default()).0;
        let (outbox, _inbox) = mailbox().unwrap();
        let worker = Worker::start(open(), outbox).unwrap();
        let (_never, wait) = channel::<()>();
        worker.jobs().run(move || {
            let _ = wait.recv();
        });
        worker.jobs().add_launch(launch(1));
        let (tell, told) = channel();
        let count = |records: &Records| records.history().unwrap().launches(None, None, 9);
        worker
            .jobs()
            .run_on_written(move |records| tell.send(count(records).unwrap().len()).unwrap());
        assert_eq!(told.recv().unwrap(), 1);
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        registry.checked(7);
        worker.jobs().save(registry);
        worker.jobs().add_launch(launch(2));
        // As if its time were over at once.
        worker.finish(Duration::ZERO, LIMIT);
        assert_eq!(count(&open()).unwrap().len(), 2);
        let written = std::fs::read_to_string(dir.path().join("managed.json")).unwrap();
        assert!(written.contains("\"checked_s\":7"), "{written}");
    }

    #[test]
    fn jobs_that_wait_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path(), &HistoryConfig::default()).0;
        let (outbox, _inbox) = mailbox().unwrap();
        let worker = Worker::start(records, outbox).unwrap();
        let (go, wait) = channel::<()>();
        worker.jobs().run(move || wait.recv().unwrap());
        for _ in 1..MOST_JOBS {
            assert!(!worker.jobs().are_many());
            worker.jobs().run(|| ());
        }
        assert!(worker.jobs().are_many());
        go.send(()).unwrap();
        let (tell, told) = channel();
        worker.jobs().run(move || tell.send(()).unwrap());
        told.recv().unwrap();
        assert!(!worker.jobs().are_many());
        worker.finish(LIMIT, LIMIT);
    }
}
