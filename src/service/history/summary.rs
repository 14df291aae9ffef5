//! What the history says of an app's launches together.

use rusqlite::params;

use super::{History, HistoryError, RECENT, signed};
use crate::model::{UserApp, lower_median};

/// Medians of several launches, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typical {
    /// From execve to the completion block.
    pub duration_us: u64,
    /// The time that they waited for the drive.
    pub waiting_us: u64,
}

/// What is typical of an app's last cold launches; `None` if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySummary {
    /// Of those that were prefetched.
    pub with: Option<Typical>,
    /// Of those that were not: learned without a profile, or withheld.
    pub without: Option<Typical>,
}

impl HistorySummary {
    /// Share of the waiting time that prefetching saves, `1 - with / without`: below 0 where it costs
    /// time. `None` as long as launches of one kind are missing, or if those without did not wait.
    pub fn waiting_gain(&self) -> Option<f64> {
        let (with, without) = (self.with?, self.without?);
        let share = with.waiting_us as f64 / without.waiting_us as f64;
        (without.waiting_us > 0).then_some(1.0 - share)
    }

    /// Waiting time that prefetching saves at a cold launch, in microseconds: below 0 where it costs time. `None` as
    /// [`HistorySummary::waiting_gain`].
    pub fn saved_us(&self) -> Option<i64> {
        self.waiting_gain()?;
        let (with, without) = (self.with?, self.without?);
        Some(signed(without.waiting_us) - signed(with.waiting_us))
    }
}

impl History {
    /// What is typical of the last cold launches of a user's app.
    pub fn summary(&self, app: &UserApp) -> Result<HistorySummary, HistoryError> {
        let typical = |prefetched: bool| {
            let times: Vec<(i64, i64)> = self.select(
                "SELECT duration_us, waiting_us FROM launches
                    WHERE app = ?1 AND uid = ?2 AND warmth = 'cold' AND kind <> 'watched'
                        AND (kind = 'prefetched') = ?3
                        -- A launch that is learned again is prefetched, too, and its prefetch has left these.
                        AND (?3 OR (entries IS NULL AND until_first_us IS NULL))
                    ORDER BY id DESC LIMIT ?4",
                params![app.id, app.uid, prefetched, signed(RECENT as u64)],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            // The schema allows no negative ones.
            let times = times.into_iter();
            let (durations, waits): (Vec<u64>, Vec<u64>) = times
                .map(|(duration, wait)| (duration.unsigned_abs(), wait.unsigned_abs()))
                .unzip();
            let medians = lower_median(&durations).zip(lower_median(&waits));
            Ok(medians.map(|(duration_us, waiting_us)| Typical {
                duration_us,
                waiting_us,
            }))
        };
        Ok(HistorySummary {
            with: typical(true)?,
            without: typical(false)?,
        })
    }

    /// How many launches of a user's app were beside other programs' writes.
    pub fn launches_beside_writes(&self, app: &UserApp) -> Result<u64, HistoryError> {
        let counts: Vec<i64> = self.select(
            "SELECT count(*) FROM launches WHERE app = ?1 AND uid = ?2 AND background_writes = 1",
            params![app.id, app.uid],
            |row| row.get(0),
        )?;
        Ok(counts.first().map_or(0, |count| count.unsigned_abs()))
    }

    /// Waiting time that prefetching has saved so far, in microseconds: that of a cold launch, as the app's summary
    /// has it, at each prefetched cold launch; of one user, or of all.
    pub fn saved_us(&self, uid: Option<u32>) -> Result<i64, HistoryError> {
        let of_user = uid.map_or("?1 IS NULL", |_| "uid = ?1");
        let apps: Vec<(u32, String, i64)> = self.select(
            &format!(
                "SELECT uid, app, count(*) FROM launches
                    WHERE {of_user} AND kind = 'prefetched' AND warmth = 'cold' GROUP BY app, uid"
            ),
            params![uid],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        let mut total_us = 0_i64;
        for (uid, app, launches) in apps {
            let saved_us = self
                .summary(&UserApp::new(uid, app))?
                .saved_us()
                .unwrap_or(0);
            total_us = total_us.saturating_add(saved_us.saturating_mul(launches));
        }
        Ok(total_us)
    }
}
