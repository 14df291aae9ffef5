//! What the history says of an app's launches together.

use rusqlite::params;

use super::{History, HistoryError, RECENT, signed};
use crate::model::{UserApp, lower_median};

/// Medians of several launches, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typical {
    /// How long they took; `None` if that is known of none.
    pub duration_us: Option<u64>,
    /// The time that they waited for the drive; `None` if that was counted of none.
    pub waiting_us: Option<u64>,
}

/// What is typical of an app's last cold launches; `None` if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySummary {
    /// Of those that were prefetched.
    pub with: Option<Typical>,
    /// Of those that were not: learned without a profile, or withheld.
    pub without: Option<Typical>,
}

/// How long a launch took and waited, as far as that is known.
type Times = (Option<i64>, Option<i64>);

impl History {
    /// What is typical of the last cold launches of a user's app.
    pub fn summary(&self, app: &UserApp) -> Result<HistorySummary, HistoryError> {
        let typical = |prefetched: bool| {
            let times: Vec<Times> = self.select(
                "SELECT duration_us, waiting_us FROM launches
                    WHERE app = ?1 AND uid = ?2 AND warmth = 'cold' AND kind <> 'watched'
                        AND (kind = 'prefetched') = ?3
                        -- A launch that is learned again is prefetched, too, and its prefetch has left these.
                        AND (?3 OR (entries IS NULL AND until_first_us IS NULL))
                    ORDER BY id DESC LIMIT ?4",
                params![app.id, app.uid, prefetched, signed(RECENT as u64)],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let median = |time: fn(&Times) -> Option<i64>| {
                // The schema allows no negative ones.
                let known = times.iter().filter_map(time).map(i64::unsigned_abs);
                lower_median(&known.collect::<Vec<u64>>())
            };
            Ok((!times.is_empty()).then(|| Typical {
                duration_us: median(|times| times.0),
                waiting_us: median(|times| times.1),
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

    /// How many launches were anticipated, of one user or of all, of one app or of all, and what that has saved as far as
    /// it is known, in microseconds.
    pub fn anticipated(
        &self,
        uid: Option<u32>,
        app: Option<&str>,
    ) -> Result<(u64, u64), HistoryError> {
        let sums: Vec<(i64, i64)> = self.select(
            "SELECT count(*), coalesce(sum(saved_us), 0) FROM launches
                WHERE (?1 IS NULL OR uid = ?1) AND (?2 IS NULL OR app = ?2) AND kind = 'anticipated'",
            params![uid, app],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let sum = sums.first().copied().unwrap_or_default();
        Ok((sum.0.unsigned_abs(), sum.1.unsigned_abs()))
    }

    /// How many cold launches of each app were prefetched, of one user or of all.
    pub fn prefetched_cold(&self, uid: Option<u32>) -> Result<Vec<(UserApp, u64)>, HistoryError> {
        self.select(
            "SELECT uid, app, count(*) FROM launches
                WHERE (?1 IS NULL OR uid = ?1) AND kind = 'prefetched' AND warmth = 'cold'
                GROUP BY app, uid",
            params![uid],
            |row| {
                let app = UserApp::new(row.get(0)?, row.get::<_, String>(1)?);
                Ok((app, row.get::<_, i64>(2)?.unsigned_abs()))
            },
        )
    }
}
