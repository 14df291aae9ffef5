//! The object on the bus: it checks arguments and callers, and passes calls on to the event loop.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, fdo, interface};

use super::authority::{Action, MOST_QUESTIONS, authorize};
use super::error::{ARGUMENT, sendable};
use super::{MAX_ARGUMENT, MAX_LAUNCHES};
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::{
    Answer, AppState, Control, ControlError, LaunchRecord, Post, Reply, Status,
};
use crate::service::dictionary::of_word;

/// How long an answer may take. The event loop answers in well under a millisecond; the worker, which
/// reads the history, may have other work before.
const ANSWER: Duration = Duration::from_secs(10);

/// The interface [`super::NAME`].
pub(super) struct Interface {
    post: Post,
    /// Callers that polkit is asked about.
    questions: Semaphore,
}

impl Interface {
    /// Passes calls on by `post`.
    pub fn new(post: Post) -> Self {
        Interface {
            post,
            questions: Semaphore::new(MOST_QUESTIONS),
        }
    }

    /// Has a call answered by the thread that the service's state belongs to.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Control, Reply<T>) + Send + 'static,
    ) -> Answer<T> {
        let (sender, answer) = oneshot::channel();
        let reply: Reply<T> = Box::new(move |answer| {
            // The receiver is gone if the answer took too long.
            let _ = sender.send(answer);
        });
        let is_posted = (self.post)(Box::new(move |control| call(control, reply)));
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
    async fn get_status(&self) -> Result<Status, ControlError> {
        let mut status = self
            .call(|control, reply| reply(Ok(control.status())))
            .await?;
        for line in status.abilities.iter_mut().chain(&mut status.warnings) {
            *line = sendable(line);
        }
        Ok(status)
    }

    #[zbus(out_args("apps"))]
    async fn list_apps(&self) -> Result<Vec<AppState>, ControlError> {
        self.call(|control, reply| control.apps(None, None, reply))
            .await
    }

    #[zbus(out_args("state"))]
    async fn get_app(&self, app: &str) -> Result<AppState, ControlError> {
        let app = bounded(app)?;
        let mut found = self
            .call(move |control, reply| control.apps(None, Some(&app), reply))
            .await?;
        let failed = || ControlError::Failed("the app was forgotten".to_owned());
        found.pop().ok_or_else(failed)
    }

    #[zbus(out_args("launches"))]
    async fn list_launches(
        &self,
        app: &str,
        limit: u32,
    ) -> Result<Vec<LaunchRecord>, ControlError> {
        let app = match app {
            "" => None,
            app => Some(bounded(app)?),
        };
        let limit = limit.min(MAX_LAUNCHES);
        self.call(move |control, reply| control.launches(None, app.as_deref(), limit, reply))
            .await
    }

    #[zbus(out_args("name"))]
    async fn ask(
        &self,
        app: &str,
        request: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<String, ControlError> {
        let app = bounded(app)?;
        let request: PhaseRequest = parsed(request, "request: learn, prefetch or disable")?;
        authorize(&self.questions, connection, &call, Action::ManageApps).await?;
        self.call(move |control, reply| reply(control.ask(None, &app, request)))
            .await
    }

    async fn forget(
        &self,
        app: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        let app = bounded(app)?;
        authorize(&self.questions, connection, &call, Action::ManageApps).await?;
        self.call(move |control, reply| reply(control.forget(None, &app)))
            .await
    }

    async fn set_mode(
        &self,
        mode: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        let mode: Mode = parsed(mode, "mode: manual or automatic")?;
        authorize(&self.questions, connection, &call, Action::Configure).await?;
        self.call(move |control, reply| reply(control.set_mode(mode)))
            .await
    }

    async fn reload(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), ControlError> {
        authorize(&self.questions, connection, &call, Action::Configure).await?;
        self.call(|control, reply| reply(control.reload())).await
    }

    #[zbus(property)]
    async fn mode(&self) -> fdo::Result<String> {
        let mode = self.call(|control, reply| reply(Ok(control.mode()))).await;
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
}

/// The name of an app, if it is not too long to be one.
fn bounded(app: &str) -> Answer<String> {
    if (1..=MAX_ARGUMENT).contains(&app.len()) {
        return Ok(app.to_owned());
    }
    let wanted = format!("wanted as app: 1 to {MAX_ARGUMENT} bytes");
    Err(ControlError::Call(ARGUMENT, wanted))
}

/// The value that a word stands for; `wanted` says which words there are.
fn parsed<T: DeserializeOwned>(word: &str, wanted: &str) -> Answer<T> {
    let wrong = || ControlError::Call(ARGUMENT, format!("wanted as {wanted}"));
    of_word(word).ok_or_else(wrong)
}
