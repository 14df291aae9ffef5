//! `doctor`: what works here, and what does not.

use std::path::Path;

use clap::builder::styling::{AnsiColor, Style};
use serde_json::json;

use super::profiles::write_out;
use super::terminal::{columns, joined, takes_colours, wrapped};
use super::{Failure, say, writes};
use crate::cli::format::text_of;
use crate::doctor::{AbilityCheck, AbilityLevel, diagnose};
use crate::service::control::ShieldSummary;
use crate::service::control::bus::{Address, Client};

/// Columns of the mark, where lines go on.
const INDENT: usize = 8;

/// Prints what was found, and fails if learning or prefetching does not work.
pub fn main(state_dir: &Path, json: bool) -> Result<(), Failure> {
    let diagnosis = diagnose(state_dir);
    let shield = shield();
    if json {
        let mut value = serde_json::to_value(&diagnosis)?;
        value["shield"] = json!(shield);
        write_out(&format!("{value:#}\n"))?;
    } else {
        let shield = shield.map_or_else(Vec::new, |shield| writes::lines(&shield));
        let text = text(&diagnosis.checks, columns(), takes_colours());
        write_out(&(text + &joined(&shield)))?;
    }
    if !diagnosis.works {
        return Err(Failure::from(
            "learning and prefetching do not both work here: see what is marked as broken",
        ));
    }
    let has = |level| diagnosis.checks.iter().any(|check| check.level == level);
    if !json && has(AbilityLevel::Unknown) {
        say("nothing is known to be broken; what only root can look at is marked as unknown");
    } else if !json && has(AbilityLevel::Less) {
        say("learning and prefetching work, with the losses that are named");
    }
    Ok(())
}

/// What the running service's shield does and did; `None` if no service runs, or it does not answer. Whether the system
/// lets drives be shielded is among the checks.
fn shield() -> Option<ShieldSummary> {
    let client = Client::connect(&Address::System).ok().flatten()?;
    Some(client.status().ok()?.shield)
}

/// A line for each ability, and one below for what its absence costs, in lines that fit into `columns`.
fn text(checks: &[AbilityCheck], columns: Option<usize>, takes_colours: bool) -> String {
    let lines = checks.iter().flat_map(|check| {
        let (mark, style) = mark(check.level);
        let found = format!("{mark:<7} {:<34} {}", check.name, check.found);
        let mut found = fitted(&found, columns);
        if takes_colours {
            found[0].replace_range(..mark.len(), &format!("{style}{mark}{style:#}"));
        }
        let cost = check.cost.iter();
        found.extend(cost.flat_map(|cost| fitted(&format!("{:<7} {cost}", ""), columns)));
        found
    });
    lines.map(|line| line + "\n").collect()
}

fn fitted(line: &str, columns: Option<usize>) -> Vec<String> {
    wrapped(&text_of(line.as_bytes()), columns, INDENT)
}

/// The word for a level, and its colour.
fn mark(level: AbilityLevel) -> (&'static str, Style) {
    match level {
        AbilityLevel::Ok => ("ok", AnsiColor::Green.on_default()),
        AbilityLevel::Unknown => ("unknown", AnsiColor::Yellow.on_default()),
        AbilityLevel::Less => ("less", AnsiColor::Yellow.on_default()),
        AbilityLevel::Broken => ("broken", AnsiColor::Red.on_default().bold()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Vec<AbilityCheck> {
        vec![
            AbilityCheck {
                name: "kernel".to_owned(),
                level: AbilityLevel::Ok,
                found: "6.1.0".to_owned(),
                cost: None,
            },
            AbilityCheck {
                name: "drive sda".to_owned(),
                level: AbilityLevel::Less,
                found: "a guess\u{1b}[2J by what it claims to be, and that at some length"
                    .to_owned(),
                cost: Some(
                    "its schedules may be worse than they could be: paralfetch probe".to_owned(),
                ),
            },
        ]
    }

    #[test]
    fn programs_get_whole_lines_without_colours() {
        let text = text(&checks(), None, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("ok      kernel   "), "{text}");
        assert!(lines[2].starts_with("        its schedules"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn terminals_get_lines_that_fit_and_coloured_marks() {
        let plain = text(&checks(), Some(60), false);
        assert!(plain.lines().count() > 4, "{plain}");
        let fits = |line: &str| line.chars().count() <= 60;
        assert!(plain.lines().all(fits), "{plain}");
        let coloured = text(&checks(), Some(60), true);
        let green = "\u{1b}[32mok\u{1b}[0m      kernel";
        assert!(coloured.starts_with(green), "{coloured:?}");
        let marks = coloured.replace("\u{1b}[32m", "").replace("\u{1b}[33m", "");
        assert_eq!(marks.replace("\u{1b}[0m", ""), plain);
    }
}
