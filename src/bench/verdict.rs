//! What a benchmark means, in one sentence.

use super::results::{Results, Scenario, Series, median_count};

/// A difference below this share of the cold launch is none.
const LEAST: f64 = 0.03;

/// A warm launch of at least this share of the cold one leaves nothing to gain.
const NOTHING_TO_GAIN: f64 = 0.93;

/// A prefetch of more than this multiple of what a cold launch reads brings what the launch does not need.
const TOO_MUCH: f64 = 1.5;

/// How much faster prefetched launches are than cold ones; where they are not, why, as far as the figures tell, and what to
/// do.
pub fn verdict(results: &Results) -> String {
    let of = |scenario: Scenario| results.scenarios.get(scenario.name());
    let (Some(cold), Some(prefetched)) = (of(Scenario::Cold), of(Scenario::Prefetch)) else {
        return "without cold and prefetched launches nothing can be said of prefetching: --scenarios cold,prefetch"
            .to_owned();
    };
    let (Some(before), Some(after)) = (cold.median(), prefetched.median()) else {
        return "no launch was measured".to_owned();
    };
    let times = match before < 0.1 {
        true => format!("{:.1} ms instead of {:.1} ms", after * 1e3, before * 1e3),
        false => format!("{after:.2} s instead of {before:.2} s"),
    };
    if before - after >= LEAST * before {
        if overlap(cold, prefetched) {
            return format!(
                "prefetched launches are {:.2} times as fast as cold ones ({times}), but some of both took as long: \
                 --runs 10 tells more",
                before / after
            );
        }
        return format!(
            "prefetched launches are {:.2} times as fast as cold ones: {times}",
            before / after
        );
    }
    let why = why_not(results, cold, prefetched, before);
    match after - before >= LEAST * before {
        true => format!("prefetching makes launches slower here ({times}): {why}"),
        false => format!("prefetching gains nothing here ({times}): {why}"),
    }
}

/// Whether the fastest of the slower ones was no slower than the slowest of the faster ones.
fn overlap(cold: &Series, prefetched: &Series) -> bool {
    let fastest = cold.seconds.iter().copied().fold(f64::INFINITY, f64::min);
    prefetched.seconds.iter().any(|seconds| *seconds >= fastest)
}

fn why_not(results: &Results, cold: &Series, prefetched: &Series, before: f64) -> String {
    let warm = results.scenarios.get(Scenario::Warm.name());
    let warm = warm.and_then(Series::median);
    let bytes = |counts: &[u64]| median_count(counts).unwrap_or(0.0);
    let (needed, brought) = (bytes(&cold.read_bytes), bytes(&prefetched.prefetch_bytes));
    match warm {
        Some(warm) if warm >= NOTHING_TO_GAIN * before => format!(
            "with everything cached a launch takes {warm:.2} s, too; it does not wait for the drive, and need not be \
             managed"
        ),
        _ if needed > 0.0 && brought > TOO_MUCH * needed => format!(
            "the profile brings {:.1} times what a cold launch reads; learn it again (paralfetch learn)",
            brought / needed
        ),
        _ => "the profile may be of another launch than these: learn it again (paralfetch learn), and see what this \
              system lacks (paralfetch doctor). If it stays so, leave the app alone (paralfetch disable)"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::Sample;
    use super::*;

    fn results(launches: &[(Scenario, f64, u64)]) -> Results {
        let mut results = Results::default();
        for &(scenario, seconds, bytes) in launches {
            let sample = Sample {
                seconds,
                read_bytes: bytes,
                prefetch_bytes: bytes,
                ..Sample::default()
            };
            results.push(scenario, sample);
        }
        results
    }

    #[test]
    fn a_gain_is_a_factor_and_a_loss_has_a_reason_and_what_to_do() {
        use Scenario::{Cold, Prefetch, Warm};
        for (launches, parts) in [
            (
                &[(Cold, 2.1, 10), (Prefetch, 1.0, 10)][..],
                &["are 2.10 times as fast", "1.00 s instead of 2.10 s"][..],
            ),
            (
                &[
                    (Cold, 2.0, 10),
                    (Cold, 1.0, 10),
                    (Cold, 2.2, 10),
                    (Prefetch, 1.0, 10),
                ],
                &["2.00 times", "--runs 10"],
            ),
            (
                &[(Cold, 1.0, 10), (Prefetch, 1.0, 10), (Warm, 0.95, 0)],
                &["gains nothing", "does not wait for the drive"],
            ),
            (
                &[(Cold, 0.1, 10), (Prefetch, 0.15, 20), (Warm, 0.05, 0)],
                &["slower here", "2.0 times what a cold launch reads", "learn"],
            ),
            (
                &[(Cold, 1.0, 10), (Prefetch, 1.1, 10), (Warm, 0.5, 0)],
                &["slower here", "paralfetch doctor", "paralfetch disable"],
            ),
            (&[(Cold, 2.0, 10), (Prefetch, 1.92, 10)], &["1.04 times"]),
            (
                &[(Cold, 0.0121, 10), (Prefetch, 0.0108, 10)],
                &["10.8 ms instead of 12.1 ms"],
            ),
            (&[(Cold, 1.0, 10)], &["--scenarios cold,prefetch"]),
        ] {
            let said = verdict(&results(launches));
            for part in parts {
                assert!(said.contains(part), "{part}: {said}");
            }
            assert_eq!(said.lines().count(), 1);
        }
    }
}
