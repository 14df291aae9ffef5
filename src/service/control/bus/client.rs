//! The command line's connection to the running service.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use zbus::Connection;
use zbus::fdo::{self, DBusProxy};
use zbus::names::{BusName, WellKnownName};
use zbus::proxy::{self, CacheProperties, MethodFlags, Proxy};
use zbus::zvariant::{DynamicType, Type};

use super::address::Address;
use super::error::{BusError, error_of};
use super::serve::runtime;
use super::signals::LaunchSignals;
use super::{NAME, PATH};
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::{Answer, AppState, ControlError, LaunchRecord, Status, request_word};

/// How long the bus may take to tell whether the service runs.
const CONNECT: Duration = Duration::from_secs(2);

/// How long the service may take to start.
const START: Duration = Duration::from_secs(25);

/// How long the service may take to answer.
const READ: Duration = Duration::from_secs(25);

/// How long a change may take: the user may have to type a password.
const CHANGE: Duration = Duration::from_secs(330);

/// systemd's answer when the unit that the bus asks it to start is not enabled.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// A connection to the running service. Each call waits for its answer, for a bounded time. Errors are
/// the service's, or [`ControlError::Failed`] if the connection fails.
pub struct Client {
    runtime: Runtime,
    proxy: Proxy<'static>,
}

impl Client {
    /// Connects to the service on the system bus if it is running; `None` where there is no bus or no
    /// service. Takes two seconds at most.
    ///
    /// # Errors
    /// When the bus cannot be used or does not answer.
    pub fn connect() -> Result<Option<Self>, BusError> {
        Self::connect_to(&Address::System)
    }

    /// The same, and starts the service if the bus knows how, which takes half a minute at most; `None`
    /// also if the administrator has not enabled it.
    ///
    /// # Errors
    /// The same, and [`BusError::NotStarted`].
    pub fn start() -> Result<Option<Self>, BusError> {
        Self::start_at(&Address::System)
    }

    /// [`Client::connect`] on another bus.
    ///
    /// # Errors
    /// The same.
    pub fn connect_to(address: &Address) -> Result<Option<Self>, BusError> {
        Ok(match Self::find(address)? {
            Found::Running(client) => Some(client),
            Found::Activatable(..) | Found::Nothing => None,
        })
    }

    /// [`Client::start`] on another bus.
    ///
    /// # Errors
    /// The same.
    pub fn start_at(address: &Address) -> Result<Option<Self>, BusError> {
        let (runtime, connection) = match Self::find(address)? {
            Found::Running(client) => return Ok(Some(client)),
            Found::Nothing => return Ok(None),
            Found::Activatable(runtime, connection) => (runtime, connection),
        };
        let started = runtime.block_on(within("the bus", START, async {
            let name = WellKnownName::from_static_str_unchecked(NAME);
            let bus = DBusProxy::new(&connection).await?;
            Ok(bus.start_service_by_name(name, 0).await)
        }))?;
        match started {
            Ok(_) => Self::new(runtime, connection).map(Some),
            Err(fdo::Error::ZBus(zbus::Error::MethodError(name, ..))) if name == NO_SUCH_UNIT => {
                Ok(None)
            }
            Err(error) => Err(BusError::NotStarted(error.to_string())),
        }
    }

    fn find(address: &Address) -> Result<Found, BusError> {
        let runtime = runtime()?;
        let looked = runtime.block_on(within("the bus", CONNECT, async {
            let connection = address.connect(address.builder()?, CONNECT).await?;
            let bus = DBusProxy::new(&connection).await?;
            let name = BusName::from_static_str(NAME).map_err(zbus::Error::from)?;
            let has_owner = bus.name_has_owner(name).await.map_err(zbus::Error::from)?;
            let activatable = !has_owner && {
                let names = bus.list_activatable_names().await;
                let names = names.map_err(zbus::Error::from)?;
                names.iter().any(|name| name.as_str() == NAME)
            };
            Ok((connection, has_owner, activatable))
        }));
        match looked {
            Err(error) => {
                // A connect(2) that hangs must not be waited for.
                runtime.shutdown_background();
                match error {
                    BusError::NoBus { .. } => Ok(Found::Nothing),
                    error => Err(error),
                }
            }
            Ok((connection, true, _)) => Self::new(runtime, connection).map(Found::Running),
            Ok((connection, false, true)) => Ok(Found::Activatable(runtime, connection)),
            Ok((_, false, false)) => Ok(Found::Nothing),
        }
    }

