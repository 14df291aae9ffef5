//! What a launch is like: which caches are filled, who prefetches, what else is going on.

use std::fmt;

use anyhow::{Result, bail};

use super::learned_store::Condition;
use crate::methods::{Method, Swept, SweptParameter, WrongProfile};

/// Whether another app runs in the background during a round with the service on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beside {
    /// No other app runs.
    Nothing,
    /// Until the service prefetches: its profile is learned beside the other app.
    WhileLearned,
    /// During every launch of the round.
    Always,
}

/// A launch that shares one processor with its prefetcher (Paralfetch §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OneCore {
    /// As [`Scenario::Cold`].
    Cold,
    /// As [`Method::Infill`].
    Prefetched,
    /// As [`Scenario::Warm`].
    Warm,
    /// As [`Scenario::WarmPrefetch`].
    WarmPrefetch,
}

/// How an app is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scenario {
    /// Nothing of it cached.
    Cold,
    /// Everything cached but the completion block.
    Warm,
    /// The same, while it is learned live: what live learning costs.
    WarmLive,
    /// As [`Scenario::Warm`], while a prefetcher finds that there is nothing to do (Paralfetch §5.5).
    WarmPrefetch,
    /// Nothing cached, with a prefetcher (for the `Only…` methods: the prefetcher alone).
    Prefetched(Method),
    /// The same, with a parameter of the schedule set by a sweep.
    Swept(Swept),
    /// The prefetcher of a sweep alone, without an app.
    SweptAlone(Swept),
    /// Nothing cached, with the product's prefetcher and a profile that is wrong (FAST §5.2).
    Wrong(WrongProfile),
    /// The app and its prefetcher share a processor.
    OneCore(OneCore),
    /// Nothing cached, while a large file is being rewritten on the same drive (QASIO §3, A).
    WriterCold,
    /// The same, with Paralfetch.
    WriterPrefetch,
    /// The same, with the shield, which learns of the launch.
    WriterShield,
    /// Cold, with the method's set learned while another app was running (Figure 11).
    Background(Method),
    /// Cold, with the exact set's prefetcher and a set that was learned live, from a warm launch.
    Live,
    /// A round of launches one after the other, each cold and started as in [`Scenario::Cold`], with the
    /// service on; it has not seen the app before.
    Service(Beside),
    /// Cold, while another app runs in the background: what that has mapped stays cached.
    BesideCold,
    /// The same, with Paralfetch and the set that was learned on an idle system.
    BesidePrefetch,
    /// Several apps at once, cold; `None`: without a prefetcher (FAST Figure 8).
    Together(Option<Method>),
}

/// Scenarios that are asked for by one name.
pub const GROUPS: [(&str, &[Scenario]); 11] = [
    (
        "standard",
        &[
            Scenario::Cold,
            Scenario::Prefetched(Method::OnlyAsRead),
            Scenario::Prefetched(Method::OnlyExact),
            Scenario::Prefetched(Method::Gsoc),
            Scenario::Prefetched(Method::Sorted),
            Scenario::Prefetched(Method::Fast),
            Scenario::Prefetched(Method::Mobifetch),
            Scenario::Prefetched(Method::Traced),
            Scenario::Prefetched(Method::Shift),
            Scenario::Prefetched(Method::ShiftMerge),
            Scenario::Prefetched(Method::Exact),
            Scenario::Prefetched(Method::Infill),
            Scenario::Prefetched(Method::Dynamic),
            Scenario::Warm,
        ],
    ),
    (
        "short",
        &[
            Scenario::Cold,
            Scenario::Prefetched(Method::Infill),
            Scenario::Warm,
        ],
    ),
    (
        "formula",
        &[
            Scenario::Cold,
            Scenario::Prefetched(Method::Sorted),
            Scenario::Prefetched(Method::Infill),
            Scenario::Prefetched(Method::Formula),
            Scenario::Warm,
        ],
    ),
    (
        "wrong",
        &[
            Scenario::Cold,
            Scenario::Prefetched(Method::Infill),
            Scenario::Wrong(WrongProfile::OffByOne),
            Scenario::Wrong(WrongProfile::OtherPages),
            Scenario::Wrong(WrongProfile::OtherApp),
        ],
    ),
    (
        "one-core",
        &[
            Scenario::Cold,
            Scenario::Prefetched(Method::Infill),
            Scenario::OneCore(OneCore::Cold),
            Scenario::OneCore(OneCore::Prefetched),
            Scenario::Warm,
            Scenario::WarmPrefetch,
            Scenario::OneCore(OneCore::Warm),
            Scenario::OneCore(OneCore::WarmPrefetch),
        ],
    ),
    (
        "background",
        &[
            Scenario::Background(Method::Fast),
            Scenario::Background(Method::ShiftMerge),
            Scenario::Background(Method::Infill),
        ],
    ),
    ("live", &[Scenario::Live, Scenario::WarmLive]),
    ("service", &[Scenario::Service(Beside::Nothing)]),
    (
        "service-background",
        &[Scenario::Service(Beside::WhileLearned)],
    ),
    (
        "beside",
        &[
            Scenario::BesideCold,
            Scenario::BesidePrefetch,
            Scenario::Service(Beside::Always),
        ],
    ),
    (
        "writer",
        &[
            Scenario::Cold,
            Scenario::Prefetched(Method::Infill),
            Scenario::WriterCold,
            Scenario::WriterPrefetch,
            Scenario::WriterShield,
        ],
    ),
];

