//! Who predicts: Paralfetch, parts of its evidence, and other methods.

use std::collections::BTreeMap;

use paralfetch::policy::likely::{Evidence, PastLaunch, probabilities_by};

use super::histories::AppUse;
use super::pairs::Pairs;

/// A method.
#[derive(Clone)]
pub enum Predictor {
    /// Paralfetch's, by some of its evidence.
    Paralfetch(Evidence),
    /// The app that was launched last is the likeliest.
    MostRecent,
    /// The one that was launched most often.
    MostFrequent,
    /// The one that followed the last app most often: a Markov chain of the first order.
    Successor,
    /// preload's.
    Preload(Box<Pairs>),
}

impl Predictor {
    /// The apps of the history until now, likeliest first; `past` is in order of time, and longer at each call.
    pub fn rank(&mut self, past: &[AppUse], now_s: u64) -> Vec<u32> {
        match self {
            Self::Paralfetch(evidence) => {
                let likely = probabilities_by(evidence, &past_launches(past), now_s, 0);
                likely.into_iter().map(|(app, _)| app).collect()
            }
            Self::MostRecent => ranked(last_launches(past)),
            Self::MostFrequent => ranked(counts(past)),
            Self::Successor => ranked(successions(past)),
            Self::Preload(pairs) => ranked(pairs.scores(past, now_s)),
        }
    }
}

/// As Paralfetch knows them: when apps are closed it does not.
pub fn past_launches(past: &[AppUse]) -> Vec<PastLaunch> {
    let launch = |used: &AppUse| PastLaunch {
        app: used.app,
        at_s: used.at_s,
    };
    past.iter().map(launch).collect()
}

/// Highest score first; of equal ones, the app that is first by its number.
fn ranked<Score: PartialOrd>(scores: BTreeMap<u32, Score>) -> Vec<u32> {
    let mut scores: Vec<(u32, Score)> = scores.into_iter().collect();
    scores.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
    scores.into_iter().map(|(app, _)| app).collect()
}

fn last_launches(past: &[AppUse]) -> BTreeMap<u32, u64> {
    past.iter().map(|used| (used.app, used.at_s)).collect()
}

/// How often; of equal ones, the one that was launched last.
fn counts(past: &[AppUse]) -> BTreeMap<u32, (usize, u64)> {
    let mut counts = BTreeMap::new();
    for used in past {
        let (count, last_s) = counts.entry(used.app).or_insert((0, 0));
        *count += 1;
        *last_s = used.at_s;
    }
    counts
}

/// How often each followed the last app; of equal ones, how often at all.
fn successions(past: &[AppUse]) -> BTreeMap<u32, (usize, (usize, u64))> {
    let last = past.last().map(|used| used.app);
    let mut scores: BTreeMap<u32, (usize, (usize, u64))> = counts(past)
        .into_iter()
        .map(|(app, count)| (app, (0, count)))
        .collect();
    for pair in past.windows(2).filter(|pair| Some(pair[0].app) == last) {
        if let Some((followed, _)) = scores.get_mut(&pair[1].app) {
            *followed += 1;
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(mut method: Predictor, apps: &[u32]) -> Vec<u32> {
        let past: Vec<AppUse> = (0..)
            .zip(apps)
            .map(|(at_s, &app)| AppUse {
                app,
                at_s,
                until_s: at_s,
            })
            .collect();
        method.rank(&past, past.len() as u64)
    }

    #[test]
    fn each_method_ranks_by_what_it_is_called() {
        let apps = [1, 3, 1, 2, 1, 3, 2, 2, 2, 1];
        assert_eq!(rank(Predictor::MostRecent, &apps), [1, 2, 3]);
        assert_eq!(rank(Predictor::MostFrequent, &apps), [1, 2, 3]);
        // 1 was followed by 3 twice, by 2 once.
        assert_eq!(rank(Predictor::Successor, &apps), [3, 2, 1]);
    }

    #[test]
    fn equal_counts_are_ranked_by_the_last_launch() {
        assert_eq!(
            rank(Predictor::MostFrequent, &[1, 2, 3, 3, 2, 1]),
            [1, 2, 3]
        );
        assert_eq!(rank(Predictor::MostFrequent, &[3, 2, 1]), [1, 2, 3]);
    }
}
