//! The running service, as its clients see it.

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
use super::backend::{Backend, BackendError};
use super::error::{BusError, answer_of};
use super::events::Events;
use super::serve::runtime;
use super::types::{AppState, LaunchRecord, Mode, Status, request_word};
use super::{NAME, PATH};
use crate::policy::PhaseRequest;

/// How long it may take to find out whether the service runs.
const CONNECT: Duration = Duration::from_secs(2);

/// How long it may take to start.
const START: Duration = Duration::from_secs(25);

/// How long it may take to answer.
const READ: Duration = Duration::from_secs(25);

/// How long it may take to change something: the user may have to type a password.
const CHANGE: Duration = Duration::from_secs(330);

/// systemd's answer when the unit that the bus asks it to start is not enabled.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// A connection to the running service. All calls wait for the answer, for a bounded time.
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
                // Does not wait for a connect(2) that hangs.
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

    /// Launches as they begin and end, from now on.
    ///
    /// # Errors
    /// When the bus does not answer, or the service has stopped.
    pub fn events(self) -> Result<Events, BusError> {
        let connection = self.proxy.connection().clone();
        let events = within("the bus", CONNECT, Events::listen(connection));
        let (stream, owner) = self.runtime.block_on(events)?;
        Ok(Events::over(self.runtime, stream, owner))
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
        self.runtime.block_on(answer).map_err(answer_of)
    }
}

type Answer<T> = Result<T, BackendError>;

enum Found {
    Running(Client),
    /// Not running, and the bus can start it.
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

impl Backend for Client {
    fn status(&self) -> Answer<Status> {
        self.read("GetStatus", &())
    }

    fn apps(&self) -> Answer<Vec<AppState>> {
        self.read("ListApps", &())
    }

    fn app(&self, app: &str) -> Answer<AppState> {
        self.read("GetApp", &app)
    }

    fn launches(&self, app: Option<&str>, limit: u32) -> Answer<Vec<LaunchRecord>> {
        self.read("ListLaunches", &(app.unwrap_or_default(), limit))
    }

    fn ask(&self, app: &str, request: PhaseRequest) -> Answer<String> {
        self.change("Ask", &(app, request_word(request)))
    }

    fn forget(&self, app: &str) -> Answer<()> {
        self.change("Forget", &app)
    }

    fn mode(&self) -> Answer<Mode> {
        let mode = within("the service", READ, async {
            Ok(self.proxy.get_property::<String>("Mode").await?)
        });
        self.runtime.block_on(mode).map_err(answer_of)?.parse()
    }

    fn set_mode(&self, mode: Mode) -> Answer<()> {
        self.change("SetMode", &mode.word())
    }

    fn reload(&self) -> Answer<()> {
        self.change("Reload", &())
    }
}
