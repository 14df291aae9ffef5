//! How likely each app is to be launched within the horizon.
//!
//! The past is cut into windows as long as the horizon, counted back from now, so that every sixth of them lies at the
//! hours that come next. A window in which the user launched anything votes: for the apps that were launched in it,
//! against the others. Votes weigh more
//!
//! - the younger the window is,
//! - at the hours of the day that come next,
//! - on the kind of day, working day or weekend, that it is now.
//!
//! An app's share of the votes is its probability. What followed earlier launches of the app that was launched last
//! votes beside them. A window counts an app once: a burst of launches says no more about the next hours than one.
//!
//! The weights below have the most hits in `lab predict`; half or twice of one costs three points of a hundred at most.

use std::collections::{BTreeMap, BTreeSet};

/// How far ahead launches are predicted, in seconds. What is read ahead serves a sitting, and sittings last for hours;
/// it divides a day, so that the windows of earlier days lie at the same hours.
pub const HORIZON_S: u64 = 4 * 3600;

const DAY_S: u64 = 24 * 3600;

/// Windows in a day.
const WINDOWS_A_DAY: u64 = DAY_S / HORIZON_S;

/// Age at which a window's vote weighs half as much as at first, in days. It falls as 1 / (1 + age / this): faster at
/// first, so that a new habit shows in days, and slower later, so that an old one is not forgotten in a holiday.
const AGE_DAYS: f64 = 4.0;

/// How many times as much a window at the coming hours of the day weighs.
const SAME_HOURS: f64 = 4.0;

/// How many times as much a window on the same kind of day weighs.
const SAME_KIND_OF_DAY: f64 = 3.0;

/// Votes against every app before there are any, in windows: one launch in the only window is no certainty.
const DOUBT: f64 = 0.5;

/// How many launches of the app that was launched last must have been followed by others, until what followed them
/// counts as much as the windows.
const FOLLOWED: f64 = 2.0;

/// A launch of one user, of the past.
#[derive(Clone, Copy, Debug)]
pub struct PastLaunch {
    /// Which app: an index that the caller assigns.
    pub app: u32,
    /// Seconds since 1970, UTC.
    pub at_s: u64,
}

/// Which evidence counts. The laboratory measures what each gains.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// The age of a window.
    pub age: bool,
    /// The hours of the day.
    pub hours: bool,
    /// Working day or weekend.
    pub kind_of_day: bool,
    /// What was launched before.
    pub before: bool,
}

impl Evidence {
    /// What [`probabilities`] takes.
    pub const ALL: Self = Self {
        age: true,
        hours: true,
        kind_of_day: true,
        before: true,
    };
    /// Nothing: each window has one vote.
    pub const NONE: Self = Self {
        age: false,
        hours: false,
        kind_of_day: false,
        before: false,
    };
}

/// Probability (0 to 1) that each app of the history is launched within [`HORIZON_S`], given that the user launches
/// anything: (app, probability), likeliest first. `utc_offset_s`: local time less UTC. The history may be in any order;
/// launches after `now_s` (a clock that was set back) are left out.
pub fn probabilities(history: &[PastLaunch], now_s: u64, utc_offset_s: i32) -> Vec<(u32, f64)> {
    probabilities_by(&Evidence::ALL, history, now_s, utc_offset_s)
}

/// [`probabilities`] by some of the evidence.
pub fn probabilities_by(
    evidence: &Evidence,
    history: &[PastLaunch],
    now_s: u64,
    utc_offset_s: i32,
) -> Vec<(u32, f64)> {
    let mut past: Vec<PastLaunch> = history
        .iter()
        .filter(|launch| launch.at_s <= now_s)
        .copied()
        .collect();
    past.sort_unstable_by_key(|launch| (launch.at_s, launch.app));
    let clock = Clock {
        now_s,
        utc_offset_s,
    };
    let mut votes = Votes::of_windows(evidence, &past, &clock);
    if evidence.before {
        votes.add_followers(evidence, &past, &clock);
    }
    votes.into_probabilities()
}

/// The time, and where the user is.
struct Clock {
    now_s: u64,
    utc_offset_s: i32,
}

impl Clock {
    /// Which window a time not after now lies in: 0 is the one that ends now.
    fn window(&self, at_s: u64) -> u64 {
        (self.now_s - at_s) / HORIZON_S
    }

