//! Label, meaning and baseline of each scenario.

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
    /// Unprefixed launches, with the service on.
    Service,
    /// Launches while another app runs in the background.
    Beside,
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

/// A scenario as reports show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// As in [`crate::record::Launch::scenario`], or `bound-…`, which is computed.
    pub name: &'static str,
    /// In tables and legends.
    pub label: &'static str,
    /// Its role in the report.
    pub kind: Kind,
    /// One paragraph.
    pub description: &'static str,
}

/// Launches with the service on, numbered by `-1`, `-2`, ….
pub const SERVICE: &str = "service";
/// The same, learned while another app ran.
pub const SERVICE_BACKGROUND: &str = "service-background";
/// The same, while another app runs.
pub const SERVICE_BESIDE: &str = "service-beside";
/// The baseline of launches on one processor.
const ONE_CORE_COLD: &str = "one-core-cold";
/// What the names of these begin with.
const ONE_CORE: &str = "one-core-";
/// The baseline of launches beside another app.
const BESIDE_COLD: &str = "beside-cold";
/// t_ssd against t_warm, with the blocks that a cold launch read.
pub const BOUND_AS_READ: &str = "bound-as-read";
/// t_ssd against t_warm, with the blocks that a launch touched.
pub const BOUND_EXACT: &str = "bound-exact";

const fn of(
    name: &'static str,
    label: &'static str,
    kind: Kind,
    description: &'static str,
) -> Scenario {
    Scenario {
        name,
        label,
        kind,
        description,
    }
}

