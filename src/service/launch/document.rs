//! The table of docs/service.md, drawn from [`step`], and the check that the two are the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{LaunchPolicy, LaunchState, StateAction, StateEvent, ThreadPhase, step};
use crate::policy::Plan;
use crate::service::history::Kind;

const EVENTS: [(StateEvent, &str); 16] = [
    (StateEvent::Called, "execve is called"),
    (StateEvent::Executed, "execve succeeds"),
    (StateEvent::ExecutedAnother, "another program is executed"),
    (StateEvent::ProgramHeld, "the gate holds the program"),
    (StateEvent::HeldTooLong, "it is held for 1 s"),
    (StateEvent::CallTimedOut, "no success for 5 s"),
    (StateEvent::RecorderRefused, "the recorder refuses"),
    (StateEvent::Recorded, "a profile is recorded"),
    (StateEvent::NotRecorded, "nothing is recorded"),
    (StateEvent::RecordUnusable, "the profile is unusable"),
    (StateEvent::PrefetchFailed, "there is no prefetch thread"),
    (StateEvent::PrefetchEnded, "the prefetch ends"),
    (StateEvent::Quiet, "quiet"),
    (StateEvent::Exited, "the last task exits"),
    (StateEvent::SlotLost, "the slot is lost"),
    (StateEvent::Cancelled, "it is cancelled"),
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

fn name(state: LaunchState) -> String {
    use LaunchState as S;
    let with = |name: &str, thread| match thread {
        ThreadPhase::None => name.to_owned(),
        ThreadPhase::Running => format!("{name}, prefetching"),
        ThreadPhase::Ended => format!("{name}, prefetched"),
    };
    match state {
        S::Unknown => "Unknown".to_owned(),
        S::Called(thread) => with("Called", thread),
        S::Refused(thread) => with("Refused", thread),
        S::Held(thread) => with("Held", thread),
        S::Recording(thread) => with("Recording", thread),
        S::Prefetching => "Prefetching".to_owned(),
        S::Settling => "Settling".to_owned(),
        S::Watching => "Watching".to_owned(),
        S::Over => "Over".to_owned(),
    }
}

fn describe(action: StateAction) -> &'static str {
    match action {
        StateAction::StartPrefetch => "start prefetch",
        StateAction::WatchCompletion => "watch completion page",
        StateAction::CountWaits => "count waits",
        StateAction::CountLaunch => "count launch",
        StateAction::InvalidateGate => "invalidate gate",
        StateAction::StartRecording => "start recording",
        StateAction::LetGo => "let go",
        StateAction::TakeReport => "take report",
        StateAction::StopPrefetch => "stop prefetch",
        StateAction::KeepProfile { alone: true } => "keep profile (recorded alone)",
        StateAction::KeepProfile { alone: false } => "keep profile",
        StateAction::ReportNotLearned => "report not learned",
        StateAction::CloseSlot => "close slot",
        StateAction::Judge => "judge",
        StateAction::RefreshGate => "refresh gate",
        StateAction::Weigh => "weigh",
        StateAction::WriteDown(Kind::Learned) => "write down as learned",
        StateAction::WriteDown(Kind::Prefetched) => "write down as prefetched",
        StateAction::WriteDown(Kind::Withheld) => "write down as withheld",
        StateAction::WriteDown(Kind::Watched) => "write down as watched",
    }
}

fn policy(plan: Plan, has_profile: bool) -> LaunchPolicy {
    LaunchPolicy { plan, has_profile }
}

/// All states, in the order of a life.
fn states() -> Vec<LaunchState> {
    use LaunchState as S;
    let threads = [ThreadPhase::None, ThreadPhase::Running, ThreadPhase::Ended];
    let mut states = vec![S::Unknown];
    for with in [S::Called, S::Refused, S::Held, S::Recording] {
        states.extend(threads.map(with));
    }
    states.extend([S::Prefetching, S::Settling, S::Watching, S::Over]);
    states
}

/// States that a launch with this policy can come to.
fn reachable(policy: LaunchPolicy) -> Vec<LaunchState> {
    let mut found = vec![LaunchState::Unknown];
    let mut at = 0;
    while let Some(&state) = found.get(at) {
        for (event, _) in EVENTS {
            let (next, _) = step(state, event, policy);
            if !found.contains(&next) {
                found.push(next);
            }
        }
        at += 1;
    }
    found
}

/// What follows in a state: `(events, plans, next state, actions)`, where anything changes.
fn rows(state: LaunchState) -> Vec<(Vec<&'static str>, String, LaunchState, Vec<StateAction>)> {
    let policies: Vec<_> = POLICIES
        .into_iter()
        .filter(|&(plan, profile, _)| reachable(policy(plan, profile)).contains(&state))
        .collect();
    let mut rows: Vec<(Vec<&str>, String, LaunchState, Vec<StateAction>)> = Vec::new();
    for (event, event_name) in EVENTS {
        let mut by_plan: Vec<(Vec<&str>, LaunchState, Vec<StateAction>)> = Vec::new();
        for &(plan, profile, plan_name) in &policies {
            let (next, actions) = step(state, event, policy(plan, profile));
            let same = by_plan
                .iter_mut()
                .find(|(_, to, then)| *to == next && *then == actions);
            match same {
                Some((plans, _, _)) => plans.push(plan_name),
                None => by_plan.push((vec![plan_name], next, actions)),
            }
        }
        for (plans, next, actions) in by_plan {
            if next == state && actions.is_empty() {
                continue;
            }
            let plans = match plans.len() == policies.len() {
                true => "any".to_owned(),
                false => plans.join("; "),
            };
            let same = rows
                .iter_mut()
                .find(|(_, of, to, then)| *of == plans && *to == next && *then == actions);
            match same {
                Some((events, ..)) => events.push(event_name),
                None => rows.push((vec![event_name], plans, next, actions)),
            }
        }
    }
    rows
}

/// The table in Markdown.
fn table() -> String {
    let mut lines = vec![
        "| state | event | plan | next | actions |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for state in states() {
        for (events, plans, next, actions) in rows(state) {
            let next = match next == state {
                true => "–".to_owned(),
                false => name(next),
            };
            let actions: Vec<&str> = actions.into_iter().map(describe).collect();
            lines.push(format!(
                "| {} | {} | {plans} | {next} | {} |",
                name(state),
                events.join("; "),
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
            assert_eq!(next, LaunchState::Over, "{state:?}");
        }
    }
}

#[test]
fn a_step_to_over_closes_the_slot_once_and_no_other_step_does() {
    for (plan, profile, _) in POLICIES {
        let policy = policy(plan, profile);
        for state in states() {
            for (event, _) in EVENTS {
                let (next, actions) = step(state, event, policy);
                let closed = actions
                    .iter()
                    .filter(|&&action| action == StateAction::CloseSlot)
                    .count();
                let ends = next == LaunchState::Over && state != LaunchState::Over;
                assert_eq!(
                    closed,
                    usize::from(ends),
                    "{state:?}, {event:?}, {policy:?}"
                );
            }
        }
    }
}
