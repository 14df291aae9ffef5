//! Values in words.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::shown;

/// Bytes of a path as text; what is not UTF-8 and what [`shown`] replaces is replaced.
pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(shown).collect()
}

/// Seconds since the epoch as local date and time, such as `2026-01-31 23:59`.
pub fn date(seconds: u64) -> String {
    local(seconds, "%Y-%m-%d %H:%M")
}

/// Seconds since the epoch as local date and time within half a year, such as `01-31 23:59`, and as date beyond that, as
/// ls(1) does.
pub fn recent(seconds: u64) -> String {
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    recent_at(seconds, now)
}

fn recent_at(seconds: u64, now: u64) -> String {
    const HALF_A_YEAR: u64 = 182 * 24 * 60 * 60;
    match seconds.abs_diff(now) <= HALF_A_YEAR {
        true => local(seconds, "%m-%d %H:%M"),
        false => day(seconds),
    }
}

/// Seconds since the epoch as local time of the day, such as `17:05:59`.
pub fn time_of_day(seconds: u64) -> String {
    local(seconds, "%H:%M:%S")
}

/// Seconds since the epoch as local date, such as `2026-01-31`.
pub fn day(seconds: u64) -> String {
    local(seconds, "%Y-%m-%d")
}

fn local(seconds: u64, format: &str) -> String {
    let time = i64::try_from(seconds).ok();
    let time = time.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let text = time.map(|time| {
        time.to_zoned(TimeZone::system())
            .strftime(format)
            .to_string()
    });
    text.unwrap_or_else(|| "(no date)".to_owned())
}

/// Bytes in MiB, with one decimal.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Bytes in KiB or, from one on, in MiB.
pub fn kib(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        _ => mib(bytes),
    }
}

/// A number of things, such as `1 app` and `2 apps`.
pub fn counted(number: u64, one: &str, several: &str) -> String {
    let what = if number == 1 { one } else { several };
    format!("{number} {what}")
}

/// Microseconds in seconds, with three decimals.
pub fn seconds(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_out_of_range_are_said_so() {
        assert_eq!(date(u64::MAX), "(no date)");
        assert_eq!(date(1_709_210_096).len(), "2024-02-29 12:34".len());
        assert_eq!(day(1_709_210_096).len(), "2024-02-29".len());
        let at = |now| recent_at(1_709_210_096, now).len();
        assert_eq!(at(1_709_210_096), "02-29 12:34".len());
        assert_eq!(at(1_809_210_096), "2024-02-29".len());
    }

    #[test]
    fn one_thing_is_counted_as_one() {
        let apps = |number| counted(number, "app", "apps");
        assert_eq!([0, 1, 2].map(apps), ["0 apps", "1 app", "2 apps"]);
    }

    #[test]
    fn hostile_names_do_not_reach_the_terminal() {
        assert_eq!(text_of(b"a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(text_of(b"\xff"), "\u{fffd}");
        assert_eq!(
            text_of("gimp\u{202e}cod.exe".as_bytes()),
            "gimp\u{fffd}cod.exe"
        );
    }
}
