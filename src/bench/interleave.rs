//! The order of launches: scenarios take turns, so that a drift of the machine affects all alike.

use super::results::{Results, Sample, Scenario};

/// Performs launches. Tests replace it by one that starts nothing.
pub trait Launcher {
    /// Why a launch could not be measured.
    type Error;

    /// Brings the caches into the scenario's state, launches once, and measures.
    fn launch(&mut self, scenario: Scenario) -> Result<Sample, Self::Error>;

    /// Called after each launch with the number of launches that are done, and of all.
    fn progress(&mut self, scenario: Scenario, sample: Sample, done: usize, of: usize);
}

/// Launches each scenario `runs` times, in turns, and adds what is found to `results`.
///
/// Cold comes first in each turn and warm last: a warm launch then follows one of the same app.
///
/// # Errors
/// The launcher's first error; what was measured before is in `results`.
pub fn interleave<L: Launcher>(
    launcher: &mut L,
    scenarios: &[Scenario],
    runs: usize,
    results: &mut Results,
) -> Result<(), L::Error> {
    let mut order = scenarios.to_vec();
    order.sort();
    order.dedup();
    let of = order.len() * runs;
    let mut done = 0;
    for _ in 0..runs {
        for &scenario in &order {
            let sample = launcher.launch(scenario)?;
            results.push(scenario, sample);
            done += 1;
            launcher.progress(scenario, sample, done, of);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Fake {
        launched: Vec<Scenario>,
        progress: Vec<(usize, usize)>,
        fail_at: Option<usize>,
    }

    impl Launcher for Fake {
        type Error = &'static str;

        fn launch(&mut self, scenario: Scenario) -> Result<Sample, Self::Error> {
            if self.fail_at == Some(self.launched.len()) {
                return Err("no luck");
            }
            self.launched.push(scenario);
            Ok(Sample::default())
        }

        fn progress(&mut self, _: Scenario, _: Sample, done: usize, of: usize) {
            self.progress.push((done, of));
        }
    }

    #[test]
    fn scenarios_take_turns() {
        let mut fake = Fake::default();
        let mut results = Results::default();
        let asked = [
            Scenario::Warm,
            Scenario::Cold,
            Scenario::Prefetch,
            Scenario::Cold,
        ];
        interleave(&mut fake, &asked, 2, &mut results).unwrap();
        let turn = [Scenario::Cold, Scenario::Prefetch, Scenario::Warm];
        assert_eq!(fake.launched, [turn, turn].concat());
        assert_eq!(fake.progress.last(), Some(&(6, 6)));
        assert_eq!(results.scenarios["warm"].seconds.len(), 2);
    }

    #[test]
    fn an_error_keeps_what_was_measured() {
        let mut fake = Fake {
            fail_at: Some(2),
            ..Fake::default()
        };
        let mut results = Results::default();
        let asked = [Scenario::Cold, Scenario::Warm];
        assert_eq!(
            interleave(&mut fake, &asked, 5, &mut results),
            Err("no luck")
        );
        assert_eq!(results.scenarios["cold"].seconds.len(), 1);
        assert_eq!(results.scenarios["warm"].seconds.len(), 1);
    }
}
