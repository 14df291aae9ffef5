//! Each scenario once: its name, label, role, groups and meaning, and [what a launch is like](Scenario).

mod scenario;

pub use scenario::{Condition, OneCore, SWEEP, SWEEP_ALONE, Scenario, TOGETHER};

use Scenario as S;

use crate::methods::{Method as M, WrongProfile};

/// Role of a scenario in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Other scenarios are normalized to it.
    Baseline,
    /// Warm launches, prefetching alone and the bounds: the limits of prefetching.
    Reference,
    /// Another prefetcher.
    Rival,
    /// Paralfetch, with its optimisations added one at a time.
    Ours,
    /// A profile that was learned while another app ran (the paper's Figure 11).
    Background,
    /// A profile that was learned live, from a warm launch.
    Live,
    /// Warm launches that are being learned live: what that costs.
    Learning,
    /// Launches that are started plainly, with the service on.
    Service,
    /// Launches with a profile that is wrong (FAST §5.2).
    Wrong,
    /// Launches that share a processor with their prefetcher, and warm ones beside it (Paralfetch §5.5).
    OneCore,
    /// Launches while the drive is being written.
    Writer,
    /// Several apps at once (FAST Figure 8).
    Together,
    /// A parameter of the schedule that takes one value after the other (Paralfetch, Figures 4 and 6 to 8).
    Swept,
    /// A name that this version does not know.
    Unknown,
}

/// A scenario as it is asked for and shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListedScenario {
    /// As in [`crate::record::Launch::scenario`], or `bound-…`, which is computed.
    pub name: &'static str,
    /// In tables and legends.
    pub label: &'static str,
    /// Role of the scenario in the report.
    pub kind: Kind,
    /// How its launches are; `None` of what is computed, and of those with a number.
    pub how: Option<Scenario>,
    /// The groups by which it is asked for, too.
    pub groups: &'static [&'static str],
    /// One paragraph.
    pub description: &'static str,
}

/// Launches with the service on, numbered by `-1`, `-2`, ….
pub const SERVICE: &str = "service";
/// The baseline of launches on one processor.
const ONE_CORE_COLD: &str = "one-core-cold";
/// What the names of these begin with.
pub const ONE_CORE: &str = "one-core-";
/// t_ssd against t_warm, with the blocks that a cold launch read.
pub const BOUND_AS_READ: &str = "bound-as-read";
/// t_ssd against t_warm, with the blocks that a launch touched.
pub const BOUND_EXACT: &str = "bound-exact";

const fn of(
    name: &'static str,
    label: &'static str,
    kind: Kind,
    how: Option<Scenario>,
    groups: &'static [&'static str],
    description: &'static str,
) -> ListedScenario {
    ListedScenario {
        name,
        label,
        kind,
        how,
        groups,
        description,
    }
}

