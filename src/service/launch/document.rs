//! The table of docs/service.md, drawn from [`step`], and the check that the two are the same.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::Path;

use super::{LaunchPolicy, LaunchStage, LaunchState, StateAction, StateEvent, ThreadPhase, step};
use crate::policy::Plan;

const EVENTS: [StateEvent; 16] = [
    StateEvent::Called,
    StateEvent::Executed,
    StateEvent::ExecutedAnother,
    StateEvent::ProgramHeld,
    StateEvent::HeldTooLong,
    StateEvent::CallTimedOut,
    StateEvent::RecorderRefused,
    StateEvent::Recorded,
    StateEvent::NotRecorded,
    StateEvent::RecordUnusable,
    StateEvent::PrefetchFailed,
    StateEvent::PrefetchEnded,
    StateEvent::Quiet,
    StateEvent::Exited,
    StateEvent::SlotLost,
    StateEvent::Cancelled,
];

/// A plan with and without a profile, as far as there are such launches.
const POLICIES: [(Plan, bool, &str); 6] = [
    (Plan::Learn, false, "learn, no profile"),
    (Plan::Learn, true, "learn"),
    (Plan::Prefetch, true, "prefetch"),
    (Plan::Withhold, true, "withhold"),
    (Plan::Leave, false, "leave"),
    (Plan::Leave, true, "leave, profile"),
];

const BEGIN: &str =
    "<!-- states: drawn from the code; `cargo test --lib launch::document` prints it -->";
const END: &str = "<!-- end of states -->";

/// The name of a variant in words: `KeepProfile { alone: true }` becomes "keep profile (alone: true)".
fn words(variant: impl Debug) -> String {
    let mut words = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() && !words.ends_with('(') {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
        .replace(" {", "(")
        .replace(" }", ")")
        .replace("( ", "(")
        .replace('(', " (")
}

fn name(state: LaunchState) -> String {
    let thread = match state.thread {
        ThreadPhase::None => "",
        ThreadPhase::Running => ", prefetching",
        ThreadPhase::Ended => ", prefetched",
    };
    format!("{:?}{thread}", state.stage)
}

fn policy(plan: Plan, has_profile: bool) -> LaunchPolicy {
    LaunchPolicy { plan, has_profile }
}

/// All states, in the order of a life.
fn states() -> Vec<LaunchState> {
    use LaunchStage as S;
    let mut states = vec![LaunchState::NEW];
    for stage in [S::Called, S::Refused, S::Held, S::Recording, S::Running] {
        let threads = [ThreadPhase::None, ThreadPhase::Running, ThreadPhase::Ended];
        states.extend(threads.map(|thread| LaunchState { stage, thread }));
    }
    states.push(LaunchState::OVER);
    states
}

/// States that a launch with this policy can come to.
fn reachable(policy: LaunchPolicy) -> Vec<LaunchState> {
    let mut found = vec![LaunchState::NEW];
    let mut at = 0;
    while let Some(&state) = found.get(at) {
        for event in EVENTS {
            let (next, _) = step(state, event, policy);
            if !found.contains(&next) {
                found.push(next);
            }
        }
        at += 1;
    }
    found
}

/// A line of the table.
#[derive(PartialEq)]
struct Line {
    events: Vec<String>,
    plans: Vec<&'static str>,
    next: LaunchState,
    actions: Vec<StateAction>,
}

/// What follows in a state, where anything changes. Events and plans with the same consequences share a line.
fn lines(state: LaunchState) -> Vec<Line> {
    let mut policies = POLICIES.to_vec();
    policies.retain(|&(plan, profile, _)| reachable(policy(plan, profile)).contains(&state));
    let mut lines: Vec<Line> = Vec::new();
    for event in EVENTS {
        let mut of_event: Vec<Line> = Vec::new();
        for &(plan, profile, plan_name) in &policies {
            let (next, actions) = step(state, event, policy(plan, profile));
            let mut known = of_event.iter_mut();
            match known.find(|line| line.next == next && line.actions == actions) {
                Some(line) => line.plans.push(plan_name),
                None => of_event.push(Line {
                    events: vec![words(event)],
                    plans: vec![plan_name],
                    next,
                    actions,
                }),
            }
        }
        of_event.retain(|line| line.next != state || !line.actions.is_empty());
        for line in of_event {
            let alike = |known: &&mut Line| {
                known.plans == line.plans
                    && known.next == line.next
                    && known.actions == line.actions
            };
            match lines.iter_mut().find(alike) {
                Some(known) => known.events.extend(line.events),
                None => lines.push(line),
            }
        }
    }
    for line in &mut lines {
        if line.plans.len() == policies.len() {
            line.plans = vec!["any"];
        }
    }
    lines
}

/// The table in Markdown.
fn table() -> String {
    let mut lines = vec![
        "| state | event | plan | next | actions |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for state in states() {
        for line in self::lines(state) {
            let next = match line.next == state {
                true => "–".to_owned(),
                false => name(line.next),
            };
            let actions: Vec<String> = line.actions.into_iter().map(words).collect();
            lines.push(format!(
                "| {} | {} | {} | {next} | {} |",
                name(state),
                line.events.join("; "),
                line.plans.join("; "),
                actions.join(", ")
            ));
        }
    }
    lines.join("\n")
}

#[test]
fn the_table_in_the_documentation_is_what_step_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/service.md");
    let text = fs::read_to_string(&path).unwrap();
    let documented = text
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .map(|(table, _)| table.trim());
    let drawn = table();
    assert!(
        documented == Some(drawn.as_str()),
        "docs/service.md has another table than this, which follows from step():\n{BEGIN}\n\n{drawn}\n\n{END}"
    );
}

#[test]
fn every_state_can_be_reached_and_left() {
    let all = POLICIES.map(|(plan, profile, _)| reachable(policy(plan, profile)));
    let found: BTreeSet<String> = all.iter().flatten().map(|&state| name(state)).collect();
    assert_eq!(found, states().into_iter().map(name).collect());
    for (plan, profile, _) in POLICIES {
        let policy = policy(plan, profile);
        for state in reachable(policy) {
            let (next, _) = step(state, StateEvent::Cancelled, policy);
            assert_eq!(next, LaunchState::OVER, "{state:?}");
        }
    }
}

#[test]
fn a_step_to_over_closes_the_slot_once_and_no_other_step_does() {
    for (plan, profile, _) in POLICIES {
        let policy = policy(plan, profile);
        for state in states() {
            for event in EVENTS {
                let (next, actions) = step(state, event, policy);
                let closed = actions
                    .iter()
                    .filter(|&&action| action == StateAction::CloseSlot)
                    .count();
                let ends = next == LaunchState::OVER && state != LaunchState::OVER;
                assert_eq!(
                    closed,
                    usize::from(ends),
                    "{state:?}, {event:?}, {policy:?}"
                );
            }
        }
    }
}
