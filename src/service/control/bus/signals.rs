//! The service's signals, for `watch`.

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
use crate::service::control::LaunchSignal;
use crate::service::control::types::plan_of;

/// The launches that the service signals. The last item is [`BusError::Gone`], when the service stops.
pub struct LaunchSignals {
    runtime: Runtime,
    stream: MessageStream,
    /// The service's unique name: any program can send signals of the same interface.
    owner: String,
    is_over: bool,
}

impl LaunchSignals {
    /// Asks the bus for the service's signals and for the change of its owner.
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
        // After the rule, so that the service cannot end unnoticed.
        let name = BusName::from_static_str(NAME).map_err(zbus::Error::from)?;
        let owner = bus.get_name_owner(name).await;
        let owner = owner.map_err(|_| BusError::Gone)?.to_string();
        // Last: signals may fill the stream, which nobody reads yet, and replies would wait behind them.
        ask(launches).await?;
        Ok((stream, owner))
    }

    pub(super) fn new(runtime: Runtime, stream: MessageStream, owner: String) -> Self {
        LaunchSignals {
            runtime,
            stream,
            owner,
            is_over: false,
        }
    }

    /// The launch that a message signals; `None` if it is another message.
    fn signal(&self, message: &Message) -> Option<Result<LaunchSignal, BusError>> {
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
                plan_of(&plan).map(|plan| LaunchSignal::Begun { app, pid, plan })
            }),
            "LaunchEnded" => message
                .body()
                .deserialize()
                .map(|launch| Some(LaunchSignal::Ended(launch))),
            _ => return None,
        };
        // A later version of the service may have plans that this one does not know.
        read.map_err(BusError::from).transpose()
    }
}

impl Iterator for LaunchSignals {
    type Item = Result<LaunchSignal, BusError>;

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