/// All known scenarios, in the order of reports and of turns.
#[rustfmt::skip]
pub const SCENARIOS: &[ListedScenario] = &[
    of("cold", "cold", Kind::Baseline, Some(S::Cold), &["standard", "short", "formula", "wrong", "one-core", "writer"],
        "System cold start: caches dropped, no other user app running. Everything else is normalized to it."),
    of("warm", "warm", Kind::Reference, Some(S::Warm), &["standard", "short", "formula", "one-core"],
        "Everything that the launch needs is cached, but for the completion block: what the processor needs (t_cpu)."),
    of(M::OnlyAsRead.name(), "t_ssd as read", Kind::Reference, Some(S::Prefetched(M::OnlyAsRead)), &["standard"],
        "Prefetching alone, without a launch, of the set as read: the blocks that a cold launch read from the drive, readahead included."),
    of(M::OnlyExact.name(), "t_ssd exact", Kind::Reference, Some(S::Prefetched(M::OnlyExact)), &["standard"],
        "Prefetching alone, without a launch, of the exact set: only the pages that the launch touched."),
    of(BOUND_AS_READ, "bound as read", Kind::Reference, None, &[],
        "t_bound = max(t_ssd, t_cpu) of the set as read (FAST §3.2): no prefetcher of this set can be faster. Computed, not measured."),
    of(BOUND_EXACT, "bound exact", Kind::Reference, None, &[],
        "t_bound = max(t_ssd, t_cpu) of the exact set (FAST §3.2): no prefetcher of this set can be faster. Computed, not measured."),
    of(M::Gsoc.name(), "GSoC", Kind::Rival, Some(S::Prefetched(M::Gsoc)), &["standard"],
        "Google Summer of Code prefetcher: referenced file pages only, no metadata, sorted by inode and offset, app held until prefetching ends (Paralfetch §5.1)."),
    of(M::Sorted.name(), "sorted", Kind::Rival, Some(S::Prefetched(M::Sorted)), &["standard", "formula"],
        "All blocks in LBA order, app held until prefetching ends, as Windows does (FAST §5.1)."),
    of(M::Fast.name(), "FAST", Kind::Rival, Some(S::Prefetched(M::Fast)), &["standard"],
        "FAST '11: the common sequence of two learning runs, in recorded order, by path with system calls, started with the app (FAST §4)."),
    of(M::Mobifetch.name(), "Mobifetch", Kind::Rival, Some(S::Prefetched(M::Mobifetch)), &["standard"],
        "Mobifetch '13: the set as read with the metadata that a dependency check finds, merged across small holes between near entries, in access order, beside the app (Mobifetch §2)."),
    of(M::Traced.name(), "traced", Kind::Ours, Some(S::Prefetched(M::Traced)), &["standard"],
        "Paralfetch without scheduling: the set as read, missing metadata added, in access order, beside the app."),
    of(M::Shift.name(), "+ shift", Kind::Ours, Some(S::Prefetched(M::Shift)), &["standard"],
        "Traced, and metadata shift: metadata is read up to a limit ahead of the data that stood before it (Algorithm 1)."),
    of(M::ShiftMerge.name(), "+ merge", Kind::Ours, Some(S::Prefetched(M::ShiftMerge)), &["standard"],
        "Shift, and range merge: neighbours on the drive that are near in the sequence become one request (Algorithm 2). The whole of the paper's pre-scheduling."),
    of(M::Exact.name(), "+ exact", Kind::Ours, Some(S::Prefetched(M::Exact)), &["standard"],
        "Shift and merge on the exact set: learned with readahead off, so that only touched pages are fetched."),
    of(M::Infill.name(), "+ infill", Kind::Ours, Some(S::Prefetched(M::Infill)), &["standard", "short", "formula", "wrong", "one-core", "writer"],
        "Exact, and infill merge: small holes of unneeded blocks are read along where a request costs more than the hole. Paralfetch in full."),
    of(M::Dynamic.name(), "+ dynamic", Kind::Ours, Some(S::Prefetched(M::Dynamic)), &["standard"],
        "Infill, and dynamic scheduling: parameters adapted launch by launch to the context switches of the app (Paralfetch §3.3)."),
    of(M::Formula.name(), "formula", Kind::Ours, Some(S::Prefetched(M::Formula)), &["formula"],
        "The exact set in the schedule that the drive's measured costs ask for, beside the app: one sweep in LBA order on a disk with heads, that of + infill with the drive's own hole elsewhere. What the product does."),
    of(SERVICE, "service", Kind::Service, Some(S::Service), &["service"],
        "Launched plainly and cold with the service on, numbered from the first launch that it saw of the app; live learning, then prefetching with dynamic scheduling."),
    of("background-fast", "FAST, background", Kind::Background, Some(S::Background(M::Fast)), &["background"],
        "FAST, learned while another app runs (LibreOffice Writer, if no other is named), launched in a system cold start: pages that it had mapped are not in what FAST sees."),
    of("background-shift+merge", "+ merge, background", Kind::Background, Some(S::Background(M::ShiftMerge)), &["background"],
        "Paralfetch as in the paper, learned while another app runs, launched in a system cold start: page-fault monitoring sees what that had mapped."),
    of("background-infill", "+ infill, background", Kind::Background, Some(S::Background(M::Infill)), &["background"],
        "Paralfetch with exact learning, learned while another app runs, launched in a system cold start."),
    of("live-infill", "+ infill, live", Kind::Live, Some(S::Live), &["live"],
        "Paralfetch with the set of a warm launch, learned without dropping any cache."),
    of("warm-live", "warm, being learned", Kind::Learning, Some(S::WarmLive), &["live"],
        "Warm, with everything that live learning has running meanwhile: what it costs while it is on."),
    of("wrong-page", "off by one page", Kind::Wrong, Some(S::Wrong(WrongProfile::OffByOne)), &["wrong"],
        "As + infill, but data of each file are asked for one 4 KiB page behind where they are; metadata are right."),
    of("wrong-pages", "other pages", Kind::Wrong, Some(S::Wrong(WrongProfile::OtherPages)), &["wrong"],
        "As + infill, but as much data of each file, where it has room, is asked for from pages that nobody needs; metadata are right: what an update of the app may leave (FAST §5.2)."),
    of("wrong-app", "another app's", Kind::Wrong, Some(S::Wrong(WrongProfile::OtherApp)), &["wrong"],
        "What was learned of another app (LibreOffice Writer, if no other is named) is prefetched as in + infill (FAST §5.2)."),
    of("warm-infill", "warm, prefetched", Kind::OneCore, Some(S::WarmPrefetch), &["one-core"],
        "Warm, with a prefetcher that finds everything cached and ends."),
    of(ONE_CORE_COLD, "cold, one processor", Kind::OneCore, Some(S::OneCore(OneCore::Cold)), &["one-core"],
        "Cold start of an app that may use one processor. The emulator of the drive and the display have the others."),
    of("one-core-infill", "+ infill, one processor", Kind::OneCore, Some(S::OneCore(OneCore::Prefetched)), &["one-core"],
        "Paralfetch in full, with the app and the prefetch thread on one processor."),
    of("one-core-warm", "warm, one processor", Kind::OneCore, Some(S::OneCore(OneCore::Warm)), &["one-core"],
        "Warm start of an app that may use one processor."),
    of("one-core-warm-infill", "warm, prefetched, one processor", Kind::OneCore, Some(S::OneCore(OneCore::WarmPrefetch)), &["one-core"],
        "The same, while a prefetch thread on the same processor finds everything cached."),
    of("writer-cold", "cold, drive written", Kind::Writer, Some(S::WriterCold), &["writer"],
        "Cold start while a large file on the same drive is being rewritten with buffered writes (QASIO §3, scenario A)."),
    of("writer-prefetch", "Paralfetch, drive written", Kind::Writer, Some(S::WriterPrefetch), &["writer"],
        "Paralfetch while a large file on the same drive is being rewritten with buffered writes."),
    of("writer-shield", "Paralfetch and shield, drive written", Kind::Writer, Some(S::WriterShield), &["writer"],
        "The same, with the shield as the service uses it: told when the launch begins."),
    of("together-cold", "cold", Kind::Together, Some(S::Together(None)), &[],
        "Several apps started at once, all cold; until the last is there."),
    of("together-sorted", "sorted", Kind::Together, Some(S::Together(Some(M::Sorted))), &[],
        "Several apps started at once, each with the sorted prefetcher."),
    of("together-fast", "FAST", Kind::Together, Some(S::Together(Some(M::Fast))), &[],
        "Several apps started at once, each with FAST."),
    of("together-infill", "Paralfetch", Kind::Together, Some(S::Together(Some(M::Infill))), &[],
        "Several apps started at once, each with Paralfetch in full."),
    of("sweep-…", "sweep", Kind::Swept, None, &[],
        "One parameter of the schedule has this value, beside the app: see the section of that parameter."),
    of("only-sweep-…", "sweep, alone", Kind::Swept, None, &[],
        "The schedule of the sweep, prefetched alone, without a launch."),
];

