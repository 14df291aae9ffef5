//! The command line, as clap sees it. The doc comments are the help texts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, value_parser};

use crate::bench::{LaunchEnd, Scenario};
use crate::policy::PhaseRequest;
use crate::service::config::Mode;

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
    /// Record one launch of CMD from a cold cache, as its profile
    Learn(Learn),
    /// Start CMD and prefetch its profile while it runs
    Run(RunArgs),
    /// Draw what the profile of APP covers of each file
    Show {
        /// The app: a command, a path, a .desktop entry, or its name in the menu
        app: OsString,
        /// List the prefetch entries, in their order, instead of drawing files
        #[arg(long)]
        entries: bool,
        /// Print JSON, which has the entries
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        user: WhichUser,
    },
    /// List your apps, their launches, and what prefetching saves
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        user: WhichUser,
    },
    /// Remove the profile of APP, and its launches
    Forget {
        /// The app: a command, a path, a .desktop entry, or its name in the menu
        app: OsString,
        #[command(flatten)]
        user: WhichUser,
    },
    /// Write the profile of APP for other machines
    Export {
        /// The app: a command, a path, a .desktop entry, or its name in the menu
        #[arg(required_unless_present = "all")]
        app: Option<OsString>,
        /// Write to FILE instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Write a file for each app that was learned into DIR, for an image or a package
        #[arg(long, value_name = "DIR", conflicts_with_all = ["app", "output"])]
        all: Option<PathBuf>,
        #[command(flatten)]
        user: WhichUser,
    },
    /// Take exported profiles for the first launches of their apps
    Import {
        /// Import for apps that are chrooted into DIR, such as a mounted image
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// What `export` wrote
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Compare cold, prefetched and warm launches of CMD
    Bench(Bench),
    /// Check what works on this system, what does not, and what that costs
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure what reads cost from the drive of a device or path
    Probe {
        /// A block device, or a file or directory on the drive
        #[arg(value_name = "DEV|PATH")]
        path: PathBuf,
        /// Measure also while other programs use the drive
        #[arg(long)]
        busy: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Manage APP: learn its next launch, prefetch those after it
    Enable(AppRequest),
    /// Learn the next launch of APP anew; the old profile prefetches it
    Relearn(AppRequest),
    /// Leave APP alone from its next launch on
    Disable(AppRequest),
    /// Print which apps the service manages, or set it
    Mode {
        /// The mode to set
        #[arg(value_enum)]
        mode: Option<Mode>,
    },
    /// Print what was gained, or all that is known of APP
    Status {
        /// The app: a command, a path, a .desktop entry, or its name in the menu
        app: Option<OsString>,
        /// Print also what can be observed here, and what was done about other programs' writes
        #[arg(short, long, conflicts_with = "app")]
        verbose: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// APP as this user launches it; without it, as you do, and for root as all users do
        #[arg(long, value_name = "NAME|UID", value_parser = user_id, requires = "app")]
        user: Option<u32>,
    },
    /// Print the newest launches of APP, or of all apps
    Stats {
        /// The app: a command, a path, a .desktop entry, or its name in the menu
        app: Option<OsString>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        user: WhichUser,
    },
    /// Write a page for browsers about the newest launches of APP
    ///
    /// A file that is there is replaced only if it is such a page.
    Plot {
        /// The app: a command, a path, a .desktop entry, or its name in the menu
        app: OsString,
        /// Write to FILE, or to standard output if it is -; without it, to APP-launches.html in this directory
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        user: WhichUser,
    },
    /// Print launches as they begin and end
    Watch {
        /// Print JSON, a line for each event
        #[arg(long)]
        json: bool,
        /// Print nothing, and show on the desktop once for each app that it has become faster
        #[arg(long, conflicts_with = "json")]
        notify: bool,
    },
    /// Set the phase of APP by the number that the FAST '23 paper gives it
    #[command(hide = true)]
    Pfsetmode {
        /// 3: learn the next launch; 1: prefetch; 9: disable
        #[arg(value_name = "PHASE", value_parser = phase)]
        request: PhaseRequest,
        /// Path of the app
        app: OsString,
        #[command(flatten)]
        user: WhichUser,
    },
    /// Run the system service, which learns and prefetches launches however they are started
    #[command(hide = true)]
    Service {
        /// Directory of config.toml, its drop-ins and launcher rules
        #[arg(long, value_name = "DIR", default_value = crate::service::CONFIG_DIR)]
        config_dir: PathBuf,
        /// Directory of the socket and the file for announcements
        #[arg(long, value_name = "DIR", default_value = crate::service::announce::DIRECTORY)]
        run_dir: PathBuf,
        /// Directory of the profiles that packages and images bring
        #[arg(long, value_name = "DIR", default_value = crate::service::seeds::SHIPPED_DIR)]
        profiles_dir: PathBuf,
        /// Do not serve the system bus
        #[arg(long)]
        no_bus: bool,
    },
    /// Restores knobs when the process that changed them is gone
    #[command(name = "keep-knobs", hide = true)]
    KeepKnobs {
        /// Longest wait, in seconds
        limit: u64,
        /// Directory of the record
        #[arg(long, value_name = "DIR", default_value = crate::learn::RUN_DIR)]
        run_dir: PathBuf,
    },
}

impl CliCommand {
    /// Whether it is given a command to start. Then statuses below 125 are those of that command.
    pub fn starts_app(&self) -> bool {
        matches!(
            self,
            CliCommand::Learn(_) | CliCommand::Run(_) | CliCommand::Bench(_)
        )
    }
}

/// Whose apps and launches a command is about.
#[derive(Clone, Copy, Debug, Args)]
pub struct WhichUser {
    /// Apps and launches of this user; without it, your own, and all users' for root
    #[arg(long, value_name = "NAME|UID", value_parser = user_id)]
    user: Option<u32>,
}

impl WhichUser {
    /// The user who was named.
    pub fn of(user: Option<u32>) -> Self {
        WhichUser { user }
    }

    /// The user's id; `None`: all users.
    pub fn uid(self) -> Option<u32> {
        let own = rustix::process::getuid();
        self.user.or_else(|| (!own.is_root()).then(|| own.as_raw()))
    }
}

/// A user by his name or number.
fn user_id(text: &str) -> Result<u32, String> {
    if let Ok(Some(account)) = nix::unistd::User::from_name(text) {
        return Ok(account.uid.as_raw());
    }
    // The largest number stands for all users.
    let number = text.parse().ok().filter(|uid| *uid != u32::MAX);
    number.ok_or_else(|| "there is no such user".to_owned())
}

/// An app whose phase is to be set.
#[derive(Debug, Args)]
pub struct AppRequest {
    /// The app: a command, a path, a .desktop entry, or its name in the menu
    pub app: OsString,
    /// Show on the desktop what became of it, as menus of file managers do
    #[arg(long)]
    pub notify: bool,
    #[command(flatten)]
    pub user: WhichUser,
}

#[derive(Debug, Args)]
pub struct Learn {
    /// Report as one line of JSON, on standard error or into FILE, instead of text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,
    /// Say also how the launch was recorded and scheduled
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub how: Learning,
    /// Learn from the launch as it comes, whatever is cached: drop no cache and change no readahead
    #[arg(long, conflicts_with = "as_read")]
    pub live: bool,
    #[command(flatten)]
    pub schedule: ScheduleArgs,
    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// How the launch is scheduled, in place of what suits the drive.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Read metadata so much earlier than data, in KiB (metadata shift), instead of as it suits the drive
    #[arg(long, value_name = "KIB", value_parser = value_parser!(u64).range(..=1 << 20))]
    pub shift: Option<u64>,
    /// Merge reads of neighbours that are so many reads apart at most (I/O distance)
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u64).range(..=1 << 20))]
    pub distance: Option<u64>,
    /// Read along up to so many pages between two that are needed; 0: none
    #[arg(long, value_name = "PAGES", value_parser = value_parser!(u64).range(..=1 << 20))]
    pub hole: Option<u64>,
}

