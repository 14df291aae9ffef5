//! Made-up histories of launches, of users with different habits.

use std::collections::BTreeMap;

use crate::random::SplitMix64;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

/// Midnight before a Monday (1 January 2024, UTC).
const BEGIN_S: u64 = 1_704_067_200;

/// Days that a history lasts.
const DAYS: u64 = 90;

/// A launch of an app, and when the app is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppUse {
    /// The app's number.
    pub app: u32,
    /// When it is launched, in seconds since 1970.
    pub at_s: u64,
    /// When it is closed.
    pub until_s: u64,
}

/// What kind of user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The same apps at the same hours of each day, and a little of everything.
    Habit,
    /// Work from Monday to Friday, other apps at the weekend.
    Office,
    /// Days of nothing, then hours with the few apps of one task, in turns.
    Bursts,
    /// A few apps each working day, and those of a project that is another after some weeks.
    Projects,
    /// Two people with apps of their own, in the morning and in the evening.
    Shared,
    /// Favourites, at any time and in any order.
    Favourites,
    /// Any of twenty apps, as often as another.
    Random,
    /// The first days of a user of habit.
    Beginner,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Habit,
        Self::Office,
        Self::Bursts,
        Self::Projects,
        Self::Shared,
        Self::Favourites,
        Self::Random,
        Self::Beginner,
    ];

    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Habit => "habit",
            Self::Office => "office",
            Self::Bursts => "bursts",
            Self::Projects => "projects",
            Self::Shared => "shared",
            Self::Favourites => "favourites",
            Self::Random => "random",
            Self::Beginner => "beginner",
        }
    }

    /// A history, in order of time; the same for the same seed. No app is launched while it runs.
    pub fn history(self, seed: u64) -> Vec<AppUse> {
        let mut diary = Diary {
            random: SplitMix64(seed),
            launches: Vec::new(),
        };
        match self {
            Self::Habit => (0..DAYS).for_each(|day| diary.day_of_habit(day)),
            Self::Office => (0..DAYS).for_each(|day| diary.day_of_office(day)),
            Self::Bursts => diary.bursts(),
            Self::Projects => diary.projects(),
            Self::Shared => (0..DAYS).for_each(|day| diary.day_of_two(day)),
            Self::Favourites => (0..DAYS).for_each(|day| diary.some(day, 8..23, 12, 0..30)),
            Self::Random => (0..DAYS).for_each(|day| diary.day_of_chance(day)),
            Self::Beginner => (0..6).for_each(|day| diary.day_of_habit(day)),
        }
        diary.played()
    }
}

/// Launches as they are planned, in any order: (when, which app).
struct Diary {
    random: SplitMix64,
    launches: Vec<(u64, u32)>,
}

impl Diary {
    fn day_of_habit(&mut self, day: u64) {
        self.routine(day, 8, 0..4, 90);
        self.routine(day, 12, 4..6, 80);
        self.routine(day, 20, 6..9, 80);
        self.some(day, 8..23, 3, 0..30);
    }

    fn day_of_office(&mut self, day: u64) {
        if is_working_day(day) {
            self.routine(day, 9, 0..5, 95);
            self.some(day, 9..18, 10, 0..12);
        } else {
            self.some(day, 10..23, 5, 15..24);
        }
    }

    fn day_of_two(&mut self, day: u64) {
        self.some(day, 7..12, 7, 0..10);
        self.some(day, 17..23, 8, 10..20);
        self.some(day, 7..23, 1, 20..30);
    }

    fn day_of_chance(&mut self, day: u64) {
        for _ in 0..10 {
            let at_s = self.time_of(day, &(8..23));
            let app = self.random.below(20) as u32;
            self.launches.push((at_s, app));
        }
    }

    fn bursts(&mut self) {
        let mut day = 0;
        while day < DAYS {
            let task = self.random.below(6) as u32;
            let mut at_s = self.time_of(day, &(9..21));
            let rounds = 5 + self.random.below(4);
            for _ in 0..rounds {
                for app in task * 3..task * 3 + 4 {
                    at_s += (2 + self.random.below(8)) * MINUTE_S;
                    if self.happens(90) {
                        self.launches.push((at_s, app));
                    }
                }
            }
            let rest = 1 + self.random.below(6);
            for quiet in day..(day + rest).min(DAYS) {
                self.some(quiet, 8..23, 1, 0..30);
            }
            day += rest;
        }
    }

