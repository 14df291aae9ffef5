//! The help of the program as a whole: its commands in groups, and its exit statuses.

use clap::builder::Styles;
use clap::{Command, CommandFactory};

use super::args::Cli;

/// Columns that help fits into, on wider terminals too.
const WIDTH: usize = 80;

/// The commands by what they are for, in the order in which they are shown. Every command that is not hidden has its
/// place here.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Everyday",
        &[
            "status", "list", "stats", "plot", "show", "enable", "disable", "relearn", "forget",
            "mode", "watch",
        ],
    ),
    ("Check", &["doctor", "bench", "probe"]),
    ("Without the service", &["learn", "run"]),
    ("For other machines", &["export", "import"]),
];

/// Exit statuses; `man/paralfetch.1` has the same.
const EXIT_STATUS: [(&str, &str); 7] = [
    ("0", "done"),
    (
        "1",
        "failed; of doctor: learning or prefetching does not work",
    ),
    ("2", "wrong usage"),
    ("3", "the service is not running, and the command needs it"),
    ("125", "failed, of a command that is given a CMD to start"),
    ("126, 127", "CMD cannot be executed; CMD is not found"),
    ("others", "those of CMD, which learn and run pass through"),
];

/// The command line, as it is parsed and completed.
pub fn command() -> Command {
    let command = Cli::command().max_term_width(WIDTH);
    let styles = Styles::default();
    let header = styles.get_header();
    let literal = styles.get_literal();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups += &format!("{header}{title}:{header:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            groups += &format!("  {literal}{name:<8}{literal:#}  {about}\n");
        }
        groups.push('\n');
    }
    let mut statuses = format!("{header}Exit status:{header:#}\n");
    for (status, meaning) in EXIT_STATUS {
        statuses += &format!("  {literal}{status:<8}{literal:#}  {meaning}\n");
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}\n\n\
         {statuses}\nparalfetch COMMAND --help explains a command, man paralfetch all of them.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_shown_is_in_one_group() {
        let cli = Cli::command();
        let shown = cli.get_subcommands().filter(|c| !c.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
    }

    #[test]
    fn help_is_plain_and_fits_into_80_columns() {
        let mut command = command();
        command.build();
        let text = command.render_help().to_string();
        for part in [
            "Everyday:\n  status    ",
            "Check:\n",
            "\n  3         the service is not running",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains("pfsetmode") && !text.contains('\u{1b}'),
            "{text}"
        );
        let of_commands = command
            .get_subcommands_mut()
            .map(|c| c.render_long_help().to_string());
        for text in of_commands.chain([text]) {
            // Synopses of many options are one line.
            let long = text
                .lines()
                .find(|line| line.chars().count() > WIDTH && !line.starts_with("Usage:"));
            assert_eq!(long, None, "{text}");
        }
    }

    #[test]
    fn the_manual_has_the_exit_statuses() {
        let manual = include_str!("../../man/paralfetch.1");
        let section = manual.split(".SH EXIT STATUS").nth(1).unwrap();
        let section = section.split(".SH ").next().unwrap();
        for (status, _) in EXIT_STATUS {
            let status = status.split(',').next().unwrap();
            assert!(section.contains(&format!("\n.B {status}")), "{status}");
        }
    }
}
