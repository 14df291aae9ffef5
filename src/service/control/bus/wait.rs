//! Waiting for the service.

use std::future::poll_fn;
use std::pin::Pin;

use zbus::export::futures_core::Stream;
use zbus::fdo::DBusProxy;
use zbus::names::WellKnownName;

use super::client::CONNECT;
use super::error::BusError;
use super::serve::runtime;
use super::{Address, NAME};

/// Waits until the service is on the bus, however long that takes, without starting it.
///
/// # Errors
/// When there is no bus, or it ends.
pub fn wait_for_service(address: &Address) -> Result<(), BusError> {
    let runtime = runtime()?;
    let waited = runtime.block_on(wait(address));
    // A connect(2) that hangs must not be waited for.
    runtime.shutdown_background();
    waited
}

async fn wait(address: &Address) -> Result<(), BusError> {
    let connection = address.connect(address.builder()?, CONNECT).await?;
    let bus = DBusProxy::new(&connection).await?;
    // Before the question, so that the service cannot come unnoticed.
    let mut changes = bus
        .receive_name_owner_changed_with_args(&[(0, NAME)])
        .await?;
    let name = WellKnownName::from_static_str_unchecked(NAME);
    let is_there = bus.name_has_owner(name.into()).await;
    if is_there.map_err(zbus::Error::from)? {
        return Ok(());
    }
    loop {
        let change = poll_fn(|context| Pin::new(&mut changes).poll_next(context)).await;
        match change {
            Some(change) if change.args()?.new_owner().is_some() => return Ok(()),
            Some(_) => {}
            None => return Err(BusError::BusGone),
        }
    }
}