/// What the names of launches of a sweep begin with, and those of its prefetcher alone.
const SWEEP: &str = "sweep-";
const SWEEP_ALONE: &str = "only-sweep-";

/// Scenarios for several apps at once.
pub const TOGETHER: [Scenario; 4] = [
    Scenario::Together(None),
    Scenario::Together(Some(Method::Sorted)),
    Scenario::Together(Some(Method::Fast)),
    Scenario::Together(Some(Method::Infill)),
];

impl Scenario {
    /// Every scenario of one app.
    pub fn all() -> impl Iterator<Item = Scenario> {
        GROUPS
            .iter()
            .flat_map(|(_, scenarios)| scenarios.iter().copied())
    }

    /// The scenarios of a group.
    fn group(name: &str) -> Option<Vec<Scenario>> {
        if let Some((_, scenarios)) = GROUPS.iter().find(|(own, _)| *own == name) {
            return Some(scenarios.to_vec());
        }
        let parameter = SweptParameter::named(name.strip_prefix(SWEEP)?)?;
        let mut scenarios = vec![Scenario::Cold];
        for &value in parameter.values() {
            let swept = Swept { parameter, value };
            scenarios.extend([Scenario::Swept(swept), Scenario::SweptAlone(swept)]);
        }
        Some(scenarios)
    }

    /// The scenario of this name.
    fn named(name: &str) -> Option<Scenario> {
        let swept = |prefix| Swept::parse(name.strip_prefix(prefix)?);
        let alone = || swept(SWEEP_ALONE).map(Scenario::SweptAlone);
        (Self::all().find(|scenario| scenario.to_string() == name))
            .or_else(|| swept(SWEEP).map(Scenario::Swept))
            .or_else(alone)
    }

    /// Reads a list such as `standard,writer-cold`: names of scenarios and of groups, in the order in
    /// which they are to take turns; each once.
    ///
    /// # Errors
    /// Names the word that is neither.
    pub fn parse_list(list: &str) -> Result<Vec<Scenario>> {
        let mut found = Vec::new();
        for word in list.split(',') {
            let one = || Some(vec![Self::named(word)?]);
            let asked = match Self::group(word).or_else(one) {
                Some(scenarios) => scenarios,
                None => {
                    let sweeps =
                        SweptParameter::ALL.map(|swept| format!("{SWEEP}{}", swept.name()));
                    let groups = GROUPS.map(|(name, _)| name).join(", ");
                    let mut names: Vec<String> = Self::all().map(|s| s.to_string()).collect();
                    names.dedup();
                    bail!(
                        "there is no scenario '{word}'; groups are {groups}, {}; scenarios are {}, and those of a sweep \
                         with any value, such as {SWEEP}shift-96",
                        sweeps.join(", "),
                        names.join(", ")
                    );
                }
            };
            for scenario in asked {
                if !found.contains(&scenario) {
                    found.push(scenario);
                }
            }
        }
        // A warm launch follows one of the same app.
        found.sort_by_key(|scenario| scenario.is_warm());
        Ok(found)
    }

    /// The order in which a turn (from 0) takes these, in the order of [`Scenario::parse_list`]. The
    /// first warm launch follows a cold one, so warm ones are taken in reverse every other turn: none
    /// of them has the better place.
    pub fn in_turn(scenarios: &[Scenario], turn: u32) -> Vec<Scenario> {
        let mut order = scenarios.to_vec();
        if turn % 2 == 1 {
            let warm = order.partition_point(|scenario| !scenario.is_warm());
            order[warm..].reverse();
        }
        order
    }

