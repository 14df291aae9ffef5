//! The command line's arguments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Print who waits uninterruptibly, for what and for whom
///
/// On the whole system, or in CMD and what it starts. It needs root.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80, after_help = EXIT_STATUS)]
pub struct WaitsArgs {
    /// Print JSON lines, one for each wait and a last one with the totals; of a command, on standard error
    /// or into FILE once it has ended
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,
    /// Watch the system for this long; without it, until Ctrl-C
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds, conflicts_with = "cmd")]
    pub duration: Option<Duration>,
    /// Leave out shorter waits
    #[arg(long, value_name = "MS", default_value = "1", value_parser = milliseconds)]
    pub least: Duration,
    /// Say in the end what share of a processor the detector took
    #[arg(long)]
    pub cost: bool,
    /// Run CMD chrooted into DIR, such as a mounted image
    #[arg(long, value_name = "DIR", requires = "cmd")]
    pub root: Option<PathBuf>,
    /// A command and its arguments, whose waits are reported when it has ended
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,
}

const EXIT_STATUS: &str = "\
Exit status: that of CMD. 1: failed; 2: wrong usage. With CMD, 125: failed;
126, 127: it cannot be executed, it is not found.";

fn seconds(text: &str) -> Result<Duration, String> {
    between(text, 1.0..=3600.0)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "wanted: a number of seconds between 1 and 3600".to_owned())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    between(text, 0.0..=60_000.0)
        .map(|ms| Duration::from_secs_f64(ms / 1e3))
        .ok_or_else(|| "wanted: a number of milliseconds between 0 and 60000".to_owned())
}

fn between(text: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
    text.parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_its_page_names_every_option() {
        let mut command = WaitsArgs::command();
        command.clone().debug_assert();
        let page = include_str!("../../../docs/waits.md");
        for option in command.get_arguments().filter_map(|arg| arg.get_long()) {
            assert!(page.contains(&format!("--{option}")), "{option}");
        }
        let help = command.render_long_help().to_string();
        let is_long = |line: &&str| line.chars().count() > 80 && !line.starts_with("Usage:");
        assert_eq!(help.lines().find(is_long), None, "{help}");
    }

    #[test]
    fn waits_are_those_of_the_system_or_of_a_command() {
        let waits = |arguments: &[&str]| {
            WaitsArgs::try_parse_from([&["paralfetch-waits"], arguments].concat()).ok()
        };
        let live = waits(&["--for", "2", "--least", "0.5", "--json"]).unwrap();
        assert_eq!(live.duration, Some(Duration::from_secs(2)));
        assert_eq!(live.least, Duration::from_micros(500));
        assert_eq!((live.json, live.cmd.len()), (Some(None), 0));
        let command = waits(&["--cost", "--", "dd", "--for"]).unwrap();
        assert!(command.cost);
        assert_eq!(command.cmd, ["dd", "--for"]);
        assert_eq!(command.least, Duration::from_millis(1));
        assert_eq!(waits(&["dd", "--for"]).unwrap().cmd, ["dd", "--for"]);
        assert!(waits(&["--for", "2", "--", "dd"]).is_none());
        assert!(waits(&["--root", "/"]).is_none());
        for bad in ["-1", "60001", "nan", "x"] {
            assert!(waits(&["--least", bad]).is_none(), "{bad}");
        }
        for bad in ["", "0", "-1", "nan", "inf", "3601", "x"] {
            assert!(waits(&["--for", bad]).is_none(), "{bad}");
        }
    }
}
