//! The connections that have asked for signals. Launches and apps are told to their user and to root alone, so
//! their signals are not broadcast: each listener gets one of its own.

use std::collections::HashMap;

use zbus::Connection;
use zbus::fdo::{self, DBusProxy};
use zbus::names::{BusName, UniqueName};

/// Most connections of one user that listen.
const MOST_OF_A_USER: usize = 16;

/// The users of the listening connections, by their unique names. The bus never uses such a name again.
#[derive(Default)]
pub(super) struct Listeners(HashMap<String, u32>);

impl Listeners {
    /// Adds a connection of this user. False if too many of his listen already.
    pub async fn add(&mut self, connection: &Connection, name: String, uid: u32) -> bool {
        if self.count_of(uid) >= MOST_OF_A_USER {
            // Without a bus nobody is told whether there is room.
            let _ = self.remove_gone(connection).await;
        }
        let has_room = self.count_of(uid) < MOST_OF_A_USER || self.0.contains_key(&name);
        if has_room {
            self.0.insert(name, uid);
        }
        has_room
    }

    fn count_of(&self, uid: u32) -> usize {
        self.0.values().filter(|of| **of == uid).count()
    }

    /// The names of the connections that get the signals of this user's launches and apps. Forgets connections that have left the bus.
    ///
    /// # Errors
    /// When the connection to the bus is broken.
    pub async fn of_user(
        &mut self,
        connection: &Connection,
        uid: u32,
    ) -> zbus::Result<Vec<UniqueName<'static>>> {
        self.remove_gone(connection).await?;
        let may_know = self.0.iter().filter(|(_, of)| [0, uid].contains(*of));
        Ok(may_know
            .filter_map(|(name, _)| UniqueName::try_from(name.clone()).ok())
            .collect())
    }

    async fn remove_gone(&mut self, connection: &Connection) -> zbus::Result<()> {
        let bus = DBusProxy::new(connection).await?;
        for name in self.0.keys().cloned().collect::<Vec<_>>() {
            let has_owner = match BusName::try_from(name.clone()) {
                Ok(unique) => match bus.name_has_owner(unique).await {
                    // A broken connection says nothing about who has left.
                    Err(fdo::Error::ZBus(error)) => return Err(error),
                    answer => answer.unwrap_or(false),
                },
                Err(_) => false,
            };
            if !has_owner {
                self.0.remove(&name);
            }
        }
        Ok(())
    }
}
