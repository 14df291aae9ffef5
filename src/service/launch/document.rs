//! The table of `states.md`, drawn from [`step`], and the check that the two are the same.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;

use super::{LaunchPolicy, LaunchStage, LaunchState, StateAction, StateEvent, ThreadPhase, step};
use crate::policy::Plan;

const EVENTS: [StateEvent; 14] = [
    StateEvent::Called,
    StateEvent::Executed,
    StateEvent::ExecutedAnother,
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
const POLICIES: [(LaunchPolicy, &str); 8] = [
    (policy(Plan::Learn, false), "learn, no profile"),
    (policy(Plan::Learn, true), "learn"),
    (recorded(false), "learn from the call, no profile"),
    (recorded(true), "learn from the call"),
    (policy(Plan::Prefetch, true), "prefetch"),
    (policy(Plan::Withhold, true), "withhold"),
    (policy(Plan::Leave, false), "leave"),
    (policy(Plan::Leave, true), "leave, profile"),
];

/// Where people read the table, between two marks.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/service/launch/states.md");
const BEGIN: &str = "<!-- states -->";
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

const fn policy(plan: Plan, has_profile: bool) -> LaunchPolicy {
    LaunchPolicy {
        plan,
        has_profile,
        is_recorded: false,
    }
}

/// To be learned, and recorded by the kernel since execve was called.
const fn recorded(has_profile: bool) -> LaunchPolicy {
    LaunchPolicy {
        is_recorded: true,
        ..policy(Plan::Learn, has_profile)
    }
}

/// All states, in the order of a life.
fn states() -> Vec<LaunchState> {
    use LaunchStage as S;
    let mut states = vec![LaunchState::NEW];
    for stage in [S::Called, S::CallRecorded, S::Recording, S::Running] {
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

/// Groups values by key, in the order in which the keys come first.
fn group<K: PartialEq, V>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// The lines of the table for a state, where anything changes. Events and plans with the same consequences share
/// a line.
fn lines(state: LaunchState) -> Vec<String> {
    let mut policies = POLICIES.to_vec();
    policies.retain(|&(policy, _)| reachable(policy).contains(&state));
    let consequences = EVENTS.into_iter().flat_map(|event| {
        let of_plans = policies.iter();
        let of_plans = of_plans.map(|&(policy, plan)| (step(state, event, policy), plan));
        group(of_plans).into_iter().map(move |line| (line, event))
    });
    let changes =
        consequences.filter(|(((next, actions), _), _)| *next != state || !actions.is_empty());
    let mut lines = Vec::new();
    for (((next, actions), plans), events) in group(changes) {
        let next = match next == state {
            true => "–".to_owned(),
            false => name(next),
        };
        let plans = match plans.len() == policies.len() {
            true => "any".to_owned(),
            false => plans.join("; "),
        };
        let events: Vec<String> = events.into_iter().map(words).collect();
        let actions: Vec<String> = actions.into_iter().map(words).collect();
        let (events, actions) = (events.join("; "), actions.join(", "));
        lines.push(format!(
            "| {} | {events} | {plans} | {next} | {actions} |",
            name(state)
        ));
    }
    lines
}

/// The table in Markdown.
fn table() -> String {
    let head = [
        "| state | event | plan | next | actions |",
        "|---|---|---|---|---|",
    ];
    let mut table = head.map(str::to_owned).to_vec();
    table.extend(states().into_iter().flat_map(lines));
    table.join("\n")
}

/// PARALFETCH_WRITE=1 writes the table anew.
#[test]
fn the_table_in_the_documentation_is_what_step_does() {
    let kept = fs::read_to_string(FILE).unwrap();
    let (head, rest) = kept.split_once(BEGIN).expect(BEGIN);
    let (_, foot) = rest.split_once(END).expect(END);
    let drawn = format!("{head}{BEGIN}\n\n{}\n\n{END}{foot}", table());
    if std::env::var_os("PARALFETCH_WRITE").is_some() {
        fs::write(FILE, &drawn).unwrap();
    }
    assert!(
        fs::read_to_string(FILE).unwrap() == drawn,
        "{FILE} is out of date: PARALFETCH_WRITE=1 cargo test --lib launch::document"
    );
}

#[test]
fn every_state_can_be_reached_and_ends_with_the_slot_closed_once() {
    let all = POLICIES.map(|(policy, _)| reachable(policy));
    let found: BTreeSet<String> = all.iter().flatten().map(|&state| name(state)).collect();
    assert_eq!(found, states().into_iter().map(name).collect());
    for (policy, _) in POLICIES {
        for (state, event) in states().into_iter().flat_map(|s| EVENTS.map(|e| (s, e))) {
            let (next, actions) = step(state, event, policy);
            let cancelled = event == StateEvent::Cancelled;
            assert!(!cancelled || next == LaunchState::OVER, "{state:?}");
            let ending = [StateAction::CloseSlot, StateAction::ListenOn];
            let closed = actions.iter().filter(|action| ending.contains(action));
            let ends = next == LaunchState::OVER && state != LaunchState::OVER;
            assert_eq!(
                closed.count(),
                usize::from(ends),
                "{state:?}, {event:?}, {policy:?}"
            );
        }
    }
}
