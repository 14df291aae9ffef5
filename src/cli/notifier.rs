//! `watch --notify`: one notification for each app of the user that has become faster.

use super::notification::Notification;
use super::notified::NotifiedApps;
use super::page::short_name;
use super::service::{failed, running};
use super::stats::SavedTime;
use super::{Failure, say};
use crate::policy::Warmth;
use crate::service::control::bus::{Address, BusError, Client, wait_for_service};
use crate::service::control::{AppState, LaunchRecord, ServiceCalls, ServiceSignal};
use crate::service::history::Kind;

/// The least that a cold launch must save to be worth a notification: what people notice, and what differs from chance.
const LEAST_SAVED_US: i64 = 100_000;
const LEAST_PERCENT: i32 = 10;

/// Notifies until the bus ends or the user interrupts. While the service does not run, it waits for it.
pub fn main() -> Result<(), Failure> {
    let uid = rustix::process::getuid().as_raw();
    let mut notified = NotifiedApps::load()?;
    loop {
        wait_for_service(&Address::System).map_err(Failure::not_running)?;
        let Some(service) = Client::connect(&Address::System)? else {
            continue;
        };
        for signal in service.signals().map_err(failed)? {
            match signal {
                Ok(ServiceSignal::Ended(launch)) => {
                    if may_be_faster(&launch, uid, &notified) {
                        look_at(&launch.app, uid, &mut notified);
                    }
                }
                Ok(_) => {}
                Err(BusError::Gone) => break,
                Err(error) => say(&error.to_string()),
            }
        }
    }
}

/// Whether this launch may be the first after which the app is known to be faster: those that were cold and prefetched
/// decide.
fn may_be_faster(launch: &LaunchRecord, uid: u32, notified: &NotifiedApps) -> bool {
    launch.uid == uid
        && launch.kind == Kind::Prefetched
        && launch.warmth == Some(Warmth::Cold)
        && !notified.contains(&launch.app)
}

/// Asks the service what this app saves by now, and notifies if that is enough.
fn look_at(app: &str, uid: u32, notified: &mut NotifiedApps) {
    let asked = running().and_then(|service| service.apps(Some(uid), Some(app)).map_err(failed));
    match asked {
        Ok(apps) => {
            let found = apps.iter().find(|state| state.app == app);
            let is_shown = found.and_then(news).is_some_and(|news| news.show());
            // Where no desktop shows it, a later launch tries again.
            if is_shown {
                notified.add(app);
            }
        }
        Err(failure) => say(&failure.message),
    }
}

/// The notification about an app that is faster; `None` as long as it is not, or that is not known.
fn news(app: &AppState) -> Option<Notification> {
    let saved = SavedTime::of(app, &[])?;
    if saved.each_us < LEAST_SAVED_US || saved.percent < LEAST_PERCENT {
        return None;
    }
    let name = match app.name.is_empty() {
        true => short_name(&app.app),
        false => &app.name,
    };
    let seconds = saved.each_us as f64 / 1e6;
    Some(Notification {
        summary: format!("{name} starts faster"),
        body: format!(
            "When it is not in memory yet, it now takes {seconds:.1} s ({} %) less.",
            saved.percent
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_faster_once_it_saves_what_people_notice() {
        let app = |cold_with_us, cold_without_us, gain_percent| AppState {
            app: "/usr/bin/gimp".to_owned(),
            cold_with_us: Some(cold_with_us),
            cold_without_us: Some(cold_without_us),
            gain_percent: Some(gain_percent),
            ..AppState::default()
        };
        let told = news(&app(300_000, 750_000, 60)).unwrap();
        assert_eq!(told.summary, "gimp starts faster");
        assert!(told.body.contains("0.5 s (60 %) less"), "{told:?}");
        for slow in [
            app(700_000, 750_000, 7),
            app(9_400_000, 10_000_000, 6),
            app(900_000, 750_000, -20),
            AppState::default(),
        ] {
            assert_eq!(news(&slow), None);
        }
        let named = AppState {
            name: "GIMP".to_owned(),
            ..app(1_000_000, 2_300_000, 57)
        };
        assert_eq!(news(&named).unwrap().summary, "GIMP starts faster");
    }
}
