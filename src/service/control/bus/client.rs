//! The command line's connection to the running service.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use zbus::export::futures_core::Stream;
use zbus::fdo::{self, DBusProxy};
use zbus::message::{self, Message};
use zbus::names::{BusName, WellKnownName};
use zbus::proxy::{self, CacheProperties, MethodFlags, Proxy};
use zbus::zvariant::{DynamicType, Type};
use zbus::{Connection, MatchRule, MessageStream};

use super::error::BusError;
use super::serve::runtime;
use super::{Address, EVERYBODY, NAME, PATH};
use crate::model::UserApp;
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::{
    Answer, AppState, ControlError, LaunchRecord, ProfileData, ServiceCalls, ServiceSignal, Status,
    word,
};
use crate::service::dictionary::of_word;

/// How long connecting to the bus may take, and how long the bus may take to tell whether the service runs.
pub(super) const CONNECT: Duration = Duration::from_secs(2);

/// How long the service may take to start.
const START: Duration = Duration::from_secs(25);

/// Calls that change nothing, and how long the service may take to answer.
const READ: (MethodFlags, Duration) = (MethodFlags::NoAutoStart, Duration::from_secs(25));

/// Changes, and how long they may take: the user may have to type a password.
const CHANGE: (MethodFlags, Duration) =
    (MethodFlags::AllowInteractiveAuth, Duration::from_secs(330));

/// Looking at what others have: the user may have to type a password.
const READ_OF_OTHERS: (MethodFlags, Duration) = CHANGE;

/// systemd's answer when the unit that the bus asks it to start is not enabled.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// A connection to the running service. Each call waits for its answer, for a bounded time. Errors are
/// the service's, or [`ControlError::Failed`] if the connection fails.
pub struct Client {
    runtime: Runtime,
    proxy: Proxy<'static>,
}

impl Client {
    /// Connects to the service if it is running; `None` where there is no bus or no service. Takes two
    /// seconds at most.
    pub fn connect(address: &Address) -> Result<Option<Self>, BusError> {
        Self::find(address, false)
    }

    /// Connects to the service, and starts it if the bus knows how, which takes half a minute at most; `None`
    /// also if the administrator has not enabled it.
    pub fn start(address: &Address) -> Result<Option<Self>, BusError> {
        Self::find(address, true)
    }

