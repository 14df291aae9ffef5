//! The object on the bus: it checks arguments and callers, and passes calls on to the event loop.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::timeout;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, fdo, interface};

use super::authority::{Action, MOST_QUESTIONS, authorize, caller_uid};
use super::error::{ARGUMENT, BUSY, sendable};
use super::listeners::Listeners;
use super::{EVERYBODY, MAX_ARGUMENT, MAX_LAUNCHES};
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::{
    Answer, AppChange, AppState, AskedPhase, ControlCall, ControlError, LaunchRecord, Post,
    ProfileData, Reply, Status,
};
use crate::service::dictionary::of_word;
use crate::service::rate::Rate;

/// How long an answer may take. The event loop answers in well under a millisecond; the worker, which
/// reads the history, may have other work before.
const ANSWER: Duration = Duration::from_secs(10);

/// Calls that a user may make at once, and the time until he may make one more. Each costs the event loop and the
/// worker up to some ten milliseconds; root may call as often as it likes.
const CALLS: (u32, Duration) = (100, Duration::from_millis(100));

/// Changes that a user may make, likewise: some look through all .desktop entries, or for all executables.
const CHANGES: (u32, Duration) = (20, Duration::from_secs(1));

/// What a call does to the service's state.
#[derive(Clone, Copy)]
enum Effect {
    None,
    Change,
}

/// How often each user has called lately.
struct CallRates {
    started: Instant,
    calls: Rate,
    changes: Rate,
}

/// The interface [`super::NAME`].
pub(super) struct Interface {
    post: Post,
    rates: std::sync::Mutex<CallRates>,
    /// Callers that polkit is asked about.
    questions: Semaphore,
    /// Connections that have asked for signals of launches and apps.
    pub listeners: Mutex<Listeners>,
}

impl Interface {
    /// Passes calls on by `post`.
    pub fn new(post: Post) -> Self {
        Interface {
            post,
            rates: std::sync::Mutex::new(CallRates {
                started: Instant::now(),
                calls: Rate::new(CALLS.0, CALLS.1),
                changes: Rate::new(CHANGES.0, CHANGES.1),
            }),
            questions: Semaphore::new(MOST_QUESTIONS),
            listeners: Mutex::default(),
        }
    }

    /// The user who makes this call, unless he has called too often.
    async fn caller(
        &self,
        effect: Effect,
        call: &Header<'_>,
        connection: &Connection,
    ) -> Answer<u32> {
        let uid = caller_uid(connection, call).await?;
        // Nothing can panic while it is locked.
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = rates.started.elapsed();
        let may_call = uid == 0
            || match effect {
                Effect::None => rates.calls.take(uid, now),
                Effect::Change => rates.changes.take(uid, now),
            };
        match may_call {
            true => Ok(uid),
            false => {
                let why = "you have called too often; try again later".to_owned();
                Err(ControlError::Call(BUSY, why))
            }
        }
    }

    /// Whose apps and launches a call is about, `None` for everybody's, and whether the administrator calls. The
    /// caller's own are his without a question; `user` may be [`EVERYBODY`].
    async fn whose(
        &self,
        user: u32,
        effect: Effect,
        call: &Header<'_>,
        connection: &Connection,
    ) -> Answer<(Option<u32>, bool)> {
        let caller = self.caller(effect, call, connection).await?;
        if caller != user {
            authorize(&self.questions, connection, call, Action::ManageApps).await?;
        }
        let is_administrator = caller == 0 || caller != user;
        Ok(((user != EVERYBODY).then_some(user), is_administrator))
    }

    /// Has a call answered by the thread that the service's state belongs to.
    async fn call<T>(&self, call: impl FnOnce(Reply<T>) -> ControlCall) -> Answer<T> {
        let (sender, answer) = oneshot::channel();
        let is_posted = (self.post)(call(Reply(sender)));
        let failed = match timeout(ANSWER, answer).await {
            Ok(Ok(answer)) if is_posted => return answer,
            Err(_) if is_posted => {
                format!("the service has not answered within {} s", ANSWER.as_secs())
            }
            _ => "the service is stopping".to_owned(),
        };
        Err(ControlError::Failed(failed))
    }
}