/// All known scenarios, in the order of reports.
pub const SCENARIOS: &[Scenario] = &[
    of(
        "cold",
        "cold",
        Kind::Baseline,
        "System cold start: caches dropped, no other user app running. Everything else is normalized to it.",
    ),
    of(
        "warm",
        "warm",
        Kind::Reference,
        "Everything that the launch needs is cached, but for the completion block: what the processor needs (t_cpu).",
    ),
    of(
        "only-as-read",
        "t_ssd as read",
        Kind::Reference,
        "Prefetching alone, without a launch, of the set as read: the blocks that a cold launch read from the drive, readahead included.",
    ),
    of(
        "only-exact",
        "t_ssd exact",
        Kind::Reference,
        "Prefetching alone, without a launch, of the exact set: only the pages that the launch touched.",
    ),
    of(
        BOUND_AS_READ,
        "bound as read",
        Kind::Reference,
        "t_bound = max(t_ssd, t_cpu) of the set as read (FAST §3.2): no prefetcher of this set can be faster. Computed, not measured.",
    ),
    of(
        BOUND_EXACT,
        "bound exact",
        Kind::Reference,
        "t_bound = max(t_ssd, t_cpu) of the exact set (FAST §3.2): no prefetcher of this set can be faster. Computed, not measured.",
    ),
    of(
        "gsoc",
        "GSoC",
        Kind::Rival,
        "Google Summer of Code prefetcher: referenced file pages only, no metadata, sorted by inode and offset, app held until prefetching ends (Paralfetch §5.1).",
    ),
    of(
        "sorted",
        "sorted",
        Kind::Rival,
        "All blocks in LBA order, app held until prefetching ends, as Windows does (FAST §5.1).",
    ),
    of(
        "fast",
        "FAST",
        Kind::Rival,
        "FAST '11: the common sequence of two learning runs, in recorded order, by path with system calls, started with the app (FAST §4).",
    ),
    of(
        "mobifetch",
        "Mobifetch",
        Kind::Rival,
        "Mobifetch '13: the set as read with the metadata that a dependency check finds, merged across small holes between near entries, in access order, beside the app (Mobifetch §2).",
    ),
    of(
        "traced",
        "traced",
        Kind::Ours,
        "Paralfetch without scheduling: the set as read, missing metadata added, in access order, beside the app.",
    ),
    of(
        "shift",
        "+ shift",
        Kind::Ours,
        "Traced, and metadata shift: metadata is read up to a limit ahead of the data that stood before it (Algorithm 1).",
    ),
    of(
        "shift+merge",
        "+ merge",
        Kind::Ours,
        "Shift, and range merge: neighbours on the drive that are near in the sequence become one request (Algorithm 2). The whole of the paper's pre-scheduling.",
    ),
    of(
        "exact",
        "+ exact",
        Kind::Ours,
        "Shift and merge on the exact set: learned with readahead off, so that only touched pages are fetched.",
    ),
    of(
        "infill",
        "+ infill",
        Kind::Ours,
        "Exact, and infill merge: small holes of unneeded blocks are read along where a request costs more than the hole. Paralfetch in full.",
    ),
    of(
        "dynamic",
        "+ dynamic",
        Kind::Ours,
        "Infill, and dynamic scheduling: parameters adapted launch by launch to the context switches of the app (Paralfetch §3.3).",
    ),
    of(
        "formula",
        "formula",
        Kind::Ours,
        "The exact set in the schedule that the drive's measured costs ask for, beside the app: one sweep in LBA order on a disk with heads, that of + infill with the drive's own hole elsewhere. What the product does.",
    ),
    of(
        SERVICE,
        "service",
        Kind::Service,
        "Launched plainly and cold with the service on, numbered from the first launch that it saw of the app; live learning, then prefetching with dynamic scheduling.",
    ),
    of(
        SERVICE_BACKGROUND,
        "service, background",
        Kind::Service,
        "As service, but while the service learns the app, another app runs (LibreOffice Writer, if no other is named); it is ended before the first launch that is prefetched.",
    ),
    of(
        SERVICE_BESIDE,
        "service, beside",
        Kind::Service,
        "As service, while another app runs (LibreOffice Writer, if no other is named) during all launches; normalized to cold launches beside it.",
    ),
    of(
        BESIDE_COLD,
        "cold, beside",
        Kind::Beside,
        "Caches dropped while another app runs (LibreOffice Writer, if no other is named): what that has mapped stays cached.",
    ),
    of(
        "beside-infill",
        "+ infill, beside",
        Kind::Beside,
        "Paralfetch in full while another app runs, with the set that was learned on an idle system.",
    ),
    of(
        "background-fast",
        "FAST, background",
        Kind::Background,
        "FAST, learned while another app runs (LibreOffice Writer, if no other is named), launched in a system cold start: pages that it had mapped are not in what FAST sees.",
    ),
    of(
        "background-shift+merge",
        "+ merge, background",
        Kind::Background,
        "Paralfetch as in the paper, learned while another app runs, launched in a system cold start: page-fault monitoring sees what that had mapped.",
    ),
    of(
        "background-infill",
        "+ infill, background",
        Kind::Background,
        "Paralfetch with exact learning, learned while another app runs, launched in a system cold start.",
    ),
    of(
        "live-infill",
        "+ infill, live",
        Kind::Live,
        "Paralfetch with the set of a warm launch, learned without dropping any cache.",
    ),
    of(
        "warm-live",
        "warm, being learned",
        Kind::Learning,
        "Warm, with everything that live learning has running meanwhile: what it costs while it is on.",
    ),
    of(
        "wrong-page",
        "off by one page",
        Kind::Wrong,
        "As + infill, but data of each file are asked for one 4 KiB page behind where they are; metadata are right.",
    ),
    of(
        "wrong-pages",
        "other pages",
        Kind::Wrong,
        "As + infill, but as much data of each file, where it has room, is asked for from pages that nobody needs; metadata are right: what an update of the app may leave (FAST §5.2).",
    ),
    of(
        "wrong-app",
        "another app's",
        Kind::Wrong,
        "What was learned of another app (LibreOffice Writer, if no other is named) is prefetched as in + infill (FAST §5.2).",
    ),
    of(
        "warm-infill",
        "warm, prefetched",
        Kind::OneCore,
        "Warm, with a prefetcher that finds everything cached and ends.",
    ),
    of(
        ONE_CORE_COLD,
        "cold, one processor",
        Kind::OneCore,
        "Cold start of an app that may use one processor. The emulator of the drive and the display have the others.",
    ),
    of(
        "one-core-infill",
        "+ infill, one processor",
        Kind::OneCore,
        "Paralfetch in full, with the app and the prefetch thread on one processor.",
    ),
    of(
        "one-core-warm",
        "warm, one processor",
        Kind::OneCore,
        "Warm start of an app that may use one processor.",
    ),
    of(
        "one-core-warm-infill",
        "warm, prefetched, one processor",
        Kind::OneCore,
        "The same, while a prefetch thread on the same processor finds everything cached.",
    ),
    of(
        "sweep-shift",
        "shift of so many KiB",
        Kind::Swept,
        "The set as read, merged as in + merge, with a metadata shift of so many KiB, beside the app.",
    ),
    of(
        "sweep-distance",
        "I/O distance",
        Kind::Swept,
        "The set as read, shifted as in + merge, with a range merge within this I/O distance, beside the app.",
    ),
    of(
        "sweep-hole",
        "holes of so many pages",
        Kind::Swept,
        "The exact set as in + infill, with an infill merge across holes of up to so many 4 KiB pages, beside the app.",
    ),
    of(
        "sweep-mobifetch-hole",
        "Mobifetch, holes of so many pages",
        Kind::Swept,
        "Mobifetch with holes of up to so many 4 KiB pages, beside the app.",
    ),
    of(
        "sweep-mobifetch-distance",
        "Mobifetch, I/O distance",
        Kind::Swept,
        "Mobifetch with this I/O distance, beside the app.",
    ),
    of(
        "only-sweep-mobifetch-hole",
        "Mobifetch, holes, alone",
        Kind::Swept,
        "The schedule of sweep-mobifetch-hole, prefetched alone, without a launch.",
    ),
    of(
        "only-sweep-mobifetch-distance",
        "Mobifetch, I/O distance, alone",
        Kind::Swept,
        "The schedule of sweep-mobifetch-distance, prefetched alone, without a launch.",
    ),
    of(
        "only-sweep-shift",
        "shift, alone",
        Kind::Swept,
        "The schedule of sweep-shift, prefetched alone, without a launch.",
    ),
    of(
        "only-sweep-distance",
        "I/O distance, alone",
        Kind::Swept,
        "The schedule of sweep-distance, prefetched alone, without a launch.",
    ),
    of(
        "only-sweep-hole",
        "holes, alone",
        Kind::Swept,
        "The schedule of sweep-hole, prefetched alone, without a launch.",
    ),
    of(
        "writer-cold",
        "cold, drive written",
        Kind::Writer,
        "Cold start while a large file on the same drive is being rewritten with buffered writes (QASIO §3, scenario A).",
    ),
    of(
        "writer-prefetch",
        "Paralfetch, drive written",
        Kind::Writer,
        "Paralfetch while a large file on the same drive is being rewritten with buffered writes.",
    ),
    of(
        "writer-shield",
        "Paralfetch and shield, drive written",
        Kind::Writer,
        "The same, with the shield as the service uses it: told when the launch begins.",
    ),
    of(
        "together-cold",
        "cold",
        Kind::Together,
        "Several apps started at once, all cold; until the last is there.",
    ),
    of(
        "together-sorted",
        "sorted",
        Kind::Together,
        "Several apps started at once, each with the sorted prefetcher.",
    ),
    of(
        "together-fast",
        "FAST",
        Kind::Together,
        "Several apps started at once, each with FAST.",
    ),
    of(
        "together-infill",
        "Paralfetch",
        Kind::Together,
        "Several apps started at once, each with Paralfetch in full.",
    ),
];