/// How a launch is learned.
#[derive(Debug, Args)]
pub struct Learning {
    /// Longest time that a launch may take [default: 30, or 300 to learn exactly from a disk with heads]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Learn what the drive reads with its usual readahead, instead of exactly the pages that the app touches
    #[arg(long)]
    pub as_read: bool,
}

/// What is launched.
#[derive(Debug, Args)]
pub struct LaunchArgs {
    /// Run CMD chrooted into DIR, such as a mounted image
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// The application and its arguments: everything from here on is its own
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Report on standard error what was prefetched, skipped and missed, once the app has ended
    #[arg(short, long)]
    pub verbose: bool,
    /// List what the launch still had to read itself, and why, once the app has ended: as text on
    /// standard error, or as JSON lines into FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub report: Option<Option<PathBuf>>,
    /// Leave the settings of the system as they are, also if other programs' writes are in the way of the launch
    #[arg(long)]
    pub no_shield: bool,
    #[command(flatten)]
    pub launch: LaunchArgs,
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
    pub until: LaunchEnd,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the results to FILE as JSON, in which `results` is as in hyperfine's
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,
    /// Write the times to FILE as a table in Markdown
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,
    /// Say also what is done, and leave what the app prints on standard error
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub how: Learning,
    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// The phase byte of the paper's front end.
fn phase(text: &str) -> Result<PhaseRequest, String> {
    text.parse()
        .ok()
        .and_then(PhaseRequest::from_byte)
        .ok_or_else(|| "wanted: 3 (learn), 1 (prefetch) or 9 (disable)".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (1.0..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "wanted: a number of seconds between 1 and 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::help;

    #[test]
    fn the_command_line_is_consistent() {
        help::command().debug_assert();
    }

    /// The manual page has every command and option, and the README every command that users need.
    #[test]
    fn the_manual_names_every_command_and_option() {
        let manual = include_str!("../../man/paralfetch.1").replace("\\-", "-");
        let readme = include_str!("../../README.md");
        let cli = Cli::command();
        for command in cli
            .get_subcommands()
            .filter(|c| c.get_name() != "keep-knobs")
        {
            let name = command.get_name();
            let in_manual = manual.contains(&format!("\\fB{name}\\fR"))
                || manual.contains(&format!(".B paralfetch {name}"));
            assert!(in_manual, "{name} is not in the manual");
            for option in command.get_arguments().filter_map(|arg| arg.get_long()) {
                let option = format!("--{option}");
                let is_clap_s = ["--help", "--version"].contains(&&*option);
                assert!(is_clap_s || manual.contains(&option), "{option} of {name}");
            }
            assert!(
                command.is_hide_set()
                    || name == "forget"
                    || readme.contains(&format!("paralfetch {name}")),
                "{name} is not in the README"
            );
        }
    }

    /// The command line without what is hidden.
    fn shown() -> clap::Command {
        let cli = help::command();
        let is_shown = |command: &&clap::Command| !command.is_hide_set();
        clap::Command::new("paralfetch")
            .version("")
            .disable_help_subcommand(true)
            .args(cli.get_arguments())
            .subcommands(cli.get_subcommands().filter(is_shown))
    }

    /// What shells complete is what there is. PARALFETCH_WRITE=1 writes the files anew.
    #[test]
    fn completions_are_those_of_the_command_line() {
        use clap_complete::Shell::{Bash, Fish, Zsh};
        for (shell, name) in [
            (Bash, "paralfetch.bash"),
            (Zsh, "_paralfetch"),
            (Fish, "paralfetch.fish"),
        ] {
            let mut made = Vec::new();
            clap_complete::generate(shell, &mut shown(), "paralfetch", &mut made);
            let file = format!("{}/dist/completions/{name}", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("PARALFETCH_WRITE").is_some() {
                std::fs::write(&file, &made).unwrap();
            }
            let kept = std::fs::read(&file).unwrap_or_default();
            assert!(
                kept == made,
                "{name} is out of date: PARALFETCH_WRITE=1 cargo test --lib completions"
            );
        }
    }

    fn run(arguments: &[&str]) -> RunArgs {
        let cli = Cli::parse_from([&["paralfetch", "run"], arguments].concat());
        match cli.command {
            CliCommand::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_take_all_that_follows_with_or_without_dashes_and_files_of_reports_are_optional() {
        let plain = run(&["gimp", "-v", "--no-shield", "--", "x"]);
        assert!(!plain.verbose && !plain.no_shield);
        assert_eq!(plain.launch.cmd, ["gimp", "-v", "--no-shield", "--", "x"]);
        let verbose = run(&["-v", "--", "a", "-b"]);
        assert!(verbose.verbose);
        assert_eq!(verbose.launch.cmd, ["a", "-b"]);
        assert_eq!((verbose.report, verbose.no_shield), (None, false));
        assert!(run(&["--no-shield", "--", "a"]).no_shield);
        assert_eq!(run(&["--report", "--", "a"]).report, Some(None));
        let file = Some(Some(PathBuf::from("f")));
        assert_eq!(run(&["--report=f", "--", "a"]).report, file);
    }

    #[test]
    fn users_are_named_or_numbered_and_others_than_root_mean_themselves() {
        assert_eq!(user_id("root"), Ok(0));
        assert_eq!(user_id("54321"), Ok(54321));
        for bad in ["", "-1", "4294967295", "no such user"] {
            assert!(user_id(bad).is_err(), "{bad}");
        }
        let own = rustix::process::getuid();
        let own = (!own.is_root()).then(|| own.as_raw());
        assert_eq!(WhichUser { user: None }.uid(), own);
        assert_eq!(WhichUser { user: Some(7) }.uid(), Some(7));
    }

    #[test]
    fn phases_are_the_numbers_of_the_paper_and_timeouts_are_bounded() {
        assert_eq!(phase("3"), Ok(PhaseRequest::Learn));
        assert_eq!(phase("1"), Ok(PhaseRequest::Prefetch));
        assert_eq!(phase("9"), Ok(PhaseRequest::Disable));
        for bad in ["", "0", "2", "257", "x"] {
            assert!(phase(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        for bad in ["", "0", "-1", "nan", "inf", "3601", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
