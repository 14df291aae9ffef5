//! What must not hold up the event loop: writing state, reading profiles, scheduling anew.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::records::Records;
use super::trim::give_back;

/// A piece of work. It is given the history.
type Job = Box<dyn FnOnce(&mut Records) + Send>;

/// The thread that works, one job after the other.
pub struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(mut records: Records) -> io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let thread = Builder::new().name("pf-work".to_owned()).spawn(move || {
            for job in inbox {
                job(&mut records);
                give_back();
            }
        })?;
        Ok(Worker {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Has a job done, after those before it.
    pub fn run(&self, job: impl FnOnce(&mut Records) + Send + 'static) {
        if let Some(jobs) = &self.jobs {
            // It fails only if a job has panicked, which has been printed.
            let _ = jobs.send(Box::new(job));
        }
    }

    /// Waits until all jobs are done, and ends the thread.
    pub fn finish(mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