    fn find(address: &Address, start: bool) -> Result<Option<Self>, BusError> {
        let runtime = runtime()?;
        match runtime.block_on(find(address, start)) {
            Ok(Some(proxy)) => Ok(Some(Client { runtime, proxy })),
            nothing => {
                // A connect(2) that hangs must not be waited for.
                runtime.shutdown_background();
                match nothing {
                    Err(BusError::NoBus { .. }) | Ok(_) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The signals of launches and apps, from now on: of the caller's, or for root of all.
    pub fn signals(self) -> Answer<ServiceSignals> {
        let listening = within("the bus", CONNECT, listen(self.proxy.connection()));
        let (stream, owner) = self.runtime.block_on(listening)?;
        let () = self.call("Listen", READ, &())?;
        Ok(ServiceSignals {
            runtime: self.runtime,
            stream,
            owner,
            is_over: false,
        })
    }

    /// The service as a whole.
    pub fn status(&self) -> Answer<Status> {
        self.call("GetStatus", READ, &())
    }

    /// The profile of an app of this user or, `None`, of the first one who has one.
    pub fn profile(&self, user: Option<u32>, app: &str) -> Answer<ProfileData> {
        self.call(
            "GetProfile",
            looking_at(user),
            &(user.unwrap_or(EVERYBODY), app),
        )
    }

    /// Forgets an app of this user or, `None`, of all, its profiles and its launches.
    pub fn forget(&self, user: Option<u32>, app: &str) -> Answer<()> {
        self.call("Forget", CHANGE, &(user.unwrap_or(EVERYBODY), app))
    }

    /// Has the service read its configuration again.
    pub fn reload(&self) -> Answer<()> {
        self.call("Reload", CHANGE, &())
    }

    fn call<R: DeserializeOwned + Type>(
        &self,
        method: &str,
        (flags, limit): (MethodFlags, Duration),
        body: &(impl Serialize + DynamicType),
    ) -> Answer<R> {
        let answer = within("the service", limit, async {
            let answer = self.proxy.call_with_flags(method, flags.into(), body);
            let answer: Option<R> = answer.await?;
            answer.ok_or(BusError::Bus(zbus::Error::InvalidReply))
        });
        Ok(self.runtime.block_on(answer)?)
    }
}

impl ServiceCalls for Client {
    fn apps(&self, user: Option<u32>, app: Option<&str>) -> Answer<Vec<AppState>> {
        let arguments = (user.unwrap_or(EVERYBODY), app.unwrap_or_default());
        self.call("ListApps", looking_at(user), &arguments)
    }

    fn launches(
        &self,
        user: Option<u32>,
        app: Option<&str>,
        limit: u32,
    ) -> Answer<Vec<LaunchRecord>> {
        let arguments = (user.unwrap_or(EVERYBODY), app.unwrap_or_default(), limit);
        self.call("ListLaunches", looking_at(user), &arguments)
    }

    fn ask(&self, user: Option<u32>, app: &str, request: PhaseRequest) -> Answer<String> {
        let arguments = (user.unwrap_or(EVERYBODY), app, word(request));
        self.call("Ask", CHANGE, &arguments)
    }

    fn mode(&self) -> Answer<Mode> {
        let mode = self.status()?.mode;
        of_word(&mode).ok_or_else(|| ControlError::Failed(format!("unknown mode: {mode}")))
    }

    fn set_mode(&self, mode: Mode) -> Answer<()> {
        self.call("SetMode", CHANGE, &mode.to_string())
    }
}

/// How to call for what this user has; `None`: the caller, or for root all.
fn looking_at(user: Option<u32>) -> (MethodFlags, Duration) {
    let own = rustix::process::getuid();
    match user {
        Some(uid) if uid != own.as_raw() && !own.is_root() => READ_OF_OTHERS,
        _ => READ,
    }
}

/// The service on the bus; `None` if it does not run, and has not been started.
async fn find(address: &Address, start: bool) -> Result<Option<Proxy<'static>>, BusError> {
    let connection = address.connect(address.builder()?, CONNECT).await?;
    let bus = DBusProxy::new(&connection).await?;
    let name = WellKnownName::from_static_str_unchecked(NAME);
    let found = async {
        let found = bus.name_has_owner(name.clone().into()).await;
        Ok(found.map_err(zbus::Error::from)?)
    };
    let mut is_running = within("the bus", CONNECT, found).await?;
    if start && !is_running {
        let started = async { Ok(bus.start_service_by_name(name, 0).await) };
        is_running = match within("the bus", START, started).await? {
            Ok(_) => true,
            Err(fdo::Error::ServiceUnknown(_)) => false,
            Err(fdo::Error::ZBus(zbus::Error::MethodError(name, ..))) if name == NO_SUCH_UNIT => {
                false
            }
            Err(error) => return Err(BusError::NotStarted(error.to_string())),
        };
    }
    if !is_running {
        return Ok(None);
    }
    let proxy = proxy::Builder::new(&connection)
        .destination(NAME)?
        .path(PATH)?
        .interface(NAME)?
        .cache_properties(CacheProperties::No);
    Ok(Some(proxy.build().await?))
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

/// The launches and changes that the service signals. The last item is [`BusError::Gone`], when the service stops.
pub struct ServiceSignals {
    runtime: Runtime,
    stream: MessageStream,
    /// The service's unique name: any program can send signals of the same interface.
    owner: String,
    is_over: bool,
}

/// Asks the bus for the change of the service's owner. Returns the owner, and the stream in which the service's
/// signals arrive, too.
async fn listen(connection: &Connection) -> Result<(MessageStream, String), BusError> {
    let stream = MessageStream::from(connection);
    let bus = DBusProxy::new(connection).await?;
    let end = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .sender("org.freedesktop.DBus")?
        .member("NameOwnerChanged")?
        .arg(0, NAME)?
        .build();
    bus.add_match_rule(end).await.map_err(zbus::Error::from)?;
    // After the rule, so that the service cannot end unnoticed.
    let name = BusName::from(WellKnownName::from_static_str_unchecked(NAME));
    let owner = bus.get_name_owner(name).await;
    let owner = owner.map_err(|_| BusError::Gone)?.to_string();
    Ok((stream, owner))
}

impl ServiceSignals {
    /// What a message signals; `None` if it is another message.
    fn signal(&self, message: &Message) -> Option<Result<ServiceSignal, BusError>> {
        let header = message.header();
        if header.message_type() != message::Type::Signal {
            return None;
        }
        let sender = header.sender()?.as_str();
        let member = header.member()?.as_str();
        if sender == "org.freedesktop.DBus" && member == "NameOwnerChanged" {
            let (name, _, new): (String, String, String) = message.body().deserialize().ok()?;
            return (name == NAME && new != self.owner).then_some(Err(BusError::Gone));
        }
        if sender != self.owner || header.interface()?.as_str() != NAME {
            return None;
        }
        let body = message.body();
        let signal = match member {
            "LaunchBegun" => body
                .deserialize::<(String, u32, u32, String)>()
                // A later version of the service may have plans that this one does not know.
                .map(|(id, uid, pid, plan)| {
                    let (app, plan) = (UserApp { uid, id }, of_word(&plan)?);
                    Some(ServiceSignal::Begun { app, pid, plan })
                }),
            "LaunchEnded" => body.deserialize().map(ServiceSignal::Ended).map(Some),
            "AppChanged" => body.deserialize().map(ServiceSignal::AppChanged).map(Some),
            _ => return None,
        };
        signal.map_err(BusError::from).transpose()
    }
}

impl Iterator for ServiceSignals {
    type Item = Result<ServiceSignal, BusError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let signal = loop {
            let stream = &mut self.stream;
            let next = poll_fn(|context| Pin::new(&mut *stream).poll_next(context));
            match self.runtime.block_on(next) {
                None | Some(Err(_)) => break Err(BusError::Gone),
                Some(Ok(message)) => {
                    if let Some(signal) = self.signal(&message) {
                        break signal;
                    }
                }
            }
        };
        self.is_over = matches!(signal, Err(BusError::Gone));
        Some(signal)
    }
}
