//! Which apps are worth reading ahead.

use std::collections::{BTreeMap, BTreeSet};

/// An app is read ahead if it is launched within the horizon at least this often. Below, nine of ten bytes are read for
/// nobody, and the drive works ten times for one launch.
const LEAST_PROBABILITY: f64 = 0.1;

/// What having an app in the caches would cost and save.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Which app, as in [`super::PastLaunch`].
    pub app: u32,
    /// Microseconds that a cold launch waits longer than a warm one.
    pub saved_us: u64,
    /// Bytes of its profile that may have to be read: all of them, where it is not known which are cached.
    pub bytes: u64,
}

/// The candidates worth reading ahead within `budget_bytes`, most expected seconds saved per byte first. Left out are
/// those that are cached, that save nothing, or that are too unlikely; one that does not fit makes room for the next.
/// Of several candidates of one app the best counts.
pub fn worthwhile(
    candidates: &[Candidate],
    probabilities: &[(u32, f64)],
    budget_bytes: u64,
) -> Vec<u32> {
    let likely: BTreeMap<u32, f64> = probabilities
        .iter()
        .filter(|(_, probability)| *probability >= LEAST_PROBABILITY)
        .map(|&(app, probability)| (app, probability.min(1.0)))
        .collect();
    let mut ranked: Vec<(f64, Candidate)> = candidates
        .iter()
        .filter(|candidate| candidate.bytes > 0 && candidate.saved_us > 0)
        .filter_map(|candidate| {
            let probability = likely.get(&candidate.app)?;
            let saved_per_byte = probability * candidate.saved_us as f64 / candidate.bytes as f64;
            Some((saved_per_byte, *candidate))
        })
        .collect();
    ranked.sort_by(|(a_value, a), (b_value, b)| {
        let smaller = (a.bytes, a.app).cmp(&(b.bytes, b.app));
        b_value.total_cmp(a_value).then(smaller)
    });
    let mut left_bytes = budget_bytes;
    let mut seen = BTreeSet::new();
    ranked.retain(|(_, candidate)| {
        let fits = seen.insert(candidate.app) && candidate.bytes <= left_bytes;
        if fits {
            left_bytes -= candidate.bytes;
        }
        fits
    });
    ranked.iter().map(|(_, candidate)| candidate.app).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(app: u32, saved_us: u64, bytes: u64) -> Candidate {
        Candidate {
            app,
            saved_us,
            bytes,
        }
    }

    #[test]
    fn most_expected_seconds_per_byte_come_first() {
        let candidates = [
            candidate(1, 1_000_000, 100),
            candidate(2, 1_000_000, 10),
            candidate(3, 9_000_000, 100),
        ];
        let even = [(1, 0.5), (2, 0.5), (3, 0.5)];
        assert_eq!(worthwhile(&candidates, &even, 1000), [2, 3, 1]);
        let first = [(1, 1.0), (2, 0.5), (3, 0.11)];
        assert_eq!(worthwhile(&candidates, &first, 1000), [2, 1, 3]);
    }

    #[test]
    fn what_does_not_fit_makes_room_for_the_next() {
        let candidates = [
            candidate(1, 9_000_000, 60),
            candidate(2, 5_000_000, 50),
            candidate(3, 1_000_000, 40),
        ];
        let even = [(1, 0.5), (2, 0.5), (3, 0.5)];
        assert_eq!(worthwhile(&candidates, &even, 100), [1, 3]);
        assert!(worthwhile(&candidates, &even, 0).is_empty());
    }

    #[test]
    fn what_is_cached_saves_nothing_or_is_unlikely_is_left_out() {
        let candidates = [
            candidate(1, 1_000_000, 0),
            candidate(2, 0, 10),
            candidate(3, 1_000_000, 10),
            candidate(4, 1_000_000, 10),
            candidate(5, 1_000_000, 10),
        ];
        let likely = [(1, 0.9), (2, 0.9), (3, 0.09), (4, f64::NAN)];
        assert!(worthwhile(&candidates, &likely, 1000).is_empty());
    }

    #[test]
    fn an_app_is_chosen_once_by_its_best_candidate() {
        let candidates = [
            candidate(1, 1_000_000, 50),
            candidate(1, 1_000_000, 40),
            candidate(2, 1_000_000, 45),
        ];
        let even = [(1, 0.5), (2, 0.5)];
        assert_eq!(worthwhile(&candidates, &even, 85), [1, 2]);
        assert_eq!(worthwhile(&candidates, &even, 84), [1]);
    }

    fn any_number() -> impl Strategy<Value = u64> {
        prop_oneof![0..1000u64, Just(0), Just(u64::MAX), any::<u64>()]
    }

    proptest! {
        /// Whatever the numbers are.
        #[test]
        fn the_budget_is_never_exceeded(
            candidates in prop::collection::vec(
                (0..8u32, any_number(), any_number())
                    .prop_map(|(app, saved_us, bytes)| candidate(app, saved_us, bytes)),
                0..20,
            ),
            probabilities in prop::collection::vec((0..8u32, any::<f64>()), 0..8),
            budget_bytes in any_number(),
        ) {
            let chosen = worthwhile(&candidates, &probabilities, budget_bytes);
            let apps: BTreeSet<u32> = chosen.iter().copied().collect();
            prop_assert_eq!(apps.len(), chosen.len());
            // Of two candidates of one app, the smaller may be meant.
            let least_bytes: u128 = apps
                .iter()
                .map(|app| {
                    let of_app = candidates.iter().filter(|candidate| candidate.app == *app);
                    of_app.map(|candidate| u128::from(candidate.bytes)).min().unwrap_or(u128::MAX)
                })
                .sum();
            prop_assert!(least_bytes <= u128::from(budget_bytes));
        }
    }
}