    /// How much a window's age leaves of its vote: 1 at first.
    fn freshness(&self, window: u64) -> f64 {
        let days = window as f64 / WINDOWS_A_DAY as f64;
        AGE_DAYS / (AGE_DAYS + days)
    }

    /// Whether the local day on which a window begins is of a weekend; that of the coming window for `None`.
    fn is_weekend(&self, window: Option<u64>) -> bool {
        let back_s = window.map_or(0, |window| (i128::from(window) + 1) * i128::from(HORIZON_S));
        let local_s = i128::from(self.now_s) + i128::from(self.utc_offset_s) - back_s;
        // 1970 began on a Thursday; 0 is Monday.
        let day = (local_s.div_euclid(i128::from(DAY_S)) + 3).rem_euclid(7);
        day >= 5
    }

    fn weight(&self, evidence: &Evidence, window: u64) -> f64 {
        let mut weight = match evidence.age {
            true => self.freshness(window),
            false => 1.0,
        };
        if evidence.hours && window % WINDOWS_A_DAY == WINDOWS_A_DAY - 1 {
            weight *= SAME_HOURS;
        }
        if evidence.kind_of_day && self.is_weekend(Some(window)) == self.is_weekend(None) {
            weight *= SAME_KIND_OF_DAY;
        }
        weight
    }
}

/// Votes for each app, and how many there could have been.
struct Votes {
    all: f64,
    of_apps: BTreeMap<u32, f64>,
}

impl Votes {
    /// What the windows say; `past` is in order of time.
    fn of_windows(evidence: &Evidence, past: &[PastLaunch], clock: &Clock) -> Self {
        let mut votes = Self {
            all: DOUBT,
            of_apps: BTreeMap::new(),
        };
        for launches in past.chunk_by(|a, b| clock.window(a.at_s) == clock.window(b.at_s)) {
            let weight = clock.weight(evidence, clock.window(launches[0].at_s));
            votes.add(weight, launches.iter().map(|launch| launch.app));
        }
        votes
    }

    /// Beside the windows, what followed earlier launches of the app that was launched last; not later than a horizon after
    /// it, when nothing follows it any more. Of that app itself the windows alone decide: it is in the caches.
    fn add_followers(&mut self, evidence: &Evidence, past: &[PastLaunch], clock: &Clock) {
        let Some(last) = past.last().filter(|last| clock.window(last.at_s) == 0) else {
            return;
        };
        let share_of_last = self
            .of_apps
            .get(&last.app)
            .map_or(0.0, |vote| vote / self.all);
        // The windows shrink to a fixed weight: then as many launches that were followed count as much.
        let scale = FOLLOWED / self.all;
        self.all = FOLLOWED;
        for vote in self.of_apps.values_mut() {
            *vote *= scale;
        }
        for (start, launches) in followers(past, last.app) {
            let weight = match evidence.age {
                true => clock.freshness(clock.window(start.at_s)),
                false => 1.0,
            };
            self.add(weight, launches.iter().map(|launch| launch.app));
        }
        self.of_apps.insert(last.app, share_of_last * self.all);
    }

    /// A vote for these apps, each once.
    fn add(&mut self, weight: f64, apps: impl Iterator<Item = u32>) {
        self.all += weight;
        for app in apps.collect::<BTreeSet<u32>>() {
            *self.of_apps.entry(app).or_default() += weight;
        }
    }

    /// Likeliest first; equally likely ones by their number.
    fn into_probabilities(self) -> Vec<(u32, f64)> {
        let mut shares: Vec<(u32, f64)> = self
            .of_apps
            .into_iter()
            .map(|(app, votes)| (app, (votes / self.all).clamp(0.0, 1.0)))
            .collect();
        shares.sort_by(|(a, p), (b, q)| q.total_cmp(p).then(a.cmp(b)));
        shares
    }
}

/// The launches of the app that others followed, with these: until its next launch, or for as long as the horizon. None
/// follows two, so that all of them together are no more than `past`, which is in order of time.
fn followers(past: &[PastLaunch], app: u32) -> impl Iterator<Item = (&PastLaunch, &[PastLaunch])> {
    past.chunk_by(move |_, next| next.app != app)
        .filter_map(move |stretch| {
            let (start, rest) = stretch
                .split_first()
                .filter(|(start, _)| start.app == app)?;
            let until_s = start.at_s.saturating_add(HORIZON_S);
            let within = rest.partition_point(|launch| launch.at_s < until_s);
            (within > 0).then_some((start, &rest[..within]))
        })
}

#[cfg(test)]
mod tests;
