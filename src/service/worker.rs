//! A thread for what the event loop must not wait for: writing state, reading profiles, scheduling anew.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::own_process::release_heap;
use super::records::Records;

/// A piece of work, which is given the history.
type Job = Box<dyn FnOnce(&mut Records) + Send>;

/// The worker thread. It does one job after the other, and gives freed memory back after each.
pub struct Worker {
    pub jobs: Jobs,
    thread: JoinHandle<()>,
    /// Whether a job was done since the last look.
    has_worked: Arc<AtomicBool>,
}

/// A way to give the worker jobs, from any thread.
#[derive(Clone)]
pub struct Jobs(Sender<Job>);

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(mut records: Records) -> io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let has_worked = Arc::new(AtomicBool::new(false));
        let works = Arc::clone(&has_worked);
        let thread = Builder::new().name("pf-work".to_owned()).spawn(move || {
            for job in inbox {
                job(&mut records);
                release_heap();
                works.store(true, Ordering::Release);
            }
        })?;
        Ok(Worker {
            jobs: Jobs(jobs),
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

    /// Waits until all jobs are done and ends the thread. All other [`Jobs`] must be gone.
    pub fn finish(self) {
        drop(self.jobs);
        // A job that has panicked has printed why.
        let _ = self.thread.join();
    }
}

impl Jobs {
    /// Has a job done after those before it.
    pub fn run(&self, job: impl FnOnce(&mut Records) + Send + 'static) {
        // The worker is only gone if a job has panicked, which has been printed.
        let _ = self.0.send(Box::new(job));
    }
}
