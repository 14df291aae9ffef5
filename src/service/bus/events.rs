//! Launches as they happen, for `watch`.

use std::future::poll_fn;
use std::pin::Pin;

use tokio::runtime::Runtime;
use zbus::export::futures_core::Stream;
use zbus::fdo::DBusProxy;
use zbus::message::{Message, Type};
use zbus::names::BusName;
use zbus::{Connection, MatchRule, MessageStream};

use super::NAME;
use super::error::BusError;
use super::types::{Event, plan_of};

/// Launches, as the service tells of them. [`BusError::Gone`] ends it when the service stops.
pub struct Events {
    runtime: Runtime,
    stream: MessageStream,
    /// The service's unique name: others can send us signals, too.
    owner: String,
    over: bool,
}

impl Events {
    /// Asks the bus for the service's signals, and for its end.
    pub(super) async fn listen(
        connection: Connection,
    ) -> Result<(MessageStream, String), BusError> {
        let stream = MessageStream::from(&connection);
        let bus = DBusProxy::new(&connection).await?;
        let launches = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(NAME)?
            .interface(NAME)?
            .build();
        let end = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender("org.freedesktop.DBus")?
            .member("NameOwnerChanged")?
            .arg(0, NAME)?
            .build();
        let ask = async |rule| bus.add_match_rule(rule).await.map_err(zbus::Error::from);
        ask(end).await?;
        // After that rule: from here on its end is not missed.
        let name = BusName::from_static_str(NAME).map_err(zbus::Error::from)?;
        let owner = bus.get_name_owner(name).await;
        let owner = owner.map_err(|_| BusError::Gone)?.to_string();
        // Last: a flood of signals fills the stream, which nobody reads yet, and then nothing else is
        // received.
        ask(launches).await?;
        Ok((stream, owner))
    }

    pub(super) fn over(runtime: Runtime, stream: MessageStream, owner: String) -> Self {
        Events {
            runtime,
            stream,
            owner,
            over: false,
        }
    }

    /// What a message says; `None` if it is none of ours.
    fn event(&self, message: &Message) -> Option<Result<Event, BusError>> {
        let header = message.header();
        if header.message_type() != Type::Signal {
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
        let read = match member {
            "LaunchBegun" => message.body().deserialize().map(|(app, pid, plan)| {
                let plan: String = plan;
                plan_of(&plan).map(|plan| Event::Begun { app, pid, plan })
            }),
            "LaunchEnded" => message
                .body()
                .deserialize()
                .map(|launch| Some(Event::Ended(launch))),
            _ => return None,
        };
        // Signals of a later version may say what we do not know.
        read.map_err(BusError::from).transpose()
    }
}

impl Iterator for Events {
    type Item = Result<Event, BusError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let event = loop {
            let stream = &mut self.stream;
            let next = poll_fn(|context| Pin::new(&mut *stream).poll_next(context));
            match self.runtime.block_on(next) {
                None | Some(Err(_)) => break Err(BusError::Gone),
                Some(Ok(message)) => {
                    if let Some(event) = self.event(&message) {
                        break event;
                    }
                }
            }
        };
        self.over = matches!(event, Err(BusError::Gone));
        Some(event)
    }
}
