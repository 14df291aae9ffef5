//! What can be done so that launches do not wait for other programs' writes.

use super::AbilityCheck;
use crate::policy::MeasureKind;
use crate::shield::{MeasureAbility, abilities};

/// The measures of the shield.
pub fn measures() -> Vec<AbilityCheck> {
    abilities().into_iter().map(judge).collect()
}

fn judge(ability: MeasureAbility) -> AbilityCheck {
    let (name, cost) = match ability.kind {
        MeasureKind::Journal => (
            "writes: I/O priorities",
            "tasks that wait for the journal wait behind the writer's requests",
        ),
        MeasureKind::Hold => (
            "writes: held back",
            "launches wait behind what other programs write",
        ),
        MeasureKind::Backlog => (
            "writes: limit of a drive",
            "what may be dirty of one drive cannot be limited",
        ),
        MeasureKind::Dirty => (
            "writes: limit of the system",
            "what may be dirty of the whole system cannot be limited",
        ),
        MeasureKind::Group => (
            "writes: limit of the writer",
            "a writer cannot be slowed down alone",
        ),
        MeasureKind::Requests => (
            "writes: drives' queues",
            "writes.responsive has no effect on the drives' queues",
        ),
    };
    AbilityCheck::useful(name, ability.found, cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::AbilityLevel;

    #[test]
    fn a_measure_that_cannot_be_taken_costs_something_and_breaks_nothing() {
        for kind in MeasureKind::ALL {
            for (found, level) in [
                (Ok("there".to_owned()), AbilityLevel::Ok),
                (Err("missing".to_owned()), AbilityLevel::Less),
            ] {
                let check = judge(MeasureAbility { kind, found });
                assert_eq!(check.level, level, "{kind}");
                assert_eq!(check.cost.is_some(), level == AbilityLevel::Less);
                assert!(check.name.len() < 34, "the column is as wide");
            }
        }
    }
}
