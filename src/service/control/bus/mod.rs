//! The service on D-Bus, and the command line's connection to it.
//!
//! The service owns [`NAME`] on the system bus and shows one object at [`PATH`] with the interface
//! of the same name. A user sees and steers his own apps and launches. Those of others, the mode and the
//! configuration are root's; any other caller needs polkit's consent ([`Action`]), and where there is no polkit, only
//! root may. To a user, the apps of others are as unknown as those that there are not.
//!
//! How often each user may call is bounded, but for root.
//!
//! The first argument of the calls about apps, `user`, says whose they are; [`EVERYBODY`]: everybody's.
//!
//! | member | signature | what it does |
//! |---|---|---|
//! | `GetStatus` | → `a{sv}` | the service as a whole ([`Status`](super::Status)), with numbers of the caller's apps, or for root of all |
//! | `ListApps` | `us` → `aa{sv}` | managed apps ([`AppState`](super::AppState)): those of a name, or all for "" |
//! | `ListLaunches` | `usu` → `aa{sv}` | the newest launches ([`LaunchRecord`](super::LaunchRecord)) of an app, or of all for "" |
//! | `GetProfile` | `us` → `a{sv}` | the profile of an app ([`ProfileData`](super::ProfileData)), of the first user of them who has one |
//! | `Ask` | `uss` → `s` | learn, prefetch or disable an app; its name |
//! | `Forget` | `us` | forget an app, its profile and its launches |
//! | `Listen` | | have the signals of launches and apps sent to this connection: the caller's, or for root all |
//! | `SetMode` | `s` | manual or automatic (configure) |
//! | `Reload` | | read the configuration again (configure) |
//! | `Mode`, `Version` | `s` | properties |
//! | `LaunchBegun` | `suus` | signal: app, user id, process id, what is done with the launch |
//! | `LaunchEnded` | `a{sv}` | signal: a [`LaunchRecord`](super::LaunchRecord) |
//! | `AppChanged` | `a{sv}` | signal: an [`AppChange`](super::AppChange) |
//!
//! The properties are the same for all callers, so none has figures of apps and launches. What was saved is a member of
//! the status (`saved_us`) and of apps (`cold_with_us`, `cold_without_us`): to be asked for when a launch has ended.
//!
//! `AppChanged` is sent when an app is added, removed, has another phase or another profile. Of several changes of one
//! app while the bus is busy, the last one is sent; of one user's apps, at most 32 changes a second.
//!
//! Structures travel as dictionaries, so that later versions can add members: an unknown number has
//! no member at all, and readers skip members that they do not know.

mod authority;
mod client;
mod error;
mod interface;
mod listeners;
mod serve;
mod wait;

use std::io;
use std::time::Duration;

use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::Builder;

pub use authority::Action;
pub use client::{Client, ServiceSignals};
pub use error::BusError;
pub use serve::{Bus, serve};
pub use wait::wait_for_service;

/// The service's name on the bus, and its interface's.
pub const NAME: &str = "org.paralfetch.Paralfetch1";

/// The path of the service's only object.
pub const PATH: &str = "/org/paralfetch/Paralfetch1";

/// As an argument: the apps and launches of all users. No user has this id.
pub const EVERYBODY: u32 = u32::MAX;

/// Longest argument that the service takes, in bytes: PATH_MAX of the kernel.
pub const MAX_ARGUMENT: usize = 4096;

/// Most launches that one call returns.
pub const MAX_LAUNCHES: u32 = 1000;

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
    fn builder(&self) -> zbus::Result<Builder<'_>> {
        match self {
            Address::System => Builder::system(),
            Address::At(address) => Builder::address(address.as_str()),
        }
    }

    /// Connects within `limit`.
    async fn connect(&self, builder: Builder<'_>, limit: Duration) -> Result<Connection, BusError> {
        let what = "the bus";
        match timeout(limit, builder.build()).await {
            Err(_) => Err(BusError::Silent { what, limit }),
            Ok(Err(zbus::Error::InputOutput(error) | zbus::Error::Connection(error, _))) => {
                Err(BusError::NoBus {
                    address: match self {
                        Address::System => "the system bus's address".to_owned(),
                        Address::At(address) => address.clone(),
                    },
                    error: io::Error::new(error.kind(), error.to_string()),
                })
            }
            Ok(connection) => Ok(connection?),
        }
    }
}
