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

#[cfg(test)]
mod tests {
    #[test]
    fn a_service_that_fails_or_hangs_is_started_again() {
        let unit = include_str!("../../dist/paralfetch.service");
        for setting in ["Restart=on-failure", "WatchdogSec=3min"] {
            assert!(unit.lines().any(|line| line == setting), "{setting}");
        }
    }
}
