//! The bus to connect to.

use std::time::Duration;

use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::Builder;

use super::error::BusError;

/// Which bus to connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// The system bus: what DBUS_SYSTEM_BUS_ADDRESS says, or else
    /// `unix:path=/var/run/dbus/system_bus_socket`.
    #[default]
    System,
    /// An address as of the D-Bus specification.
    At(String),
}

impl Address {
    /// A connection to be configured.
    pub(super) fn builder(&self) -> Result<Builder<'_>, BusError> {
        Ok(match self {
            Address::System => Builder::system()?,
            Address::At(address) => Builder::address(address.as_str())?,
        })
    }

    /// Connects within `limit`.
    pub(super) async fn connect(
        &self,
        builder: Builder<'_>,
        limit: Duration,
    ) -> Result<Connection, BusError> {
        let silent = BusError::Silent {
            what: "the bus",
            limit,
        };
        match timeout(limit, builder.build()).await {
            Err(_) => Err(silent),
            Ok(Err(zbus::Error::InputOutput(error) | zbus::Error::Connection(error, _))) => {
                Err(BusError::NoBus {
                    address: match self {
                        Address::System => "the system bus's address".to_owned(),
                        Address::At(address) => address.clone(),
                    },
                    error: std::io::Error::new(error.kind(), error.to_string()),
                })
            }
            Ok(connection) => Ok(connection?),
        }
    }
}
