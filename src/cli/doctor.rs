//! `doctor`: what works here, and what does not.

use std::path::Path;

use serde_json::json;

use super::profiles::write_out;
use super::terminal::joined;
use super::{Failure, say, writes};
use crate::doctor::{AbilityCheck, AbilityLevel, Diagnosis, diagnose};
use crate::service::control::ShieldSummary;
use crate::service::control::bus::{Address, Client};

/// Prints what was found, and fails if learning and prefetching do not work.
pub fn main(state_dir: &Path, json: bool) -> Result<(), Failure> {
    let diagnosis = diagnose(state_dir);
    let shield = shield();
    if json {
        let mut value = serde_json::to_value(&diagnosis)?;
        value["shield"] = json!(shield);
        write_out(&format!("{value:#}\n"))?;
    } else {
        let shield = shield.map_or_else(Vec::new, |shield| writes::lines(&shield));
        write_out(&(text(&diagnosis) + &joined(&shield)))?;
    }
    if !diagnosis.works {
        return Err(Failure::from(
            "learning and prefetching do not both work here: see what is marked as broken",
        ));
    }
    let less = |check: &AbilityCheck| check.level == AbilityLevel::Less;
    if !json && diagnosis.checks.iter().any(less) {
        say("learning and prefetching work, with the losses that are named");
    }
    Ok(())
}

/// What the running service's shield does and did; `None` if no service runs, or it does not answer. What the system
/// lacks for it is among the checks.
fn shield() -> Option<ShieldSummary> {
    let client = Client::connect(&Address::System).ok().flatten()?;
    let mut shield = client.status().ok()?.shield;
    shield.lacks.clear();
    Some(shield)
}

/// A line for each ability, and one below for what its absence costs.
fn text(diagnosis: &Diagnosis) -> String {
    let line = |check: &AbilityCheck| {
        let mark = match check.level {
            AbilityLevel::Ok => "ok",
            AbilityLevel::Less => "less",
            AbilityLevel::Broken => "broken",
        };
        let cost = check.cost.iter().map(|cost| format!("{:<7} {cost}\n", ""));
        let cost: String = cost.collect();
        format!("{mark:<7} {:<34} {}\n{cost}", check.name, check.found)
    };
    diagnosis.checks.iter().map(line).collect()
}
