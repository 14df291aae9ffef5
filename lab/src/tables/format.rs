//! Numbers as readers expect them.

use super::stats::Estimate;
use super::table::NOTHING;

/// Seconds with three significant digits or so: `0.734`, `12.3`.
pub fn seconds(seconds: f64) -> String {
    match seconds.abs() {
        large if large >= 10.0 => format!("{seconds:.1}"),
        middle if middle >= 1.0 => format!("{seconds:.2}"),
        small if small >= 0.1 => format!("{seconds:.3}"),
        _ => format!("{seconds:.4}"),
    }
}

/// A share as a percentage: `86 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", positive_zero((share * 100.0).round()))
}

/// A small share as a percentage: `0.4 %`.
pub fn tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A change as a percentage with its sign: `+15 %`.
pub fn change(share: f64) -> String {
    format!("{:+.0} %", positive_zero((share * 100.0).round())).replace('-', "−")
}

// A rounded −0.3 is not "-0".
fn positive_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// A normalized time: `0.45`.
pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// A normalized time and its interval: `0.45 (0.43–0.48)`.
pub fn ratio_with_interval(estimate: Estimate) -> String {
    with_interval(estimate, 2)
}

/// A ratio that is near 1, and its interval: `1.012 (1.004–1.021)`.
pub fn near_one_with_interval(estimate: Estimate) -> String {
    with_interval(estimate, 3)
}

fn with_interval(estimate: Estimate, digits: usize) -> String {
    let value = estimate.value;
    match estimate.interval {
        Some((low, high)) => format!("{value:.digits$} ({low:.digits$}–{high:.digits$})"),
        None => format!("{value:.digits$} (1 run)"),
    }
}

/// Bytes in MiB.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// The text, or a dash for none.
pub fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_owned())
}

/// Names as a sentence has them: `a, b and c`.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A time of day in UTC from seconds since the epoch: `2026-03-01 14:05 UTC`.
pub fn date(epoch: u64) -> String {
    let timestamp = i64::try_from(epoch)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok());
    or_nothing(timestamp.map(|t| t.strftime("%Y-%m-%d %H:%M UTC").to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(seconds(0.7344), "0.734");
        assert_eq!(seconds(12.345), "12.3");
        assert_eq!(seconds(0.00412), "0.0041");
        assert_eq!(percent(0.856), "86 %");
        assert_eq!(percent(-0.001), "0 %");
        assert_eq!(change(0.152), "+15 %");
        assert_eq!(change(-0.001), "+0 %");
        assert_eq!(change(-0.64), "−64 %");
        assert_eq!(mebibytes(3 << 19), "1.5");
        let estimate = Estimate {
            value: 0.451,
            interval: Some((0.43, 0.484)),
        };
        assert_eq!(ratio_with_interval(estimate), "0.45 (0.43–0.48)");
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(u64::MAX), NOTHING);
    }
}