    /// The method that prefetches.
    pub fn method(self) -> Option<Method> {
        match self {
            Scenario::Cold
            | Scenario::Warm
            | Scenario::WarmLive
            | Scenario::WriterCold
            | Scenario::BesideCold
            | Scenario::OneCore(OneCore::Cold | OneCore::Warm)
            | Scenario::Service(_) => None,
            Scenario::Prefetched(method) | Scenario::Background(method) => Some(method),
            Scenario::Swept(swept) | Scenario::SweptAlone(swept) => Some(swept.method()),
            Scenario::Live
            | Scenario::WarmPrefetch
            | Scenario::OneCore(OneCore::Prefetched | OneCore::WarmPrefetch)
            | Scenario::Wrong(_)
            | Scenario::WriterPrefetch
            | Scenario::WriterShield
            | Scenario::BesidePrefetch => Some(Method::Infill),
            Scenario::Together(method) => method,
        }
    }

    /// Whether everything is cached but the completion block.
    pub fn is_warm(self) -> bool {
        matches!(
            self,
            Scenario::Warm
                | Scenario::WarmLive
                | Scenario::WarmPrefetch
                | Scenario::OneCore(OneCore::Warm | OneCore::WarmPrefetch)
        )
    }

    /// Whether the app and its prefetcher share a processor.
    pub fn has_one_processor(self) -> bool {
        matches!(self, Scenario::OneCore(_))
    }

    /// Whether what was learned of another app is prefetched.
    pub fn takes_other_set(self) -> bool {
        self == Scenario::Wrong(WrongProfile::OtherApp)
    }

    /// Whether there is another app in it, running or only learned.
    pub fn needs_other_app(self) -> bool {
        self.needs_background() || self.takes_other_set()
    }

    /// Whether the launch is learned live while it is measured.
    pub fn learns_live(self) -> bool {
        self == Scenario::WarmLive
    }

    /// Whether only the prefetch is measured, and no app launched.
    pub fn is_prefetch_only(self) -> bool {
        matches!(self, Scenario::Prefetched(method) if method.alone())
            || matches!(self, Scenario::SweptAlone(_))
    }

    /// The parameter that a sweep has set.
    pub fn swept(self) -> Option<Swept> {
        match self {
            Scenario::Swept(swept) | Scenario::SweptAlone(swept) => Some(swept),
            _ => None,
        }
    }

    /// Whether the drive is to be measured: the service knows its costs, or the schedule is made by them.
    pub fn needs_costs(self) -> bool {
        self.method() == Some(Method::Formula) || matches!(self, Scenario::Service(_))
    }

    /// The condition under which its set was learned.
    pub fn condition(self) -> Condition {
        match self {
            Scenario::Background(_) => Condition::Background,
            Scenario::Live => Condition::Live,
            _ => Condition::Idle,
        }
    }

    /// Whether another app runs in the background while the app is learned or launched.
    pub fn needs_background(self) -> bool {
        self.condition() == Condition::Background
            || self.runs_beside()
            || matches!(self, Scenario::Service(beside) if beside != Beside::Nothing)
    }

    /// Whether another app runs in the background during a single launch.
    pub fn runs_beside(self) -> bool {
        matches!(self, Scenario::BesideCold | Scenario::BesidePrefetch)
    }

    /// Whether a large file is being written meanwhile.
    pub fn has_writer(self) -> bool {
        matches!(
            self,
            Scenario::WriterCold | Scenario::WriterPrefetch | Scenario::WriterShield
        )
    }

