//! The summary of an app's launches: what prefetching saves.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use super::launch::Kind;
use super::row::{unsigned, warmth};
use crate::model::lower_median;
use crate::policy::Warmth;

/// The medians are those of this many cold launches of a kind, the last ones, because drives, apps and
/// schedules change.
pub const RECENT: usize = 20;

/// The medians of several launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typical {
    /// Number of launches; at most [`RECENT`].
    pub launches: usize,
    /// Their duration, in microseconds.
    pub duration_us: u64,
    /// The time that they waited for the drive, in microseconds.
    pub waiting_us: u64,
}

/// The launches of one app, in summary.
#[derive(Clone, Debug, PartialEq)]
pub struct HistorySummary {
    /// The app's name.
    pub app: String,
    /// The last cold ones that were prefetched.
    pub with: Option<Typical>,
    /// The last cold ones that were not: learned, or withheld.
    pub without: Option<Typical>,
    /// Share of the waiting time that prefetching saves, `1 - with / without`: below 0 where it costs
    /// time. `None` as long as launches of one kind are missing, or if those without did not wait.
    pub waiting_gain: Option<f64>,
}

/// Durations and waiting times of launches, in microseconds.
#[derive(Default)]
struct Times {
    durations: Vec<u64>,
    waits: Vec<u64>,
}

impl Times {
    fn push(&mut self, duration_us: u64, waiting_us: u64) {
        if self.durations.len() < RECENT {
            self.durations.push(duration_us);
            self.waits.push(waiting_us);
        }
    }

    fn typical(&self) -> Option<Typical> {
        Some(Typical {
            launches: self.durations.len(),
            duration_us: lower_median(&self.durations)?,
            waiting_us: lower_median(&self.waits)?,
        })
    }
}

/// An app's launches, while their rows are read.
#[derive(Default)]
struct Sum {
    with: Times,
    without: Times,
}

/// The summaries of all apps, or of one, by name.
pub(super) fn sum_up(db: &Connection, app: Option<&str>) -> rusqlite::Result<Vec<HistorySummary>> {
    let mut query = db.prepare(match app {
        Some(_) => "SELECT * FROM launches WHERE app = ?1 ORDER BY id DESC",
        // Both statements must name the parameter.
        None => "SELECT * FROM launches WHERE ?1 IS NULL ORDER BY id DESC",
    })?;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut rows = query.query([app])?;
    while let Some(row) = rows.next()? {
        sums.entry(row.get("app")?).or_default().take(row)?;
    }
    let finish = |(app, sum): (String, Sum)| sum.finish(app);
    Ok(sums.into_iter().map(finish).collect())
}

impl Sum {
    /// Takes the next older launch.
    fn take(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let times = match row.get("kind")? {
            Kind::Prefetched => Some(&mut self.with),
            Kind::Learned | Kind::Withheld => Some(&mut self.without),
            Kind::Watched => None,
        };
        let cold = warmth(row)? == Some(Warmth::Cold);
        if let Some(times) = times.filter(|_| cold) {
            times.push(unsigned(row, "duration_us")?, unsigned(row, "waiting_us")?);
        }
        Ok(())
    }

    fn finish(self, app: String) -> HistorySummary {
        let (with, without) = (self.with.typical(), self.without.typical());
        let waiting_gain = with.zip(without).and_then(|(with, without)| {
            let share = with.waiting_us as f64 / without.waiting_us as f64;
            (without.waiting_us > 0).then_some(1.0 - share)
        });
        HistorySummary {
            app,
            with,
            without,
            waiting_gain,
        }
    }
}
