//! What a benchmark means, in one sentence.

use super::results::{Results, Scenario, Series, median_count};
use crate::policy::{NoGainFacts, NoGainReason, why_no_gain};

/// A difference below this share of the cold launch is none.
const LEAST: f64 = 0.03;

/// A warm launch of at least this share of the cold one leaves nothing to gain.
const NOTHING_TO_GAIN: f64 = 0.93;

/// A cold launch that ended before this share of a warm one had not come as far: it fell quiet in between, and launches
/// were not timed to the same point.
const NOT_AS_FAR: f64 = 0.8;

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
    let warm = of(Scenario::Warm).and_then(Series::median);
    if let Some(warm) = warm.filter(|warm| before < NOT_AS_FAR * warm) {
        return format!(
            "these times say nothing: cold launches were over after {before:.2} s, and those with everything cached after \
             {warm:.2} s, so they did not come to the same point; run it again, or with an app that exits by itself \
             (--until exit)"
        );
    }
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
    let why = why_not(results, cold, prefetched, (before, warm));
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

fn why_not(
    results: &Results,
    cold: &Series,
    prefetched: &Series,
    (before, warm): (f64, Option<f64>),
) -> String {
    let bytes = |counts: &[u64]| median_count(counts).unwrap_or(0.0);
    let (needed, brought) = (bytes(&cold.read_bytes), bytes(&prefetched.prefetch_bytes));
    if let Some(delay) = results.slow_opens {
        return format!(
            "another program is asked before each file is opened, and takes {:.1} ms to answer, so that opening files ahead \
             costs more than it saves; have it leave out the app's directories (paralfetch doctor names it)",
            delay.as_secs_f64() * 1e3
        );
    }
    match warm {
        Some(warm) if warm >= NOTHING_TO_GAIN * before => format!(
            "with everything cached a launch takes {warm:.2} s, too; it does not wait for the drive, and need not be \
             managed"
        ),
        _ if needed > 0.0 && brought > TOO_MUCH * needed => format!(
            "the profile brings {:.1} times what a cold launch reads; learn it again (paralfetch learn)",
            brought / needed
        ),
        _ => large_readahead(results).unwrap_or_else(|| {
            "the profile may be of another launch than these: learn it again (paralfetch learn), and see what this \
             system lacks (paralfetch doctor). If it stays so, leave the app alone (paralfetch disable)"
                .to_owned()
        }),
    }
}

/// Says that the kernel's readahead leaves little to gain, if it is so large.
fn large_readahead(results: &Results) -> Option<String> {
    let facts = NoGainFacts {
        readahead_kib: results.readahead_kib,
        ..NoGainFacts::default()
    };
    let Some(NoGainReason::LargeReadahead { kib }) = why_no_gain(&facts) else {
        return None;
    };
    Some(format!(
        "the readahead of its drive is {kib} KiB, so that the kernel itself reads most of what it needs in time; leave the \
         app alone (paralfetch disable)"
    ))
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
                &[(Cold, 0.6, 10), (Prefetch, 3.2, 10), (Warm, 2.0, 0)],
                &["say nothing", "0.60 s", "2.00 s", "same point"],
            ),
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

    #[test]
    fn a_program_that_delays_opens_and_a_large_readahead_are_reasons() {
        use Scenario::{Cold, Prefetch, Warm};
        let none = [(Cold, 1.0, 10), (Prefetch, 1.0, 10), (Warm, 0.5, 0)];
        let readahead = Results {
            readahead_kib: Some(8192),
            ..results(&none)
        };
        let said = verdict(&readahead);
        assert!(said.contains("is 8192 KiB"), "{said}");
        let mut scanned = readahead;
        let slow_opens = Some(std::time::Duration::from_micros(2100));
        let late = Sample {
            seconds: 1.0,
            slow_opens,
            ..Sample::default()
        };
        scanned.push(Prefetch, late);
        scanned.push(
            Prefetch,
            Sample {
                slow_opens: None,
                ..late
            },
        );
        let said = verdict(&scanned);
        assert!(said.contains("takes 2.1 ms to answer"), "{said}");
    }
}
