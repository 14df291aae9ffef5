//! Authorization: root may see and change everything, other users what polkit allows.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::message::{Flags, Header};
use zbus::zvariant::Value;

use super::error::{BUSY, DENIED, WOULD_ASK};
use crate::service::control::{Answer, ControlError};

/// Callers that polkit may be asked about at once, each of whom may be looking at a password prompt.
/// Further calls are refused, so that no user can fill the service's memory.
pub(super) const MOST_QUESTIONS: usize = 16;

/// How long polkit may take if it cannot ask the user.
const SOON: Duration = Duration::from_secs(20);

/// How long polkit may take if it asks the user for a password.
const WITH_PASSWORD: Duration = Duration::from_secs(300);

/// `AllowUserInteraction` of polkit's CheckAuthorization.
const ALLOW_INTERACTION: u32 = 1;

/// A kind of change, as polkit knows it (`org.paralfetch.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// See, learn, prefetch, disable and forget apps of other users.
    ManageApps,
    /// Set the mode, and reload the configuration.
    Configure,
}

impl Action {
    /// The action's name in polkit.
    pub fn id(self) -> &'static str {
        match self {
            Action::ManageApps => "org.paralfetch.manage-apps",
            Action::Configure => "org.paralfetch.configure",
        }
    }
}

/// The user who calls, as the bus knows him.
pub(super) async fn caller_uid(connection: &Connection, call: &Header<'_>) -> Answer<u32> {
    let Some(sender) = call.sender() else {
        let why = "who calls is not known".to_owned();
        return Err(ControlError::Call(DENIED, why));
    };
    let bus = DBusProxy::new(connection).await;
    let bus = bus.map_err(ControlError::failed)?;
    let uid = bus.get_connection_unix_user(sender.to_owned().into()).await;
    // Usually the caller has left the bus, and nobody reads the error.
    uid.map_err(|error| {
        let why = format!("the bus does not say who calls: {error}");
        ControlError::Call(DENIED, why)
    })
}

/// Checks whether the caller may do this, which may take until the user has typed a password.
pub(super) async fn authorize(
    questions: &Semaphore,
    connection: &Connection,
    call: &Header<'_>,
    action: Action,
) -> Answer<()> {
    if caller_uid(connection, call).await? == 0 {
        return Ok(());
    }
    let denied = |why: String| Err(ControlError::Call(DENIED, why));
    let Some(sender) = call.sender() else {
        return denied("who calls is not known".to_owned());
    };
    let Ok(_question) = questions.try_acquire() else {
        let why = "too many are waiting for a password; try again later".to_owned();
        return Err(ControlError::Call(BUSY, why));
    };
    let interactive = call.primary().flags().contains(Flags::AllowInteractiveAuth);
    let id = action.id();
    match ask_polkit(connection, sender, action, interactive).await {
        Ok((true, _)) => Ok(()),
        Ok((false, true)) if !interactive => Err(ControlError::Call(
            WOULD_ASK,
            format!("{id} needs the administrator's password; try with sudo"),
        )),
        Ok((false, _)) => denied(format!("polkit does not allow {id} to you; try with sudo")),
        Err(why) => denied(format!(
            "only root may do this, since polkit cannot be asked ({why}); try with sudo"
        )),
    }
}

/// Polkit's answer: whether the caller may do this, and if not, whether a password would help.
async fn ask_polkit(
    connection: &Connection,
    sender: &str,
    action: Action,
    interactive: bool,
) -> Result<(bool, bool), String> {
    let name: HashMap<&str, Value<'_>> = [("name", Value::from(sender))].into();
    let details: HashMap<&str, &str> = HashMap::new();
    let (flags, limit) = if interactive {
        (ALLOW_INTERACTION, WITH_PASSWORD)
    } else {
        (0, SOON)
    };
    let arguments = (
        ("system-bus-name", name),
        action.id(),
        details,
        flags,
        // No cancellation id: polkit drops the question when the caller leaves the bus.
        "",
    );
    let answer = connection.call_method(
        Some("org.freedesktop.PolicyKit1"),
        "/org/freedesktop/PolicyKit1/Authority",
        Some("org.freedesktop.PolicyKit1.Authority"),
        "CheckAuthorization",
        &arguments,
    );
    let reply = timeout(limit, answer)
        .await
        .map_err(|_| "it does not answer".to_owned())?
        .map_err(|error| error.to_string())?;
    let (allowed, challenge, _): (bool, bool, HashMap<String, String>) = reply
        .body()
        .deserialize()
        .map_err(|error| error.to_string())?;
    Ok((allowed, challenge))
}
