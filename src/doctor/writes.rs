//! What can be done so that launches do not wait for other programs' writes.

use super::AbilityCheck;
use crate::policy::MeasureKind;
use crate::shield::{MeasureAbility, abilities};

/// The measures of the shield.
pub fn measures() -> Vec<AbilityCheck> {
    let is_root = rustix::process::geteuid().is_root();
    let judged = abilities().into_iter().map(judge);
    match is_root {
        true => judged.collect(),
        false => judged.map(as_root_would).collect(),
    }
}

/// What root alone may write says nothing of the service, which is root.
fn as_root_would(check: AbilityCheck) -> AbilityCheck {
    match check.found.contains(FOR_ROOT) {
        true => AbilityCheck::unknown(
            check.name,
            "for the service to try",
            "it may be changed by root alone: sudo paralfetch doctor",
        ),
        false => check,
    }
}

/// What an ability says where only the user who asks is in the way.
const FOR_ROOT: &str = "written by root alone";

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
    fn what_root_alone_may_write_is_unknown_to_others() {
        let of = |why: &str| {
            let found = Err(why.to_owned());
            let kind = MeasureKind::Hold;
            as_root_would(judge(MeasureAbility { kind, found })).level
        };
        assert_eq!(
            of("/proc/x may be written by root alone"),
            AbilityLevel::Unknown
        );
        assert_eq!(of("there is no /proc/x"), AbilityLevel::Less);
    }

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
