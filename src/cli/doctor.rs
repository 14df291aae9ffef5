//! `doctor`: what works here, and what does not.

use super::profiles::write_out;
use super::{Failure, say};
use crate::doctor::{AbilityCheck, AbilityLevel, Diagnosis, diagnose};

/// Exit status when learning or prefetching does not work.
const BROKEN: u8 = 1;

/// Prints what was found, and fails if learning and prefetching do not work.
pub fn main(json: bool) -> Result<(), Failure> {
    let diagnosis = diagnose();
    if json {
        let value = serde_json::to_value(&diagnosis)?;
        write_out(&format!("{value:#}\n"))?;
    } else {
        write_out(&text(&diagnosis))?;
    }
    if !diagnosis.works {
        return Err(Failure {
            message: "learning and prefetching do not both work here: see what is marked as broken"
                .to_owned(),
            code: BROKEN,
        });
    }
    let less = |check: &AbilityCheck| check.level == AbilityLevel::Less;
    if !json && diagnosis.checks.iter().any(less) {
        say("learning and prefetching work, with the losses that are named");
    }
    Ok(())
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