    fn projects(&mut self) {
        let mut first = 3;
        let mut ends = 0;
        for day in (0..DAYS).filter(|&day| is_working_day(day)) {
            if day >= ends {
                ends = day + 10 + self.random.below(15);
                first = 3 + self.random.below(32) as u32;
            }
            self.routine(day, 9, 0..3, 90);
            self.some(day, 9..18, 10, first..first + 5);
            self.some(day, 9..18, 1, 0..40);
        }
    }

    /// Adds launches of these apps one after the other about this hour, each with this probability, in percent.
    fn routine(&mut self, day: u64, hour: u64, apps: std::ops::Range<u32>, percent: u64) {
        let late_s = self.random.below(40 * MINUTE_S);
        let mut at_s = BEGIN_S + day * DAY_S + hour * HOUR_S + late_s;
        for app in apps {
            at_s += MINUTE_S + self.random.below(4 * MINUTE_S);
            if self.happens(percent) {
                self.launches.push((at_s, app));
            }
        }
    }

    /// Adds so many launches between two hours, of favourites: the second app half as often as the first, the third a
    /// third as often, and so on.
    fn some(
        &mut self,
        day: u64,
        hours: std::ops::Range<u64>,
        launches: u32,
        apps: std::ops::Range<u32>,
    ) {
        for _ in 0..launches {
            let at_s = self.time_of(day, &hours);
            let app = self.favourite(&apps);
            self.launches.push((at_s, app));
        }
    }

    fn favourite(&mut self, apps: &std::ops::Range<u32>) -> u32 {
        let share = |place: usize| 1_000_000 / (place as u64 + 1);
        let all: u64 = (0..apps.len()).map(share).sum();
        let mut left = self.random.below(all);
        for (place, app) in apps.clone().enumerate() {
            match left.checked_sub(share(place)) {
                Some(rest) => left = rest,
                None => return app,
            }
        }
        apps.start
    }

    fn time_of(&mut self, day: u64, hours: &std::ops::Range<u64>) -> u64 {
        let within_s = self.random.below((hours.end - hours.start) * HOUR_S);
        BEGIN_S + day * DAY_S + hours.start * HOUR_S + within_s
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// The launches in order, each app closed after a time that is typical of it; none that runs is launched again.
    fn played(mut self) -> Vec<AppUse> {
        self.launches.sort_unstable();
        let mut closed_s: BTreeMap<u32, u64> = BTreeMap::new();
        let mut history = Vec::new();
        for (at_s, app) in std::mem::take(&mut self.launches) {
            if closed_s.get(&app).is_some_and(|&until_s| at_s < until_s) {
                continue;
            }
            let typical_s = [2, 5, 15, 60][app as usize % 4] * MINUTE_S;
            let until_s = at_s + typical_s / 2 + self.random.below(typical_s);
            closed_s.insert(app, until_s);
            history.push(AppUse { app, at_s, until_s });
        }
        history
    }
}

fn is_working_day(day: u64) -> bool {
    day % 7 < 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_repeat_and_differ_by_seed_and_shape() {
        for shape in Shape::ALL {
            assert_eq!(shape.history(1), shape.history(1), "{shape:?}");
            assert_ne!(shape.history(1), shape.history(2), "{shape:?}");
        }
        assert_ne!(Shape::Habit.history(1), Shape::Office.history(1));
    }

    #[test]
    fn launches_are_in_order_and_no_app_is_launched_while_it_runs() {
        for shape in Shape::ALL {
            let history = shape.history(1);
            assert!(history.len() > 20, "{shape:?}");
            assert!(history.is_sorted_by_key(|used| used.at_s), "{shape:?}");
            let mut closed_s = BTreeMap::new();
            for used in history {
                let before = closed_s.insert(used.app, used.until_s);
                assert!(
                    before.is_none_or(|until_s| until_s <= used.at_s),
                    "{used:?}"
                );
            }
        }
    }

    #[test]
    fn at_work_other_apps_are_launched_than_at_the_weekend() {
        for used in Shape::Office.history(1) {
            let day = (used.at_s - BEGIN_S) / DAY_S;
            assert_eq!(used.app < 12, is_working_day(day), "{used:?}");
        }
    }
}
