//! A backend and a polkit that do what the test says, and remember what they were asked.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use paralfetch::policy::PhaseRequest;
use paralfetch::service::bus::{
    AppState, Backend, BackendError, LaunchRecord, Mode, Status, request_word,
};
use zbus::interface;
use zbus::zvariant::OwnedValue;

use crate::daemon::Daemon;

/// Knows one app, `/usr/bin/gimp`.
pub struct Fake {
    pub changes: Mutex<Vec<String>>,
    pub mode: Mutex<Mode>,
    /// The status is not told before this has been said, if there is something to say.
    pub started: Mutex<Option<Receiver<()>>>,
}

/// How long a service has time to start: as long as the real one would wait for its event loop.
const START: Duration = Duration::from_secs(10);

pub const APP: &str = "/usr/bin/gimp";

impl Default for Fake {
    fn default() -> Self {
        Fake {
            changes: Mutex::default(),
            mode: Mutex::new(Mode::Manual),
            started: Mutex::default(),
        }
    }
}

impl Fake {
    /// What was changed since the last time.
    pub fn changed(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock().unwrap())
    }

    fn change(&self, what: String) {
        self.changes.lock().unwrap().push(what);
    }

    fn known(app: &str) -> Result<(), BackendError> {
        match app {
            APP | "gimp" => Ok(()),
            "refused" => Err(BackendError::Refused("not\0this".to_owned())),
            _ => Err(BackendError::Unknown(format!("no app {app:.10}"))),
        }
    }
}

pub fn state() -> AppState {
    AppState {
        app: APP.to_owned(),
        name: "GIMP".to_owned(),
        phase: "prefetching".to_owned(),
        launches: 5,
        gain_percent: -12,
        ..AppState::default()
    }
}

pub fn launch() -> LaunchRecord {
    LaunchRecord {
        time_s: 1_700_000_000,
        app: APP.to_owned(),
        kind: "prefetch".to_owned(),
        warmth: "cold".to_owned(),
        duration_us: Some(1_234_000),
        ..LaunchRecord::default()
    }
}

impl Backend for Fake {
    fn status(&self) -> Result<Status, BackendError> {
        if let Some(started) = &*self.started.lock().unwrap() {
            let in_time = started.recv_timeout(START);
            in_time.map_err(|error| BackendError::Failed(error.to_string()))?;
        }
        Ok(Status {
            version: "9.9".to_owned(),
            mode: self.mode()?.to_string(),
            managed: 1,
            warnings: vec!["a\0b".to_owned()],
            ..Status::default()
        })
    }

    fn apps(&self) -> Result<Vec<AppState>, BackendError> {
        Ok(vec![state()])
    }

    fn app(&self, app: &str) -> Result<AppState, BackendError> {
        Self::known(app).map(|()| state())
    }

    fn launches(&self, app: Option<&str>, limit: u32) -> Result<Vec<LaunchRecord>, BackendError> {
        app.map_or(Ok(()), Self::known)?;
        Ok(vec![launch(); limit as usize])
    }

    fn ask(&self, app: &str, request: PhaseRequest) -> Result<String, BackendError> {
        Self::known(app)?;
        self.change(format!("{} {app}", request_word(request)));
        Ok(APP.to_owned())
    }

    fn forget(&self, app: &str) -> Result<(), BackendError> {
        Self::known(app)?;
        self.change(format!("forget {app}"));
        Ok(())
    }

    fn mode(&self) -> Result<Mode, BackendError> {
        Ok(*self.mode.lock().unwrap())
    }

    fn set_mode(&self, mode: Mode) -> Result<(), BackendError> {
        *self.mode.lock().unwrap() = mode;
        self.change(mode.to_string());
        Ok(())
    }

    fn reload(&self) -> Result<(), BackendError> {
        self.change("reload".to_owned());
        Err(BackendError::Failed("config.toml, line 3: no".to_owned()))
    }
}

/// What polkit answers: allowed, and whether a password would help.
#[derive(Clone, Copy)]
pub struct Answer(pub bool, pub bool);

/// A question: kind of subject, action, flags.
pub type Question = (String, String, u32);

/// Polkit, on a connection of its own.
pub struct Polkit {
    pub questions: Arc<Mutex<Vec<Question>>>,
    /// Ends it.
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Authority {
    answer: Answer,
    questions: Arc<Mutex<Vec<Question>>>,
}

#[interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Authority {
    async fn check_authorization(
        &self,
        subject: (String, HashMap<String, OwnedValue>),
        action: String,
        _details: HashMap<String, String>,
        flags: u32,
        _cancellation: String,
    ) -> (bool, bool, HashMap<String, String>) {
        let name = subject
            .1
            .get("name")
            .and_then(|name| name.downcast_ref::<&str>().ok());
        assert!(
            name.is_some_and(|name| name.starts_with(':')),
            "{subject:?}"
        );
        let question = (subject.0, action, flags);
        self.questions.lock().unwrap().push(question);
        (self.answer.0, self.answer.1, HashMap::new())
    }
}

impl Polkit {
    pub fn start(daemon: &Daemon, answer: Answer) -> Polkit {
        let questions = Arc::new(Mutex::default());
        let authority = Authority {
            answer,
            questions: Arc::clone(&questions),
        };
        let address = daemon.text().to_owned();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (send_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let _connection = zbus::connection::Builder::address(address.as_str())
                    .unwrap()
                    .serve_at("/org/freedesktop/PolicyKit1/Authority", authority)
                    .unwrap()
                    .name("org.freedesktop.PolicyKit1")
                    .unwrap()
                    .build()
                    .await
                    .unwrap();
                send_ready.send(()).unwrap();
                // An error is the end, too.
                let _ = stopped.await;
            });
        });
        ready.recv().expect("a fake polkit");
        Polkit {
            questions,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Polkit {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed by then.
            let _ = thread.join();
        }
    }
}
