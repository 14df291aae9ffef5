//! A service, a polkit and a desktop that answer as the test says, and record what they were asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use paralfetch::model::UserApp;
use paralfetch::policy::Warmth;
use paralfetch::profile::decode;
use paralfetch::service::config::Mode;
use paralfetch::service::control::{
    Answer, AppState, AskedPhase, ControlCall, ControlError, FileReads, LaunchRecord, Post,
    ProfileData, Status, word,
};
use paralfetch::service::history::Kind;
use zbus::interface;
use zbus::object_server::Interface;
use zbus::zvariant::OwnedValue;

use crate::daemon::Daemon;

/// Knows one app, `/usr/bin/pf-painter`, which no system has, of [`USER`] and of root. Where it is installed is all the same.
pub struct Fake {
    pub changes: Mutex<Vec<String>>,
    pub mode: Mutex<Mode>,
    /// For how long its prefetched cold launches wait, in milliseconds, if that is known; the others wait for a second.
    pub cold_with_ms: Mutex<Option<u32>>,
}

pub const APP: &str = "/usr/bin/pf-painter";

/// The ordinary user who has the app.
pub const USER: u32 = 65534;

/// A user who has no app: `daemon`, since the bus refuses users without an account.
pub const OTHER: u32 = 1;

/// Has calls answered by the fake at once, on the bus's thread.
pub fn post(fake: &Arc<Fake>) -> Post {
    let fake = Arc::clone(fake);
    Box::new(move |call| {
        fake.answer(call);
        true
    })
}

impl Fake {
    pub fn shared() -> Arc<Fake> {
        Arc::new(Fake {
            changes: Mutex::default(),
            mode: Mutex::new(Mode::Manual),
            cold_with_ms: Mutex::default(),
        })
    }

    /// What was changed since the last time.
    pub fn changed(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock().unwrap())
    }

    fn change(&self, what: String) {
        self.changes.lock().unwrap().push(what);
    }

    fn known(user: Option<u32>, app: &str) -> Result<(), ControlError> {
        let has_it = user.is_none_or(|uid| [0, USER].contains(&uid));
        match app {
            "pf-painter" if has_it => Ok(()),
            path if path.ends_with("/pf-painter") && has_it => Ok(()),
            "refused" => Err(ControlError::Refused("not\0this".to_owned())),
            _ => Err(ControlError::Unknown(format!("no app {app:.10}"))),
        }
    }
}

pub fn state(uid: u32) -> AppState {
    AppState {
        uid,
        app: APP.to_owned(),
        name: "GIMP".to_owned(),
        phase: "prefetching".to_owned(),
        launches: 5,
        gain_percent: Some(-12),
        ..AppState::default()
    }
}

pub fn launch(uid: u32) -> LaunchRecord {
    LaunchRecord {
        uid,
        time_s: 1_700_000_000,
        app: APP.to_owned(),
        kind: Kind::Prefetched,
        warmth: Some(Warmth::Cold),
        duration_us: Some(1_234_000),
        own_reads: Some(vec![FileReads {
            path: "/usr/lib/libgimp.so".to_owned(),
            reads: 3,
            bytes: 12 << 10,
            ..FileReads::default()
        }]),
        ..LaunchRecord::default()
    }
}

/// A profile of the tests of the format.
pub fn profile(uid: u32) -> ProfileData {
    let pf = include_bytes!("../../src/profile/format/format-7.pf").to_vec();
    let profile = decode(&pf).unwrap();
    let key = UserApp {
        uid,
        id: APP.to_owned(),
    };
    ProfileData::new(key, &profile, pf)
}

fn by(is_administrator: bool) -> &'static str {
    if is_administrator { "" } else { " by owner" }
}

fn of_user(user: Option<u32>) -> String {
    user.map_or(String::new(), |uid| format!(" of {uid}"))
}

