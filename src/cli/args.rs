//! The command line, as clap sees it. The doc comments are the help texts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::Scenario;
use crate::policy::PhaseRequest;

/// Where profiles are kept.
pub const DEFAULT_STATE_DIR: &str = "/var/lib/paralfetch";

/// Start large applications faster from a cold cache: learn one launch, prefetch every later one.
#[derive(Debug, Parser)]
#[command(name = "paralfetch", version, arg_required_else_help = true)]
pub struct Cli {
    /// Directory of the profiles
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
    pub state_dir: PathBuf,
    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Watch one launch of CMD, from a cold cache, and keep what it reads as the app's profile
    Learn(Learn),
    /// Start CMD and read its profile ahead while it runs
    Run(RunArgs),
    /// Print the profile of APP: its prefetch entries, files, totals and scheduling parameters
    Show(Show),
    /// List the apps that have a profile
    List(List),
    /// Remove the profile of APP
    Forget(Forget),
    /// Compare cold, prefetched and warm launches of CMD
    Bench(Bench),
    /// Say what this system allows: what works, what does not, and what that costs
    Doctor(Doctor),
    /// Manage APP: learn its next launch, and prefetch it from then on
    Enable(Enable),
    /// Leave APP alone from its next launch on
    Disable(Disable),
    /// Print which apps the service manages, or set it
    Mode(SetMode),
    /// Say how the service is doing: what it manages, its memory, what it can see
    Status(StatusArgs),
    /// Print what is known of the launches of APP, or of all apps
    Stats(Stats),
    /// Print launches as they begin and end
    Watch(WatchArgs),
    /// Set the phase of APP by the number that the original has for it
    Pfsetmode(Pfsetmode),
    /// Run the system service: see launches, learn them, prefetch them
    Service(ServiceArgs),
    /// Restores knobs when the process that changed them is gone
    #[command(name = "keep-knobs", hide = true)]
    KeepKnobs {
        /// Do not wait any longer, in seconds
        limit: u64,
    },
}

#[derive(Debug, Args)]
pub struct Learn {
    /// Report as one line of JSON, on standard error or into FILE, instead of text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub how: Learning,
    /// Learn from the launch as it comes, whatever is cached: it drops no cache and changes no readahead
    #[arg(long, conflicts_with = "as_read")]
    pub live: bool,
    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// How a launch is learned.
#[derive(Debug, Args)]
pub struct Learning {
    /// Give up on a launch that has not become quiet after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: Duration,
    /// Learn what the drive reads with its usual readahead, instead of exactly what the app touches
    #[arg(long)]
    pub as_read: bool,
}

/// What is launched.
#[derive(Debug, Args)]
pub struct LaunchArgs {
    /// Run CMD chrooted into DIR, such as a mounted image
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// The application and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Report on standard error what was prefetched, skipped and missed, once the app has ended
    #[arg(short, long)]
    pub verbose: bool,
    /// List what the launch had to read itself all the same, and why: as text on standard error once
    /// the app has ended, or as JSON lines into FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub report: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub launch: LaunchArgs,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Name or absolute path of the app, as `list` prints it
    pub app: OsString,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Forget {
    /// Name or absolute path of the app, as `list` prints it
    pub app: OsString,
}

#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// Directory of config.toml, its drop-ins and launcher rules
    #[arg(long, value_name = "DIR", default_value = crate::service::CONFIG_DIR)]
    pub config_dir: PathBuf,
    /// Directory of the socket and the file for announcements
    #[arg(long, value_name = "DIR", default_value = crate::service::announce::DIRECTORY)]
    pub run_dir: PathBuf,
    /// Do not serve the bus
    #[arg(long)]
    pub no_bus: bool,
}

#[derive(Debug, Args)]
pub struct Enable {
    /// Path, command or .desktop entry of the app
    pub app: OsString,
}

#[derive(Debug, Args)]
pub struct Disable {
    /// Path, command or .desktop entry of the app
    pub app: OsString,
}

/// Which apps the service manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Those that were enabled
    Manual,
    /// Those, all that have a .desktop entry, and programs whose launches turn out to be worth it
    Automatic,
}