// No method takes `&mut self`: one that waits for a password must not hold up the others.
// The macro knows a result by its name alone.
#[interface(name = "org.paralfetch.Paralfetch1", introspection_docs = false)]
impl Interface {
    #[zbus(out_args("status"))]
    async fn get_status(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Status, ControlError> {
        let caller = self.caller(Effect::None, &call, connection).await?;
        let user = (caller != 0).then_some(caller);
        let mut status = self.call(|reply| ControlCall::Status(user, reply)).await?;
        let shield = &mut status.shield;
        let all = shield.in_force.iter_mut().chain(&mut shield.ended);
        let of_all = all.flat_map(|it| [Some(&mut it.target), it.why_ended.as_mut()]);
        let of_shield = of_all.chain([shield.problem.as_mut()]).flatten();
        let of_service = status.abilities.iter_mut().chain(&mut status.warnings);
        for line in of_service.chain(of_shield) {
            *line = sendable(line);
        }
        Ok(status)
    }

    #[zbus(out_args("apps"))]
    async fn list_apps(
        &self,
        user: u32,
        app: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<AppState>, ControlError> {
        let app = one_or_all(app)?;
        let (user, _) = self.whose(user, Effect::None, &call, connection).await?;
        self.call(|reply| ControlCall::Apps(user, app, reply)).await
    }

    #[zbus(out_args("launches"))]
    async fn list_launches(
        &self,
        user: u32,
        app: &str,
        limit: u32,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<LaunchRecord>, ControlError> {
        let app = one_or_all(app)?;
        let limit = limit.min(MAX_LAUNCHES);
        let (user, _) = self.whose(user, Effect::None, &call, connection).await?;
        self.call(|reply| ControlCall::Launches(user, app, limit, reply))
            .await
    }

    #[zbus(out_args("profile"))]
    async fn get_profile(
        &self,
        user: u32,
        app: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<ProfileData, ControlError> {
        let app = bounded(app)?;
        let (user, is_administrator) = self.whose(user, Effect::None, &call, connection).await?;
        self.call(|reply| ControlCall::Profile {
            user,
            is_administrator,
            app,
            reply,
        })
        .await
    }

    #[zbus(out_args("name"))]
    async fn ask(
        &self,
        user: u32,
        app: &str,
        request: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<String, ControlError> {
        let app = bounded(app)?;
        let request: PhaseRequest = parsed(request, "request: learn, prefetch or disable")?;
        let (user, is_administrator) = self.whose(user, Effect::Change, &call, connection).await?;
        let asked = AskedPhase {
            user,
            is_administrator,
            app,
            request,
        };
        self.call(|reply| ControlCall::Ask(asked, reply)).await
    }

    async fn forget(
        &self,
        user: u32,
        app: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        let app = bounded(app)?;
        let (user, _) = self.whose(user, Effect::Change, &call, connection).await?;
        self.call(|reply| ControlCall::Forget(user, app, reply))
            .await
    }

    async fn listen(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        let uid = self.caller(Effect::None, &call, connection).await?;
        let mut listeners = self.listeners.lock().await;
        let sender = call.sender().map(ToString::to_string).unwrap_or_default();
        match listeners.add(connection, sender, uid).await {
            true => Ok(()),
            false => {
                let why = "too many of your programs listen to launches".to_owned();
                Err(ControlError::Call(BUSY, why))
            }
        }
    }

    async fn set_mode(
        &self,
        mode: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        let mode: Mode = parsed(mode, "mode: manual or automatic")?;
        self.caller(Effect::Change, &call, connection).await?;
        authorize(&self.questions, connection, &call, Action::Configure).await?;
        self.call(|reply| ControlCall::SetMode(mode, reply)).await
    }

    async fn reload(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        self.caller(Effect::Change, &call, connection).await?;
        authorize(&self.questions, connection, &call, Action::Configure).await?;
        self.call(ControlCall::Reload).await
    }

    #[zbus(property)]
    async fn mode(&self) -> fdo::Result<String> {
        let mode = self.call(ControlCall::Mode).await;
        let failed = |error: ControlError| fdo::Error::Failed(error.to_string());
        Ok(mode.map_err(failed)?.to_string())
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    #[zbus(signal)]
    pub async fn launch_begun(
        emitter: &SignalEmitter<'_>,
        app: &str,
        uid: u32,
        pid: u32,
        plan: &str,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    pub async fn launch_ended(
        emitter: &SignalEmitter<'_>,
        launch: LaunchRecord,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    pub async fn app_changed(emitter: &SignalEmitter<'_>, app: AppChange) -> zbus::Result<()>;
}

/// The name of an app, if it is not too long to be one.
fn bounded(app: &str) -> Answer<String> {
    if (1..=MAX_ARGUMENT).contains(&app.len()) {
        return Ok(app.to_owned());
    }
    let wanted = format!("wanted as app: 1 to {MAX_ARGUMENT} bytes");
    Err(ControlError::Call(ARGUMENT, wanted))
}

/// The name of an app; `None` stands for all of them.
fn one_or_all(app: &str) -> Answer<Option<String>> {
    match app {
        "" => Ok(None),
        app => bounded(app).map(Some),
    }
}

/// The value that a word stands for; `wanted` says which words there are.
fn parsed<T: DeserializeOwned>(word: &str, wanted: &str) -> Answer<T> {
    let wrong = || ControlError::Call(ARGUMENT, format!("wanted as {wanted}"));
    of_word(word).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// The description that other programs are built with is what the service answers. PARALFETCH_WRITE=1 writes it
    /// anew.
    #[test]
    fn the_description_is_that_of_the_interface() {
        let interface = Interface::new(Box::new(|_| false));
        let mut made = String::from(
            "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n \
             \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n\
             <!-- To be installed in /usr/share/dbus-1/interfaces. -->\n<node>\n",
        );
        zbus::object_server::Interface::introspect_to_writer(&interface, &mut made, 2);
        writeln!(made, "</node>").unwrap();
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/dist/org.paralfetch.Paralfetch1.xml"
        );
        if std::env::var_os("PARALFETCH_WRITE").is_some() {
            std::fs::write(file, &made).unwrap();
        }
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        assert_eq!(
            kept, made,
            "{file} is out of date: PARALFETCH_WRITE=1 cargo test --lib the_description"
        );
    }
}
