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
    /// Programs that are held wait for the end of the process: nothing may put it off.
    #[test]
    fn a_service_that_fails_ends_at_once_and_is_started_again() {
        let unit = include_str!("../../dist/paralfetch.service");
        for setting in ["LimitCORE=0", "Restart=on-failure", "WatchdogSec=3min"] {
            assert!(unit.lines().any(|line| line == setting), "{setting}");
        }
        let manifest: toml::Table = toml::from_str(include_str!("../../Cargo.toml")).unwrap();
        let release = &manifest["profile"]["release"];
        assert_eq!(release["panic"].as_str(), Some("abort"));
    }
}