/// The names of the groups.
pub fn groups() -> Vec<&'static str> {
    let mut names = Vec::new();
    for group in SCENARIOS.iter().flat_map(|scenario| scenario.groups) {
        if !names.contains(group) {
            names.push(group);
        }
    }
    names
}

/// The scenario that numbered launches belong to; of others, the name itself.
pub fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((scenario, number)) if number.parse::<u64>().is_ok() && is_numbered(scenario) => {
            scenario
        }
        _ => name,
    }
}

/// The number of a numbered scenario; 0 of others.
pub fn number(name: &str) -> u64 {
    let behind = name.strip_prefix(unnumbered(name));
    let number = behind.and_then(|behind| behind.strip_prefix('-')?.parse().ok());
    number.unwrap_or(0)
}

fn is_numbered(scenario: &str) -> bool {
    scenario == SERVICE
        || [SWEEP, SWEEP_ALONE]
            .iter()
            .any(|prefix| scenario.starts_with(prefix))
}

/// Place of the scenario of this name, numbered or not, in [`SCENARIOS`].
fn place(name: &str) -> Option<usize> {
    let name = unnumbered(name);
    SCENARIOS.iter().position(|scenario| {
        let prefix = scenario.name.strip_suffix('…');
        scenario.name == name || prefix.is_some_and(|prefix| name.starts_with(prefix))
    })
}

