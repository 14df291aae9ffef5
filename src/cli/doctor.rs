//! `doctor`: what works here, and what does not.

use std::fmt::Write;

use super::args::Doctor;
use super::profiles::write_out;
use super::{Failure, say};
use crate::doctor::{AbilityLevel, Diagnosis, diagnose};

/// Exit status when learning or prefetching does not work.
const BROKEN: u8 = 1;

/// Prints what was found, and fails if learning and prefetching do not work.
pub fn main(args: &Doctor) -> Result<(), Failure> {
    let diagnosis = diagnose();
    if args.json {
        let value = serde_json::to_value(&diagnosis).map_err(Failure::own)?;
        write_out(&format!("{value:#}\n"))?;
    } else {
        write_out(&text(&diagnosis))?;
    }
    if !diagnosis.works {
        return Err(Failure::with_code(
            "learning and prefetching do not both work here: see what is marked as broken",
            BROKEN,
        ));
    }
    if diagnosis
        .checks
        .iter()
        .any(|check| check.level == AbilityLevel::Less)
        && !args.json
    {
        say("learning and prefetching work, with the losses that are named");
    }
    Ok(())
}

/// A line for each ability, and one below for what its absence costs.
fn text(diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    for check in &diagnosis.checks {
        let mark = match check.level {
            AbilityLevel::Ok => "ok",
            AbilityLevel::Less => "less",
            AbilityLevel::Broken => "broken",
        };
        writeln!(out, "{mark:<7} {:<34} {}", check.name, check.found)
            .expect("writing to a string cannot fail");
        if let Some(cost) = &check.cost {
            writeln!(out, "{:<7} {cost}", "").expect("writing to a string cannot fail");
        }
    }
    out
}
