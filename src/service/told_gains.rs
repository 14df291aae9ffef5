//! The gains of apps that the log has told.

use std::collections::HashMap;

use crate::model::UserApp;

/// The time saved at a cold launch of each app that was told last, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct ToldGains(HashMap<UserApp, i64>);

/// Whether the time saved at a cold launch, in microseconds, is to be told: it was unknown, or has changed by a
/// quarter and a tenth of a second.
fn is_news(told_us: Option<i64>, now_us: i64) -> bool {
    told_us.is_none_or(|told_us| {
        let change = now_us.abs_diff(told_us);
        change >= 100_000 && change >= told_us.unsigned_abs() / 4
    })
}

impl ToldGains {
    /// What an earlier service has told.
    pub fn known(gains: impl Iterator<Item = (UserApp, i64)>) -> Self {
        ToldGains(gains.collect())
    }

    /// The time saved now, if it is to be told; from then on, it was.
    pub fn news(&mut self, app: &UserApp, saved_us: Option<i64>) -> Option<i64> {
        let now_us = saved_us.filter(|&now_us| is_news(self.0.get(app).copied(), now_us))?;
        self.0.insert(app.clone(), now_us);
        Some(now_us)
    }

    /// The app is forgotten.
    pub fn forget(&mut self, app: &UserApp) {
        self.0.remove(app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_saved_is_told_when_it_becomes_known_or_changes_much() {
        let app = UserApp::new(1000, "/app");
        let mut told = ToldGains::default();
        for (saved_us, news) in [
            (None, None),
            (Some(400_000), Some(400_000)),
            (Some(450_000), None),
            (Some(800_000), Some(800_000)),
            (None, None),
            (Some(-100_000), Some(-100_000)),
        ] {
            assert_eq!(told.news(&app, saved_us), news, "{saved_us:?}");
        }
        // The next service tells nothing.
        let mut told = ToldGains::known([(app.clone(), 800_000)].into_iter());
        assert_eq!(told.news(&app, Some(800_000)), None);
        assert!(!is_news(Some(10_000_000), 11_000_000) && is_news(Some(-100_000), 0));
        told.forget(&app);
        assert_eq!(told.news(&app, Some(1)), Some(1));
    }
}
