//! Authorization of changes: root may make them, other users if polkit allows it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use zbus::Connection;
use zbus::message::{Flags, Header};
use zbus::zvariant::Value;

use super::error::{Fault, sendable};

/// Callers that polkit may be asked about at once, each of whom may be looking at a password prompt.
/// Further calls are refused, so that no user can fill the service's memory.
const MOST_QUESTIONS: usize = 16;

/// How long polkit may take if it cannot ask the user.
const SOON: Duration = Duration::from_secs(20);

/// How long polkit may take if it asks the user for a password.
const WITH_PASSWORD: Duration = Duration::from_secs(300);

/// `AllowUserInteraction` of polkit's CheckAuthorization.
const ALLOW_INTERACTION: u32 = 1;

/// A kind of change, as polkit knows it (`org.paralfetch.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Learn, prefetch, disable and forget apps.
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

/// Asks polkit.
pub(super) struct Authority {
    questions: Semaphore,
}

impl Authority {
    pub fn new() -> Self {
        Authority {
            questions: Semaphore::new(MOST_QUESTIONS),
        }
    }

    /// Checks whether the caller may do this, which may take until the user has typed a password.
    pub async fn check(
        &self,
        connection: &Connection,
        call: &Header<'_>,
        action: Action,
    ) -> Result<(), Fault> {
        let Some(sender) = call.sender() else {
            return Err(Fault::Denied("who calls is not known".to_owned()));
        };
        if uid(connection, sender).await? == 0 {
            return Ok(());
        }
        let _question = self.questions.try_acquire().map_err(|_| {
            Fault::Busy("too many are waiting for a password; try again later".to_owned())
        })?;
        let interactive = call.primary().flags().contains(Flags::AllowInteractiveAuth);
        match ask_polkit(connection, sender, action, interactive).await {
            Ok((true, _)) => Ok(()),
            Ok((false, true)) if !interactive => Err(Fault::WouldAsk(format!(
                "{} needs the administrator's password; try with sudo",
                action.id()
            ))),
            Ok((false, _)) => Err(Fault::Denied(format!(
                "polkit does not allow {} to you; try with sudo",
                action.id()
            ))),
            Err(why) => Err(Fault::Denied(format!(
                "only root may do this, since polkit cannot be asked ({why}); try with sudo"
            ))),
        }
    }
}

/// The caller's user, as the bus knows it.
async fn uid(connection: &Connection, sender: &str) -> Result<u32, Fault> {
    let answer = connection
        .call_method(
            Some("org.freedesktop.DBus"),
            "/org/freedesktop/DBus",
            Some("org.freedesktop.DBus"),
            "GetConnectionUnixUser",
            &sender,
        )
        .await;
    answer
        .and_then(|reply| reply.body().deserialize())
        // Usually the caller has left the bus, and nobody reads the error.
        .map_err(|error| Fault::Denied(format!("the bus does not say who calls: {error}")))
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
        .map_err(|error| sendable(&error.to_string()).into_owned())?;
    let (allowed, challenge, _): (bool, bool, HashMap<String, String>) = reply
        .body()
        .deserialize()
        .map_err(|error| error.to_string())?;
    Ok((allowed, challenge))
}