/// The scenario of this name, numbered or not, if it is known.
pub fn find(name: &str) -> Option<&'static ListedScenario> {
    place(name).map(|place| &SCENARIOS[place])
}

/// What the scenario is for.
pub fn kind(name: &str) -> Kind {
    find(name).map_or(Kind::Unknown, |scenario| scenario.kind)
}

/// How tables and legends call it; numbered and unknown ones keep their name.
pub fn label(name: &str) -> &str {
    let known = SCENARIOS.iter().find(|scenario| scenario.name == name);
    known.map_or(name, |scenario| scenario.label)
}

/// Paragraph that describes the scenario.
pub fn description(name: &str) -> &'static str {
    find(name).map_or(
        "A scenario that this version of the report does not know.",
        |s| s.description,
    )
}

/// Place in reports: unknown scenarios come last.
pub fn rank(name: &str) -> usize {
    place(name).unwrap_or(SCENARIOS.len())
}

/// The scenario that this one is normalized to.
pub fn baseline(name: &str) -> &'static str {
    match kind(name) {
        Kind::OneCore if name.starts_with(ONE_CORE) => ONE_CORE_COLD,
        Kind::Writer => "writer-cold",
        Kind::Together => "together-cold",
        _ => "cold",
    }
}

/// For a scenario of [`Kind::Background`] or [`Kind::Live`], the one with the same prefetcher that was
/// learned from a cold cache while no other app ran.
pub fn learned_idle(name: &str) -> Option<&str> {
    name.strip_prefix("background-")
        .or_else(|| name.strip_prefix("live-"))
}

/// Prefetching without a launch: no app ends, the last read does.
pub fn is_prefetch_only(name: &str) -> bool {
    name.starts_with("only-")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_ways_are_unique_and_described() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert_eq!(rank(scenario.name), index, "{}", scenario.name);
            assert!(scenario.description.ends_with('.'), "{}", scenario.name);
            if let Some(how) = scenario.how {
                assert_eq!(how.to_string(), scenario.name);
            }
        }
        let ways: Vec<Scenario> = SCENARIOS.iter().filter_map(|one| one.how).collect();
        assert_eq!(ways.iter().collect::<HashSet<_>>().len(), ways.len());
    }

    #[test]
    fn baselines_are_known() {
        for scenario in SCENARIOS {
            assert!(find(baseline(scenario.name)).is_some());
        }
        assert_eq!(baseline("writer-prefetch"), "writer-cold");
        assert_eq!(baseline("together-fast"), "together-cold");
        assert_eq!(baseline("background-fast"), "cold");
        assert_eq!(baseline("one-core-warm"), "one-core-cold");
        assert_eq!(["warm-infill", "wrong-app"].map(baseline), ["cold"; 2]);
    }

    #[test]
    fn what_was_learned_otherwise_was_learned_idle_too() {
        for scenario in SCENARIOS {
            let idle = learned_idle(scenario.name);
            let otherwise = matches!(scenario.kind, Kind::Background | Kind::Live);
            assert_eq!(idle.is_some(), otherwise);
            assert!(idle.is_none_or(|idle| find(idle).is_some()), "{idle:?}");
        }
    }

    #[test]
    fn numbered_launches_are_one_scenario() {
        assert_eq!(kind("service-3"), Kind::Service);
        assert_eq!(label("service-3"), "service-3");
        assert_eq!(rank("service-3"), rank("service"));
        assert_eq!(baseline("service-3"), "cold");
        assert_eq!(unnumbered("background-fast"), "background-fast");
        assert_eq!(kind("sweep-shift-64"), Kind::Swept);
        assert_eq!(unnumbered("only-sweep-hole-8"), "only-sweep-hole");
        assert!(is_prefetch_only("only-sweep-hole-8"));
        assert_ne!(rank("sweep-hole-8"), rank("only-sweep-hole-8"));
        assert_eq!(
            ["sweep-shift-64", "service-3", "warm"].map(number),
            [64, 3, 0]
        );
    }

    #[test]
    fn unknown_scenarios_come_last_under_their_own_name() {
        assert_eq!(label("brand-new"), "brand-new");
        assert_eq!(kind("brand-new"), Kind::Unknown);
        assert_eq!(rank("brand-new"), SCENARIOS.len());
    }
}