impl Fake {
    /// Answers a call at once.
    pub fn answer(&self, call: ControlCall) {
        match call {
            ControlCall::Status(user, reply) => reply.give(Ok(Status {
                version: "9.9".to_owned(),
                mode: self.mode.lock().unwrap().to_string(),
                managed: 2 - u64::from(user.is_some()),
                warnings: vec!["a\0b".to_owned()],
                ..Status::default()
            })),
            ControlCall::Apps(user, app, reply) => reply.give(self.apps(user, app.as_deref())),
            ControlCall::Launches(user, app, limit, reply) => {
                let known = app.map_or(Ok(()), |app| Fake::known(user, &app));
                reply.give(known.map(|()| vec![launch(user.unwrap_or(0)); limit as usize]));
            }
            ControlCall::Profile {
                user,
                is_administrator,
                app,
                reply,
            } => reply.give(Fake::known(user, &app).map(|()| {
                self.change(format!(
                    "show {app}{}{}",
                    of_user(user),
                    by(is_administrator)
                ));
                profile(user.unwrap_or(0))
            })),
            ControlCall::Ask(asked, reply) => {
                let AskedPhase {
                    user,
                    is_administrator,
                    app,
                    request,
                } = asked;
                reply.give(Fake::known(user, &app).map(|()| {
                    let (of, by) = (of_user(user), by(is_administrator));
                    self.change(format!("{} {app}{of}{by}", word(request)));
                    APP.to_owned()
                }));
            }
            ControlCall::Forget(user, app, reply) => {
                reply.give(Fake::known(user, &app).map(|()| {
                    self.change(format!("forget {app}{}", of_user(user)));
                }));
            }
            ControlCall::Mode(reply) => reply.give(Ok(*self.mode.lock().unwrap())),
            ControlCall::SetMode(mode, reply) => {
                *self.mode.lock().unwrap() = mode;
                self.change(mode.to_string());
                reply.give(Ok(()));
            }
            ControlCall::Reload(reply) => {
                self.change("reload".to_owned());
                let wrong = "config.toml, line 3: no".to_owned();
                reply.give(Err(ControlError::Failed(wrong)));
            }
        }
    }

    fn apps(&self, user: Option<u32>, app: Option<&str>) -> Answer<Vec<AppState>> {
        app.map_or(Ok(()), |app| Fake::known(user, app))?;
        let users = [0, USER]
            .into_iter()
            .filter(|uid| user.is_none_or(|user| user == *uid));
        let cold_with_ms = *self.cold_with_ms.lock().unwrap();
        let state = |uid| {
            let mut state = state(uid);
            if let Some(ms) = cold_with_ms {
                state.gain_percent = Some(100 - ms as i32 / 10);
                state.cold_with_us = Some(1000 * u64::from(ms));
                state.cold_without_us = Some(1_000_000);
            }
            if let Some(path) = app.filter(|app| app.starts_with('/')) {
                state.app = path.to_owned();
                state.name = path.to_owned();
            }
            state
        };
        Ok(users.map(state).collect())
    }
}

/// What polkit answers: allowed, and whether a password would help.
#[derive(Clone, Copy)]
pub struct PolkitAnswer(pub bool, pub bool);

/// A question: kind of subject, action, flags.
pub type Question = (String, String, u32);

/// Polkit.
pub struct Polkit {
    pub questions: Arc<Mutex<Vec<Question>>>,
    _on_bus: OnBus,
}

struct Authority {
    answer: PolkitAnswer,
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
    pub fn start(daemon: &Daemon, answer: PolkitAnswer) -> Polkit {
        let questions = Arc::new(Mutex::default());
        let authority = Authority {
            answer,
            questions: Arc::clone(&questions),
        };
        let name = "org.freedesktop.PolicyKit1";
        let path = "/org/freedesktop/PolicyKit1/Authority";
        Polkit {
            questions,
            _on_bus: OnBus::serve(daemon, name, path, authority),
        }
    }
}

/// What the notification daemon was asked to show: headings and bodies.
pub type Shown = Arc<Mutex<Vec<(String, String)>>>;

/// A notification daemon.
pub struct Desktop {
    pub shown: Shown,
    _on_bus: OnBus,
}

struct Notifications(Shown);

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    #[expect(clippy::too_many_arguments, reason = "as specified")]
    async fn notify(
        &self,
        app: String,
        replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        timeout: i32,
    ) -> u32 {
        assert_eq!((app.as_str(), replaces, timeout), ("Paralfetch", 0, -1));
        assert!(actions.is_empty());
        self.0.lock().unwrap().push((summary, body));
        1
    }
}

impl Desktop {
    pub fn start(daemon: &Daemon) -> Desktop {
        let shown = Shown::default();
        let daemon_of = Notifications(Arc::clone(&shown));
        let name = "org.freedesktop.Notifications";
        let path = "/org/freedesktop/Notifications";
        Desktop {
            shown,
            _on_bus: OnBus::serve(daemon, name, path, daemon_of),
        }
    }

    /// The headings since the last time.
    pub fn headings(&self) -> Vec<String> {
        let shown = std::mem::take(&mut *self.shown.lock().unwrap());
        shown.into_iter().map(|(summary, _)| summary).collect()
    }
}

/// An object on a connection of its own; gone with this value.
struct OnBus {
    /// Ends it.
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OnBus {
    fn serve(
        daemon: &Daemon,
        name: &'static str,
        path: &'static str,
        object: impl Interface,
    ) -> OnBus {
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
                    .serve_at(path, object)
                    .unwrap()
                    .name(name)
                    .unwrap()
                    .build()
                    .await
                    .unwrap();
                send_ready.send(()).unwrap();
                // An error is the end, too.
                let _ = stopped.await;
            });
        });
        ready.recv().expect("a fake on the bus");
        OnBus {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for OnBus {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed by then.
            let _ = thread.join();
        }
    }
}
