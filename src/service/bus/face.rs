//! The object on the bus.

use std::sync::Arc;

use tokio::sync::watch;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, DBusError, fdo, interface};

use super::authority::{Action, Authority};
use super::backend::{Backend, BackendError};
use super::error::{Fault, sendable};
use super::types::{AppState, LaunchRecord, Mode, Status, request_of};
use super::{MAX_ARGUMENT, MAX_LAUNCHES};

/// Passes calls on to the backend once their arguments and callers are found to be good.
pub(super) struct Face {
    backend: Arc<dyn Backend>,
    authority: Authority,
    serving: watch::Receiver<bool>,
}

impl Face {
    /// The backend is called once `serving` is true.
    pub fn new(backend: Arc<dyn Backend>, serving: watch::Receiver<bool>) -> Self {
        Face {
            backend,
            authority: Authority::new(),
            serving,
        }
    }

    /// Waits until there is somebody who answers: the backend, which blocks the bus's only thread, is
    /// not to keep it from getting that far. Calls may come as soon as the service has its name.
    async fn backend(&self) -> Result<&dyn Backend, Fault> {
        let mut serving = self.serving.clone();
        match serving.wait_for(|serving| *serving).await {
            Ok(_) => Ok(&*self.backend),
            Err(_) => Err(Fault::Backend(BackendError::Failed(
                "the service does not start".to_owned(),
            ))),
        }
    }
}

// No method takes `&mut self`: one that waits for a password must not hold up the others.
#[interface(name = "org.paralfetch.Paralfetch1", introspection_docs = false)]
impl Face {
    #[zbus(out_args("status"))]
    async fn get_status(&self) -> Result<Status, Fault> {
        let mut status = self.backend().await?.status()?;
        clean(&mut status.abilities);
        clean(&mut status.warnings);
        Ok(status)
    }

    #[zbus(out_args("apps"))]
    async fn list_apps(&self) -> Result<Vec<AppState>, Fault> {
        Ok(self.backend().await?.apps()?)
    }

    #[zbus(out_args("state"))]
    async fn get_app(&self, app: &str) -> Result<AppState, Fault> {
        bounded(app)?;
        Ok(self.backend().await?.app(app)?)
    }

    #[zbus(out_args("launches"))]
    async fn list_launches(&self, app: &str, limit: u32) -> Result<Vec<LaunchRecord>, Fault> {
        if !app.is_empty() {
            bounded(app)?;
        }
        let app = Some(app).filter(|app| !app.is_empty());
        Ok(self
            .backend()
            .await?
            .launches(app, limit.min(MAX_LAUNCHES))?)
    }

    #[zbus(out_args("name"))]
    async fn ask(
        &self,
        app: &str,
        request: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<String, Fault> {
        bounded(app)?;
        let request = request_of(request).ok_or_else(|| {
            Fault::Argument("wanted as request: learn, prefetch or disable".to_owned())
        })?;
        let action = Action::ManageApps;
        self.authority.check(connection, &call, action).await?;
        Ok(self.backend().await?.ask(app, request)?)
    }

    async fn forget(
        &self,
        app: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Fault> {
        bounded(app)?;
        let action = Action::ManageApps;
        self.authority.check(connection, &call, action).await?;
        Ok(self.backend().await?.forget(app)?)
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
            .map_err(|error: BackendError| Fault::Argument(error.to_string()))?;
        let action = Action::Configure;
        self.authority.check(connection, &call, action).await?;
        let before = self.backend().await?.mode()?;
        self.backend().await?.set_mode(mode)?;
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
        let before = self.backend().await?.mode()?;
        self.backend().await?.reload()?;
        self.tell_mode(before, &emitter).await
    }

    #[zbus(property)]
    async fn mode(&self) -> fdo::Result<String> {
        let failed = |text: &str| fdo::Error::Failed(sendable(text).into());
        let backend = self.backend().await;
        let backend = backend.map_err(|fault| failed(fault.description().unwrap_or_default()))?;
        let mode = backend.mode().map_err(|error| failed(&error.to_string()))?;
        Ok(mode.word().to_owned())
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

impl Face {
    async fn tell_mode(&self, before: Mode, emitter: &SignalEmitter<'_>) -> Result<(), Fault> {
        if self.backend().await?.mode()? != before {
            self.mode_changed(emitter).await.map_err(|error| {
                Fault::Backend(BackendError::Failed(format!(
                    "the mode was set, but nobody told: {error}"
                )))
            })?;
        }
        Ok(())
    }
}

/// Refuses an app that is none.
fn bounded(app: &str) -> Result<(), Fault> {
    if (1..=MAX_ARGUMENT).contains(&app.len()) {
        return Ok(());
    }
    Err(Fault::Argument(format!(
        "wanted as app: 1 to {MAX_ARGUMENT} bytes"
    )))
}

/// What no D-Bus string can hold is replaced.
fn clean(lines: &mut [String]) {
    for line in lines.iter_mut().filter(|line| line.contains('\0')) {
        *line = sendable(line).into_owned();
    }
}
