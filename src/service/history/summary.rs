//! What the launches of an app sum up to.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::row::{Kind, unsigned, warmth};
use crate::model::lower_median;
use crate::policy::Warmth;

/// Of how many cold launches of a kind the typical one is taken: the last ones, because drives, apps
/// and schedules change.
pub const RECENT: usize = 20;

/// How many launches were seen, by what was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchesByKind {
    /// Learned.
    pub learned: u64,
    /// Prefetched.
    pub prefetched: u64,
    /// Prefetching was withheld.
    pub withheld: u64,
    /// Left alone.
    pub watched: u64,
}

/// The medians of several launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typical {
    /// How many; at most [`RECENT`].
    pub launches: usize,
    /// Their lengths, in microseconds.
    pub duration_us: u64,
    /// The times that they waited for the drive, in microseconds.
    pub waiting_us: u64,
}

/// What is known of the launches of one app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistorySummary {
    /// The app's name.
    pub app: String,
    /// Launches that are remembered.
    pub counts: LaunchesByKind,
    /// When the last of them began, in seconds since the epoch.
    pub last_s: u64,
    /// The last cold ones that were prefetched.
    pub with: Option<Typical>,
    /// The last cold ones that were not: learned, or withheld.
    pub without: Option<Typical>,
    /// Share of the length that prefetching saves, `1 - with / without`: below 0 where it costs. `None`
    /// as long as launches of one kind are missing.
    pub gain: Option<f64>,
    /// The same share of the time of waiting for the drive.
    pub waiting_gain: Option<f64>,
}

/// Lengths and waiting times of launches, in microseconds.
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

/// An app's launches while they are read.
#[derive(Default)]
struct Sum {
    counts: LaunchesByKind,
    last_s: Option<u64>,
    with: Times,
    without: Times,
}

/// The summaries of all apps, or of one, by name.
pub(super) fn sum_up(db: &Connection, app: Option<&str>) -> rusqlite::Result<Vec<HistorySummary>> {
    let mut query = db.prepare(match app {
        Some(_) => "SELECT * FROM launches WHERE app = ?1 ORDER BY id DESC",
        // The parameter must stand in both.
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
        let time_s = unsigned(row, "time_s")?;
        self.last_s.get_or_insert(time_s);
        let kind: Kind = row.get("kind")?;
        let (count, times) = match kind {
            Kind::Learned => (&mut self.counts.learned, Some(&mut self.without)),
            Kind::Prefetched => (&mut self.counts.prefetched, Some(&mut self.with)),
            Kind::Withheld => (&mut self.counts.withheld, Some(&mut self.without)),
            Kind::Watched => (&mut self.counts.watched, None),
        };
        *count += 1;
        let cold = warmth(row)? == Some(Warmth::Cold);
        if let Some(times) = times.filter(|_| cold) {
            times.push(unsigned(row, "duration_us")?, unsigned(row, "waiting_us")?);
        }
        Ok(())
    }

    fn finish(self, app: String) -> HistorySummary {
        let (with, without) = (self.with.typical(), self.without.typical());
        let gain = |value: fn(&Typical) -> u64| {
            let (with, without) = (value(with.as_ref()?), value(without.as_ref()?));
            (without > 0).then(|| 1.0 - with as f64 / without as f64)
        };
        HistorySummary {
            app,
            counts: self.counts,
            last_s: self.last_s.unwrap_or_default(),
            gain: gain(|typical| typical.duration_us),
            waiting_gain: gain(|typical| typical.waiting_us),
            with,
            without,
        }
    }
}
