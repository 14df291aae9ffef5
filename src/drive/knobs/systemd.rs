//! What the guard asks of the system's systemd, over the system bus. Each question is bounded in time: a bus or a
//! systemd that hangs costs the guard that time and no more.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};
use zbus::{Connection, Message};

use super::setting::UnitProperty;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// How long connecting and one exchange with systemd may take together. It answers in milliseconds, but not while it
/// reads all of its units again.
pub(super) const PATIENT: Duration = Duration::from_secs(5);

/// The same for who has other things to do, and can ask again. Before Linux 6.16 systemd itself reclaims what is above a
/// limit of memory, which takes some tenths of a second.
pub(super) const IMPATIENT: Duration = Duration::from_secs(1);

/// The bus on which systemd is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemBus {
    /// `None`: the system's.
    address: Option<String>,
    /// How long connecting and one exchange may take together.
    limit: Duration,
}

impl Default for SystemBus {
    fn default() -> Self {
        SystemBus {
            address: None,
            limit: PATIENT,
        }
    }
}

impl SystemBus {
    /// Another bus than the system's, by its address as of the D-Bus specification. The default is the system bus:
    /// what DBUS_SYSTEM_BUS_ADDRESS says, or else its well-known socket.
    pub fn at(address: &str) -> Self {
        SystemBus {
            address: Some(address.to_owned()),
            ..SystemBus::default()
        }
    }

    /// The same bus, with this limit of an exchange.
    pub(super) fn with_limit(self, limit: Duration) -> Self {
        SystemBus { limit, ..self }
    }

    /// What systemd says of a unit and a limit of it; `None` if there is no such unit.
    pub(super) fn look(
        &self,
        unit: &str,
        property: UnitProperty,
    ) -> Result<Option<UnitState>, String> {
        self.exchange(look(unit, property))
    }

    /// Sets a limit of a unit until the next boot.
    pub(super) fn set(&self, unit: &str, property: UnitProperty, value: u64) -> Result<(), String> {
        self.exchange(async |bus: &Connection| {
            let settings = vec![(property.name(), Value::U64(value))];
            let arguments = (unit, true, settings);
            let call = bus.call_method(
                Some(SYSTEMD),
                MANAGER_PATH,
                Some(MANAGER),
                "SetUnitProperties",
                &arguments,
            );
            call.await.map(drop)
        })
    }

    /// Connects, and has this exchange.
    fn exchange<T>(
        &self,
        exchange: impl AsyncFnOnce(&Connection) -> zbus::Result<T>,
    ) -> Result<T, String> {
        let runtime = runtime().map_err(|error| error.to_string())?;
        let whole = async {
            let builder = match &self.address {
                None => Builder::system()?,
                Some(address) => Builder::address(address.as_str())?,
            };
            exchange(&builder.build().await?).await
        };
        let answer = runtime.block_on(within(self.limit, whole));
        // A connect(2) that hangs must not be waited for.
        runtime.shutdown_background();
        answer
    }
}

/// A unit, as systemd knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitState {
    /// The limit that was asked for, in its own unit.
    pub value: u64,
    /// Names one run of the unit, in hexadecimal digits. Empty if systemd has none.
    pub invocation: String,
    /// Files that add to the unit's own.
    pub drop_ins: Vec<PathBuf>,
}

async fn within<T>(
    limit: Duration,
    whole: impl Future<Output = zbus::Result<T>>,
) -> Result<T, String> {
    match timeout(limit, whole).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "systemd has not answered for {} ms",
            limit.as_millis()
        )),
    }
}

fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
}

fn look(
    unit: &str,
    property: UnitProperty,
) -> impl AsyncFnOnce(&Connection) -> zbus::Result<Option<UnitState>> {
    async move |bus: &Connection| {
        let arguments = (unit,);
        let call = bus.call_method(
            Some(SYSTEMD),
            MANAGER_PATH,
            Some(MANAGER),
            "GetUnit",
            &arguments,
        );
        let path: OwnedObjectPath = match call.await {
            Err(zbus::Error::MethodError(name, ..)) if name == NO_SUCH_UNIT => return Ok(None),
            found => found?.body().deserialize()?,
        };
        let kind = match unit.rsplit_once('.') {
            Some((_, "scope")) => "org.freedesktop.systemd1.Scope",
            Some((_, "slice")) => "org.freedesktop.systemd1.Slice",
            _ => "org.freedesktop.systemd1.Service",
        };
        let value = get(bus, &path, kind, property.name()).await?;
        let invocation: Vec<u8> = get(bus, &path, UNIT, "InvocationID").await?.try_into()?;
        let drop_ins: Vec<String> = get(bus, &path, UNIT, "DropInPaths").await?.try_into()?;
        Ok(Some(UnitState {
            value: value.try_into()?,
            invocation: invocation
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            drop_ins: drop_ins.into_iter().map(PathBuf::from).collect(),
        }))
    }
}

async fn get(
    bus: &Connection,
    unit: &OwnedObjectPath,
    interface: &str,
    property: &str,
) -> zbus::Result<OwnedValue> {
    let arguments = (interface, property);
    let call = bus.call_method(Some(SYSTEMD), unit, Some(PROPERTIES), "Get", &arguments);
    let answer: Message = call.await?;
    answer.body().deserialize()
}