    fn new(runtime: Runtime, connection: Connection) -> Result<Self, BusError> {
        let proxy = runtime.block_on(
            proxy::Builder::new(&connection)
                .destination(NAME)?
                .path(PATH)?
                .interface(NAME)?
                .cache_properties(CacheProperties::No)
                .build(),
        )?;
        Ok(Client { runtime, proxy })
    }

    /// The signals of launches, from now on.
    ///
    /// # Errors
    /// When the bus does not answer, or the service has stopped.
    pub fn signals(self) -> Result<LaunchSignals, BusError> {
        let connection = self.proxy.connection().clone();
        let listening = within("the bus", CONNECT, LaunchSignals::listen(connection));
        let (stream, owner) = self.runtime.block_on(listening)?;
        Ok(LaunchSignals::new(self.runtime, stream, owner))
    }

    /// The service as a whole.
    ///
    /// # Errors
    /// As all calls.
    pub fn status(&self) -> Answer<Status> {
        self.read("GetStatus", &())
    }

    /// All managed apps.
    ///
    /// # Errors
    /// As all calls.
    pub fn apps(&self) -> Answer<Vec<AppState>> {
        self.read("ListApps", &())
    }

    /// One managed app, by its path, command, .desktop entry or name.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] when it is not managed.
    pub fn app(&self, app: &str) -> Answer<AppState> {
        self.read("GetApp", &app)
    }

    /// The newest launches of an app, or of all apps, newest first, at most `limit` of them.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] when the app is not managed.
    pub fn launches(&self, app: Option<&str>, limit: u32) -> Answer<Vec<LaunchRecord>> {
        self.read("ListLaunches", &(app.unwrap_or_default(), limit))
    }

    /// Learns, prefetches or disables an app from its next launch on. Returns the app's id.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] when there is no such app, [`ControlError::Refused`] when it cannot be
    /// managed or the user may not do this.
    pub fn ask(&self, app: &str, request: PhaseRequest) -> Answer<String> {
        self.change("Ask", &(app, request_word(request)))
    }

    /// Forgets an app, its profile and its launches.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] when it is not managed, [`ControlError::Refused`] when the user may not
    /// do this.
    pub fn forget(&self, app: &str) -> Answer<()> {
        self.change("Forget", &app)
    }

    /// The mode in force.
    ///
    /// # Errors
    /// As all calls.
    pub fn mode(&self) -> Answer<Mode> {
        let mode = within("the service", READ, async {
            Ok(self.proxy.get_property::<String>("Mode").await?)
        });
        let mode = self.runtime.block_on(mode).map_err(error_of)?;
        mode.parse().map_err(ControlError::failed)
    }

    /// Sets the mode for good.
    ///
    /// # Errors
    /// [`ControlError::Refused`] when the user may not do this.
    pub fn set_mode(&self, mode: Mode) -> Answer<()> {
        self.change("SetMode", &mode.to_string())
    }

    /// Has the service read its configuration again.
    ///
    /// # Errors
    /// [`ControlError::Refused`] when the configuration is wrong, or the user may not do this.
    pub fn reload(&self) -> Answer<()> {
        self.change("Reload", &())
    }

    fn read<R>(&self, method: &str, body: &(impl Serialize + DynamicType)) -> Answer<R>
    where
        R: DeserializeOwned + Type,
    {
        self.call(method, MethodFlags::NoAutoStart, READ, body)
    }

    fn change<R>(&self, method: &str, body: &(impl Serialize + DynamicType)) -> Answer<R>
    where
        R: DeserializeOwned + Type,
    {
        self.call(method, MethodFlags::AllowInteractiveAuth, CHANGE, body)
    }

    fn call<R>(
        &self,
        method: &str,
        flags: MethodFlags,
        limit: Duration,
        body: &(impl Serialize + DynamicType),
    ) -> Answer<R>
    where
        R: DeserializeOwned + Type,
    {
        let answer = within("the service", limit, async {
            let answer = self.proxy.call_with_flags(method, flags.into(), body);
            let answer: Option<R> = answer.await?;
            answer.ok_or(BusError::Bus(zbus::Error::InvalidReply))
        });
        self.runtime.block_on(answer).map_err(error_of)
    }
}

enum Found {
    Running(Client),
    /// It does not run, but the bus can start it.
    Activatable(Runtime, Connection),
    Nothing,
}

/// Waits at most this long.
async fn within<T>(
    what: &'static str,
    limit: Duration,
    future: impl Future<Output = Result<T, BusError>>,
) -> Result<T, BusError> {
    timeout(limit, future)
        .await
        .unwrap_or(Err(BusError::Silent { what, limit }))
}
