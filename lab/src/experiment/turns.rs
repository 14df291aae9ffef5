//! The launches that are still to be made, in order, given the records of earlier sessions.

use crate::record::{Launch, Record};

/// Attempts to make an undisturbed launch in each turn.
pub const ATTEMPTS: usize = 3;

/// One launch to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<S> {
    /// Number of the turn, from 0.
    pub turn: u32,
    /// The scenario.
    pub scenario: S,
}

/// The launches that are still missing for `runs` turns, in the order in which to perform them: the
/// scenarios take turns, so that what drifts, drifts for all. `order` gives those of a turn, from 0.
///
/// `done` are the records of this app on this drive. A launch that was disturbed does not count,
/// unless it has been tried [`ATTEMPTS`] times.
pub fn missing<S: Copy + ToString>(
    done: &[&Launch],
    order: impl Fn(u32) -> Vec<S>,
    runs: u32,
) -> Vec<Task<S>> {
    let is_done = |turn: u32, name: &str| {
        let mut tries = done
            .iter()
            .filter(|launch| launch.turn == turn && launch.scenario == name);
        tries.clone().any(|launch| launch.disturbed.is_empty()) || tries.nth(ATTEMPTS - 1).is_some()
    };
    (0..runs)
        .flat_map(|turn| {
            let scenarios = order(turn).into_iter();
            scenarios.map(move |scenario| Task { turn, scenario })
        })
        .filter(|task| !is_done(task.turn, &task.scenario.to_string()))
        .collect()
}

/// The launches of one app on one drive.
pub fn launches<'a>(records: &'a [Record], device: &str, app: &str) -> Vec<&'a Launch> {
    records
        .iter()
        .filter_map(|record| match record {
            Record::Launch(launch) if launch.device == device && launch.app == app => Some(launch),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(turn: u32, scenario: &str, disturbed: bool) -> Launch {
        Launch {
            turn,
            scenario: scenario.to_owned(),
            disturbed: if disturbed {
                vec!["steal".to_owned()]
            } else {
                vec![]
            },
            ..Launch::default()
        }
    }

    fn names(done: &[Launch]) -> Vec<(u32, &'static str)> {
        let done: Vec<&Launch> = done.iter().collect();
        missing(&done, |_| vec!["cold", "warm"], 2)
            .into_iter()
            .map(|task| (task.turn, task.scenario))
            .collect()
    }

    #[test]
    fn scenarios_take_turns() {
        let all = [(0, "cold"), (0, "warm"), (1, "cold"), (1, "warm")];
        assert_eq!(names(&[]), all);
    }

    #[test]
    fn what_is_done_is_not_repeated() {
        let done = [launch(0, "cold", false), launch(1, "warm", false)];
        assert_eq!(names(&done), [(0, "warm"), (1, "cold")]);
    }

    #[test]
    fn what_was_disturbed_is_repeated_but_not_for_ever() {
        let mut done = vec![launch(0, "cold", true); 2];
        assert_eq!(names(&done).first(), Some(&(0, "cold")));
        done.push(launch(0, "cold", true));
        assert_eq!(names(&done).first(), Some(&(0, "warm")));
    }
}
