//! How often the next launch is among the few apps that were read ahead: Paralfetch's prediction, parts of it, and other
//! methods, on made-up histories or a service's own.

mod histories;
mod pairs;
mod predictors;
mod replay;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use paralfetch::policy::likely::{Evidence, HORIZON_S, probabilities};

use crate::tables::{NOTHING, Table};
use histories::{AppUse, Shape};
use predictors::Predictor;

/// How many apps are read ahead.
const APPS: [usize; 3] = [2, 4, 8];

/// Histories of each shape.
const SEEDS: u64 = 3;

/// Hits of a method, for each of [`APPS`], out of so many questions.
#[derive(Clone, Copy, Default)]
struct Hits {
    hits: [f64; APPS.len()],
    of: f64,
}

impl Hits {
    /// Which share of what is wanted is among the first apps.
    fn add(&mut self, ranking: &[u32], wanted: &BTreeSet<u32>) {
        for (hits, apps) in self.hits.iter_mut().zip(APPS) {
            let found = ranking.iter().take(apps).filter(|app| wanted.contains(app));
            *hits += found.count() as f64 / wanted.len() as f64;
        }
        self.of += 1.0;
    }

    /// In percent, for the one of [`APPS`] at this place; `None` if nothing was asked.
    fn percent(&self, at: usize) -> Option<f64> {
        (self.of > 0.0).then(|| 100.0 * self.hits[at] / self.of)
    }
}

/// A method's answers to both questions.
#[derive(Clone, Copy, Default)]
struct Answers {
    /// Before each launch: is it among the apps?
    next: Hits,
    /// Before the first launch after a pause as long as the horizon: which share of the apps that are launched within the
    /// horizon is among them?
    horizon: Hits,
}

impl Answers {
    /// Asks about each launch of a history but the first. Apps that run are in the caches: no method is asked about them.
    fn add(&mut self, method: &mut Predictor, history: &[AppUse]) {
        for at in 1..history.len() {
            let (past, next) = (&history[..at], history[at]);
            let mut ranking = method.rank(past, next.at_s);
            ranking.retain(|app| !runs(past, *app, next.at_s));
            self.next.add(&ranking, &BTreeSet::from([next.app]));
            if ends_a_pause(history, at) {
                self.horizon.add(&ranking, &within_horizon(history, at));
            }
        }
    }
}

/// Whether an app is open at this time.
fn runs(past: &[AppUse], app: u32, now_s: u64) -> bool {
    let last = past.iter().rev().find(|used| used.app == app);
    last.is_some_and(|used| now_s < used.until_s)
}

/// Whether nothing was launched for as long as the horizon before this launch: after a night, say.
fn ends_a_pause(history: &[AppUse], at: usize) -> bool {
    history[at].at_s >= history[at - 1].at_s + HORIZON_S
}

/// The apps that are launched from this launch on within the horizon.
fn within_horizon(history: &[AppUse], at: usize) -> BTreeSet<u32> {
    let until_s = history[at].at_s + HORIZON_S;
    let uses = history[at..].iter();
    uses.take_while(|used| used.at_s < until_s)
        .map(|used| used.app)
        .collect()
}

/// The methods, as the tables call them.
fn methods() -> Vec<(&'static str, Predictor)> {
    let none = Evidence::NONE;
    let all = Evidence::ALL;
    let by = |age, hours, kind_of_day, before| Evidence {
        age,
        hours,
        kind_of_day,
        before,
    };
    let ours = [
        ("Paralfetch", all),
        ("windows alone", none),
        ("age alone", by(true, false, false, false)),
        ("hours alone", by(false, true, false, false)),
        ("kind of day alone", by(false, false, true, false)),
        ("launched before alone", by(false, false, false, true)),
        ("all but age", by(false, true, true, true)),
        ("all but hours", by(true, false, true, true)),
        ("all but kind of day", by(true, true, false, true)),
        ("all but launched before", by(true, true, true, false)),
    ];
    let others = [
        ("most recent", Predictor::MostRecent),
        ("most frequent", Predictor::MostFrequent),
        ("successor (Markov)", Predictor::Successor),
        ("preload's pairs", Predictor::Preload(Box::default())),
    ];
    ours.map(|(name, evidence)| (name, Predictor::Paralfetch(evidence)))
        .into_iter()
        .chain(others)
        .collect()
}

/// Users of a kind: a column of the tables.
struct Group {
    name: String,
    histories: Vec<Vec<AppUse>>,
}

impl Group {
    fn made_up() -> Vec<Self> {
        let of_shape = |shape: Shape| Self {
            name: shape.name().to_owned(),
            histories: (0..SEEDS).map(|seed| shape.history(seed)).collect(),
        };
        Shape::ALL.map(of_shape).into()
    }

    /// What a method answers. Each history is another user's: nothing is known of the one before.
    fn answers(&self, method: &Predictor) -> Answers {
        let mut answers = Answers::default();
        for history in &self.histories {
            answers.add(&mut method.clone(), history);
        }
        answers
    }
}