/// What the names of sweeps begin with, and those of their prefetchers alone.
pub const SWEEP: &str = "sweep-";
pub const SWEEP_ALONE: &str = "only-sweep-";

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
    [SERVICE, SWEEP, SWEEP_ALONE]
        .iter()
        .any(|prefix| scenario.starts_with(prefix))
}

/// The scenario of this name, numbered or not, if it is known.
pub fn find(name: &str) -> Option<&'static Scenario> {
    let name = unnumbered(name);
    SCENARIOS.iter().find(|scenario| scenario.name == name)
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

/// Its paragraph.
pub fn description(name: &str) -> &'static str {
    find(name).map_or(
        "A scenario that this version of the report does not know.",
        |s| s.description,
    )
}

/// Place in reports: unknown scenarios come last.
pub fn rank(name: &str) -> usize {
    SCENARIOS
        .iter()
        .position(|scenario| scenario.name == unnumbered(name))
        .unwrap_or(SCENARIOS.len())
}

/// The scenario that this one is normalized to.
pub fn baseline(name: &str) -> &'static str {
    match kind(name) {
        Kind::Beside => BESIDE_COLD,
        Kind::OneCore if name.starts_with(ONE_CORE) => ONE_CORE_COLD,
        Kind::Service if unnumbered(name) == SERVICE_BESIDE => BESIDE_COLD,
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
    use super::*;

    #[test]
    fn names_are_unique_and_described() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert_eq!(rank(scenario.name), index, "{}", scenario.name);
            assert!(scenario.description.ends_with('.'), "{}", scenario.name);
        }
    }

    #[test]
    fn baselines_are_known() {
        for scenario in SCENARIOS {
            assert!(find(baseline(scenario.name)).is_some());
        }
        assert_eq!(baseline("writer-prefetch"), "writer-cold");
        assert_eq!(baseline("together-fast"), "together-cold");
        assert_eq!(baseline("background-fast"), "cold");
        assert_eq!(baseline("beside-infill"), "beside-cold");
        assert_eq!(baseline("one-core-warm"), "one-core-cold");
        assert_eq!(["warm-infill", "wrong-app"].map(baseline), ["cold"; 2]);
        assert_eq!(baseline("service-beside-2"), "beside-cold");
        assert_eq!(baseline("service-background-2"), "cold");
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
        assert_eq!(unnumbered("service-beside-3"), SERVICE_BESIDE);
        assert_eq!(unnumbered(SERVICE_BESIDE), SERVICE_BESIDE);
        assert_eq!(kind("service-background-3"), Kind::Service);
        assert_eq!(kind("sweep-shift-64"), Kind::Swept);
        assert_eq!(unnumbered("only-sweep-hole-8"), "only-sweep-hole");
        assert!(is_prefetch_only("only-sweep-hole-8"));
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