    /// Whether a shield learns of the launch.
    pub fn has_shield(self) -> bool {
        self == Scenario::WriterShield
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scenario::Cold => f.write_str("cold"),
            Scenario::Warm => f.write_str("warm"),
            Scenario::WarmLive => f.write_str("warm-live"),
            Scenario::Prefetched(method) => f.write_str(method.name()),
            Scenario::Swept(swept) => write!(f, "{SWEEP}{swept}"),
            Scenario::SweptAlone(swept) => write!(f, "{SWEEP_ALONE}{swept}"),
            Scenario::WarmPrefetch => f.write_str("warm-infill"),
            Scenario::Wrong(how) => write!(f, "wrong-{how}"),
            Scenario::OneCore(OneCore::Cold) => f.write_str("one-core-cold"),
            Scenario::OneCore(OneCore::Prefetched) => f.write_str("one-core-infill"),
            Scenario::OneCore(OneCore::Warm) => f.write_str("one-core-warm"),
            Scenario::OneCore(OneCore::WarmPrefetch) => f.write_str("one-core-warm-infill"),
            Scenario::WriterCold => f.write_str("writer-cold"),
            Scenario::WriterPrefetch => f.write_str("writer-prefetch"),
            Scenario::WriterShield => f.write_str("writer-shield"),
            Scenario::Background(method) => write!(f, "background-{}", method.name()),
            Scenario::Live => f.write_str("live-infill"),
            Scenario::Service(Beside::Nothing) => f.write_str("service"),
            Scenario::Service(Beside::WhileLearned) => f.write_str("service-background"),
            Scenario::Service(Beside::Always) => f.write_str("service-beside"),
            Scenario::BesideCold => f.write_str("beside-cold"),
            Scenario::BesidePrefetch => f.write_str("beside-infill"),
            Scenario::Together(None) => f.write_str("together-cold"),
            Scenario::Together(Some(method)) => write!(f, "together-{}", method.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn groups_and_names_make_a_list() {
        let list = Scenario::parse_list("warm,short,writer-cold").unwrap();
        assert_eq!(
            list,
            [
                Scenario::Cold,
                Scenario::Prefetched(Method::Infill),
                Scenario::WriterCold,
                Scenario::Warm,
            ]
        );
        let error = Scenario::parse_list("cold,hot").unwrap_err().to_string();
        assert!(
            error.contains("'hot'") && error.contains("standard"),
            "{error}"
        );
    }

    #[test]
    fn a_sweep_is_a_group_and_each_value_a_scenario() {
        let list = Scenario::parse_list("sweep-hole").unwrap();
        assert_eq!(list[0], Scenario::Cold);
        assert_eq!(list.len(), 1 + 2 * SweptParameter::Hole.values().len());
        for scenario in &list[1..] {
            let name = scenario.to_string();
            assert_eq!(Scenario::parse_list(&name).unwrap(), [*scenario]);
            assert_eq!(scenario.is_prefetch_only(), name.starts_with("only-"));
        }
        for (name, needs) in [("service", true), ("formula", true), ("cold", false)] {
            let list = Scenario::parse_list(name).unwrap();
            assert_eq!(list.iter().any(|one| one.needs_costs()), needs, "{name}");
        }
        assert_eq!(
            Scenario::parse_list("sweep-shift-96").unwrap()[0].method(),
            Some(Method::ShiftMerge)
        );
        for wrong in ["sweep-", "sweep-tilt", "sweep-shift-", "only-sweep-shift"] {
            let error = Scenario::parse_list(wrong).unwrap_err().to_string();
            assert!(error.contains("sweep-hole"), "{error}");
        }
    }

    #[test]
    fn scenarios_with_an_app_in_the_background_are_told() {
        let list = |names: &str| Scenario::parse_list(names).unwrap();
        assert!(
            !list("standard,live,service,writer")
                .iter()
                .any(|s| s.needs_background())
        );
        let beside = list("background,service-background,beside");
        assert!(beside.iter().all(|s| s.needs_background()));
        let wrong = list("wrong");
        assert!(!wrong.iter().any(|s| s.needs_background()));
        let others: Vec<_> = wrong.iter().filter(|s| s.needs_other_app()).collect();
        assert_eq!(others, [&Scenario::Wrong(WrongProfile::OtherApp)]);
        assert_eq!(
            list("service-beside"),
            [Scenario::Service(Beside::Always)],
            "alone, too"
        );
    }

    #[test]
    fn warm_launches_come_last_and_change_places() {
        let list = Scenario::parse_list("warm-live,cold,warm,live-infill").unwrap();
        let (cold, live) = (Scenario::Cold, Scenario::Live);
        let (warm, warm_live) = (Scenario::Warm, Scenario::WarmLive);
        assert_eq!(list, [cold, live, warm_live, warm]);
        assert_eq!(Scenario::in_turn(&list, 0), list);
        assert_eq!(Scenario::in_turn(&list, 1), [cold, live, warm, warm_live]);
    }

    #[test]
    fn names_are_unique() {
        let scenarios: HashSet<Scenario> = Scenario::all().chain(TOGETHER).collect();
        let names: HashSet<String> = scenarios.iter().map(Scenario::to_string).collect();
        assert_eq!(names.len(), scenarios.len());
    }
}
