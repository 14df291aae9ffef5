//! Notifications for the service manager (sd_notify(3)).

use std::time::Duration;

pub use sd_notify::NotifyState;

/// How often systemd wants to hear [`NotifyState::Watchdog`]: half of the time after which it would kill
/// the service. `None` if it does not watch the service.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled()
        .filter(|limit| !limit.is_zero())
        .map(|limit| limit / 2)
}

/// Notifies systemd, if it has started the service.
pub fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("systemd cannot be notified: {error}");
    }
}