/// The tables, as text: hits by method, and whether probabilities are true. They are of made-up histories, or of a
/// service's own: each user of the database is a column.
///
/// # Errors
/// The database cannot be read.
pub fn report(database: Option<&Path>) -> Result<String> {
    let groups = match database {
        Some(path) => replay::users(path)?,
        None => Group::made_up(),
    };
    let answers = |method| groups.iter().map(|group| group.answers(method)).collect();
    let rows: Vec<(&str, Vec<Answers>)> = methods()
        .iter()
        .map(|(name, method)| (*name, answers(method)))
        .collect();
    let mut text = String::new();
    for (at, apps) in APPS.iter().enumerate() {
        let title = format!("The next launch is among {apps} apps, in percent");
        text += &table(&title, &groups, &rows, |answers| answers.next.percent(at));
        let title = format!(
            "Launched within {} hours after a pause, among {apps} apps, in percent",
            HORIZON_S / 3600
        );
        text += &table(&title, &groups, &rows, |answers| {
            answers.horizon.percent(at)
        });
    }
    Ok(text + &calibration(&groups))
}

/// A row a method, a column a group; the last is the average of the groups.
fn table(
    title: &str,
    groups: &[Group],
    rows: &[(&str, Vec<Answers>)],
    percent: impl Fn(&Answers) -> Option<f64>,
) -> String {
    let names = groups.iter().map(|group| group.name.as_str());
    let head = [""].into_iter().chain(names).chain(["average"]);
    let mut table = Table::new(title, "", head);
    for (name, answers) in rows {
        let percents: Vec<Option<f64>> = answers.iter().map(&percent).collect();
        let known: Vec<f64> = percents.iter().copied().flatten().collect();
        let average = known.iter().sum::<f64>() / known.len() as f64;
        let average = (!known.is_empty()).then_some(average);
        let cells = percents.into_iter().chain([average]);
        let cells = cells.map(|percent| match percent {
            Some(percent) => format!("{percent:.1}"),
            None => NOTHING.to_owned(),
        });
        table.push([(*name).to_owned()].into_iter().chain(cells));
    }
    format!("{title}\n{}\n", table.to_text())
}

/// Whether apps are launched as often as Paralfetch says, after pauses: all groups together, by tenths of probability.
fn calibration(groups: &[Group]) -> String {
    let mut tenths = [(0.0, 0.0, 0.0); 10];
    for history in groups.iter().flat_map(|group| &group.histories) {
        for at in (1..history.len()).filter(|&at| ends_a_pause(history, at)) {
            let launched = within_horizon(history, at);
            let past = predictors::past_launches(&history[..at]);
            for (app, probability) in probabilities(&past, history[at].at_s, 0) {
                let tenth = ((probability * 10.0) as usize).min(9);
                let (said, came, of) = &mut tenths[tenth];
                *said += probability;
                *came += f64::from(launched.contains(&app));
                *of += 1.0;
            }
        }
    }
    let title = "Said and launched within the horizon after a pause, in percent";
    let mut table = Table::new(title, "", ["said", "launched", "times"]);
    for (said, came, of) in tenths.into_iter().filter(|(_, _, of)| *of > 0.0) {
        let percents = [said, came].map(|sum| format!("{:.1}", 100.0 * sum / of));
        table.push(percents.into_iter().chain([of.to_string()]));
    }
    format!("{title}\n{}", table.to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(app: u32, at_s: u64) -> AppUse {
        AppUse {
            app,
            at_s,
            until_s: at_s + 1,
        }
    }

    #[test]
    fn hits_are_the_share_of_what_is_wanted_among_the_first_apps() {
        let mut hits = Hits::default();
        hits.add(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &BTreeSet::from([2, 3, 9]));
        hits.add(&[1], &BTreeSet::from([1]));
        let percents = [0, 1, 2].map(|at| hits.percent(at).unwrap().round());
        assert_eq!(percents, [67.0, 83.0, 83.0]);
        assert_eq!(Hits::default().percent(0), None);
    }

    /// Launches a minute apart, then a night, then two apps of which the method knows one.
    #[test]
    fn each_launch_is_asked_about_and_the_horizon_after_a_pause() {
        let day_s = 24 * 3600;
        let history = [used(1, 0), used(1, 60), used(1, day_s), used(2, day_s + 60)];
        let mut answers = Answers::default();
        answers.add(&mut Predictor::MostRecent, &history);
        assert_eq!((answers.next.of, answers.next.hits), (3.0, [2.0; 3]));
        assert_eq!((answers.horizon.of, answers.horizon.hits), (1.0, [0.5; 3]));
    }

    #[test]
    fn an_app_that_runs_takes_nobodys_place() {
        let running = AppUse {
            until_s: 1000,
            ..used(1, 5)
        };
        let history = [used(2, 0), used(3, 1), running, used(2, 20)];
        let mut answers = Answers::default();
        answers.add(&mut Predictor::MostRecent, &history);
        // 3 and 2 are the first two of those that are closed.
        assert_eq!(answers.next.hits[0], 1.0);
    }
}