#[derive(Debug, Args)]
pub struct SetMode {
    /// The mode to set
    #[arg(value_enum)]
    pub mode: Option<ModeArg>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Stats {
    /// Path, command or name of the app, as `list` prints it
    pub app: Option<OsString>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Print JSON, a line for each event
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Pfsetmode {
    /// 3: learn the next launch; 1: prefetch; 9: disable
    #[arg(value_name = "PHASE", value_parser = phase)]
    pub request: PhaseRequest,
    /// Path of the app
    pub app: OsString,
}

/// What ends a measured launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The app's exit
    Exit,
    /// The arrival of the completion block, the last that the app read before its disk fell quiet;
    /// the app is then ended
    Quiet,
}

#[derive(Debug, Args)]
pub struct Bench {
    /// Launches of each scenario
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Scenarios to compare
    #[arg(long, value_delimiter = ',', default_value = "cold,warm,prefetch")]
    pub scenarios: Vec<Scenario>,
    /// What ends a launch
    #[arg(long, value_enum, default_value = "exit")]
    pub until: Until,
    /// Write the results to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub how: Learning,
    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// The phase byte of the original.
fn phase(text: &str) -> Result<PhaseRequest, String> {
    text.parse()
        .ok()
        .and_then(PhaseRequest::from_byte)
        .ok_or_else(|| "wanted: 3 (learn), 1 (prefetch) or 9 (disable)".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = "wanted: a number of seconds between 1 and 3600";
    let seconds: f64 = text.parse().map_err(|_| wanted.to_owned())?;
    if !(1.0..=3600.0).contains(&seconds) {
        return Err(wanted.to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The manual page and the help texts are of the same commands and options, and so is the README
    /// of the commands.
    #[test]
    fn the_manual_names_every_command_and_option() {
        let manual = include_str!("../../man/paralfetch.1").replace("\\-", "-");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            if command.is_hide_set() {
                continue;
            }
            assert!(
                manual.contains(&format!("\\fB{name}\\fR"))
                    || manual.contains(&format!(".B paralfetch {name}")),
                "{name} is not in the manual"
            );
            let options = command.get_arguments().filter_map(|arg| arg.get_long());
            for option in options.filter(|&option| option != "help" && option != "version") {
                assert!(
                    manual.contains(&format!("--{option}")),
                    "--{option} of {name} is not in the manual"
                );
            }
        }
        let readme = include_str!("../../README.md");
        for name in [
            "learn", "run", "bench", "show", "doctor", "enable", "disable", "mode", "status",
            "stats", "watch",
        ] {
            assert!(
                readme.contains(&format!("paralfetch {name}")),
                "{name} is not in the README"
            );
        }
    }

    #[test]
    fn commands_follow_the_dashes() {
        let cli = Cli::parse_from([
            "paralfetch",
            "--state-dir",
            "/s",
            "run",
            "-v",
            "--",
            "a",
            "-b",
        ]);
        assert_eq!(cli.state_dir, PathBuf::from("/s"));
        let CliCommand::Run(run) = cli.command else {
            panic!("not run");
        };
        assert!(run.verbose);
        assert_eq!(run.launch.cmd, ["a", "-b"]);
    }

    #[test]
    fn files_of_reports_are_optional() {
        let of = |option: &str| {
            let cli = Cli::parse_from(["paralfetch", "run", option, "--", "a"]);
            let CliCommand::Run(run) = cli.command else {
                panic!("not run");
            };
            run.report
        };
        assert_eq!(of("-v"), None);
        assert_eq!(of("--report"), Some(None));
        assert_eq!(of("--report=f"), Some(Some(PathBuf::from("f"))));
    }

    #[test]
    fn phases_are_the_numbers_of_the_original() {
        let of = |phase: &str| {
            let cli = Cli::try_parse_from(["paralfetch", "pfsetmode", phase, "/a"]).ok()?;
            let CliCommand::Pfsetmode(args) = cli.command else {
                panic!("not pfsetmode");
            };
            Some(args.request)
        };
        assert_eq!(of("3"), Some(PhaseRequest::Learn));
        assert_eq!(of("1"), Some(PhaseRequest::Prefetch));
        assert_eq!(of("9"), Some(PhaseRequest::Disable));
        for bad in ["", "0", "2", "257", "x"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn timeouts_are_bounded() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        for bad in ["", "0", "-1", "nan", "inf", "3601", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
