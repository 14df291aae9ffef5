//! The object on the bus: it checks arguments and callers, and passes calls on to the event loop.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, DBusError, fdo, interface};

use super::authority::{Action, Authority};
use super::error::{Fault, sendable};
use super::{MAX_ARGUMENT, MAX_LAUNCHES};
use crate::service::config::Mode;
use crate::service::control::types::request_of;
use crate::service::control::{AppState, Control, ControlError, LaunchRecord, Post, Reply, Status};

/// How long an answer may take. The event loop answers in well under a millisecond; the worker, which
/// reads the history, may have other work before.
const ANSWER: Duration = Duration::from_secs(10);

/// The interface [`super::NAME`].
pub(super) struct Interface {
    post: Post,
    authority: Authority,
}

impl Interface {
    /// Passes calls on by `post`.
    pub fn new(post: Post) -> Self {
        Interface {
            post,
            authority: Authority::new(),
        }
    }

    /// Has a call answered by the thread that the service's state belongs to.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Control, Reply<T>) + Send + 'static,
    ) -> Result<T, Fault> {
        let (sender, answer) = oneshot::channel();
        let reply: Reply<T> = Box::new(move |answer| {
            // The receiver is gone if the answer took too long.
            let _ = sender.send(answer);
        });
        let failed = |why: String| Fault::Control(ControlError::Failed(why));
        let is_posted = (self.post)(Box::new(move |control| call(control, reply)));
        match timeout(ANSWER, answer).await {
            Ok(Ok(answer)) if is_posted => Ok(answer?),
            Err(_) if is_posted => Err(failed(format!(
                "the service has not answered within {} s",
                ANSWER.as_secs()
            ))),
            _ => Err(failed("the service is stopping".to_owned())),
        }
    }

    async fn current_mode(&self) -> Result<Mode, Fault> {
        self.call(|control, reply| reply(Ok(control.mode()))).await
    }

    /// Sends the property's signal if the mode is not `before` any more.
    async fn tell_mode(&self, before: Mode, emitter: &SignalEmitter<'_>) -> Result<(), Fault> {
        if self.current_mode().await? != before {
            self.mode_changed(emitter).await.map_err(|error| {
                Fault::Control(ControlError::Failed(format!(
                    "the mode was set, but the signal for it could not be sent: {error}"
                )))
            })?;
        }
        Ok(())
    }
}

// No method takes `&mut self`: one that waits for a password must not hold up the others.
#[interface(name = "org.paralfetch.Paralfetch1", introspection_docs = false)]
impl Interface {
    #[zbus(out_args("status"))]
    async fn get_status(&self) -> Result<Status, Fault> {
        let mut status = self.call(|control, reply| reply(control.status())).await?;
        clean(&mut status.abilities);
        clean(&mut status.warnings);
        Ok(status)
    }

    #[zbus(out_args("apps"))]
    async fn list_apps(&self) -> Result<Vec<AppState>, Fault> {
        self.call(|control, reply| control.apps(reply)).await
    }

    #[zbus(out_args("state"))]
    async fn get_app(&self, app: &str) -> Result<AppState, Fault> {
        let app = bounded(app)?;
        self.call(move |control, reply| control.app(&app, reply))
            .await
    }

    #[zbus(out_args("launches"))]
    async fn list_launches(&self, app: &str, limit: u32) -> Result<Vec<LaunchRecord>, Fault> {
        let app = match app {
            "" => None,
            app => Some(bounded(app)?),
        };
        let limit = limit.min(MAX_LAUNCHES);
        self.call(move |control, reply| control.launches(app.as_deref(), limit, reply))
            .await
    }

    #[zbus(out_args("name"))]
    async fn ask(
        &self,
        app: &str,
        request: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<String, Fault> {
        let app = bounded(app)?;
        let request = request_of(request).ok_or_else(|| {
            Fault::Argument("wanted as request: learn, prefetch or disable".to_owned())
        })?;
        let action = Action::ManageApps;
        self.authority.check(connection, &call, action).await?;
        self.call(move |control, reply| reply(control.ask(&app, request)))
            .await
    }

    async fn forget(
        &self,
        app: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Fault> {
        let app = bounded(app)?;
        let action = Action::ManageApps;
        self.authority.check(connection, &call, action).await?;
        self.call(move |control, reply| reply(control.forget(&app)))
            .await
    }

    async fn set_mode(
        &self,
        mode: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<(), Fault> {
        let mode: Mode = mode
            .parse()
            .map_err(|_| Fault::Argument("wanted: manual or automatic".to_owned()))?;
        let action = Action::Configure;
        self.authority.check(connection, &call, action).await?;
        let before = self.current_mode().await?;
        self.call(move |control, reply| reply(control.set_mode(mode)))
            .await?;
        self.tell_mode(before, &emitter).await
    }

    async fn reload(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<(), Fault> {
        let action = Action::Configure;
        self.authority.check(connection, &call, action).await?;
        let before = self.current_mode().await?;
        self.call(|control, reply| reply(control.reload())).await?;
        self.tell_mode(before, &emitter).await
    }

    #[zbus(property)]
    async fn mode(&self) -> fdo::Result<String> {
        let mode = self.current_mode().await.map_err(|fault| {
            let text = fault.description().unwrap_or_default();
            fdo::Error::Failed(sendable(text).into())
        })?;
        Ok(mode.to_string())
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    #[zbus(signal)]
    pub async fn launch_begun(
        emitter: &SignalEmitter<'_>,
        app: &str,
        pid: u32,
        plan: &str,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    pub async fn launch_ended(
        emitter: &SignalEmitter<'_>,
        launch: LaunchRecord,
    ) -> zbus::Result<()>;
}

/// The name of an app, if it is not too long to be one.
fn bounded(app: &str) -> Result<String, Fault> {
    if (1..=MAX_ARGUMENT).contains(&app.len()) {
        return Ok(app.to_owned());
    }
    Err(Fault::Argument(format!(
        "wanted as app: 1 to {MAX_ARGUMENT} bytes"
    )))
}

/// Replaces the bytes that a D-Bus string cannot hold.
fn clean(lines: &mut [String]) {
    for line in lines.iter_mut().filter(|line| line.contains('\0')) {
        *line = sendable(line).into_owned();
    }
}
