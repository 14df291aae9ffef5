//! What a launch is like: which caches are filled, who prefetches, what else is going on.

use std::fmt;

use anyhow::{Result, bail};

use super::SCENARIOS;
use crate::methods::{Method, Swept, SweptParameter, WrongProfile};

/// What runs on the system while an app is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// No other app runs.
    Idle,
    /// An app that shares files with it runs.
    Background,
    /// No other app runs and an earlier launch has cached everything: live learning.
    Live,
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
    /// As `Warm`, while it is learned live: what live learning costs.
    WarmLive,
    /// As [`Scenario::Warm`], while a prefetcher finds that there is nothing to do (Paralfetch §5.5).
    WarmPrefetch,
    /// Nothing cached, with a prefetcher (for the `Only…` methods: the prefetcher alone).
    Prefetched(Method),
    /// As `Prefetched`, with a parameter of the schedule set by a sweep.
    Swept(Swept),
    /// The prefetcher of a sweep alone, without an app.
    SweptAlone(Swept),
    /// Nothing cached, with the product's prefetcher and a profile that is wrong (FAST §5.2).
    Wrong(WrongProfile),
    /// The app and its prefetcher share a processor.
    OneCore(OneCore),
    /// Nothing cached, while a large file is being rewritten on the same drive (QASIO §3, A).
    WriterCold,
    /// As `WriterCold`, with Paralfetch.
    WriterPrefetch,
    /// As `WriterPrefetch`, with the shield, which learns of the launch.
    WriterShield,
    /// Cold, with the method's set learned while another app was running (Figure 11).
    Background(Method),
    /// Cold, with the exact set's prefetcher and a set that was learned live, from a warm launch.
    Live,
    /// A round of launches one after the other, each cold and started as in [`Scenario::Cold`], with the
    /// service on; it has not seen the app before.
    Service,
    /// Several apps at once, cold; `None`: without a prefetcher (FAST Figure 8).
    Together(Option<Method>),
}

/// What the names of launches of a sweep begin with, and those of its prefetcher alone.
pub const SWEEP: &str = "sweep-";
pub const SWEEP_ALONE: &str = "only-sweep-";

/// Scenarios for several apps at once.
pub const TOGETHER: [Scenario; 4] = [
    Scenario::Together(None),
    Scenario::Together(Some(Method::Sorted)),
    Scenario::Together(Some(Method::Fast)),
    Scenario::Together(Some(Method::Infill)),
];

impl Scenario {
    /// Every scenario of one app but those of sweeps.
    fn all() -> impl Iterator<Item = Scenario> {
        let listed = SCENARIOS.iter().filter_map(|listed| listed.how);
        listed.filter(|scenario| !matches!(scenario, Scenario::Together(_)))
    }

    /// The scenarios of a group, in the order in which they take turns.
    fn group(name: &str) -> Option<Vec<Scenario>> {
        let own = SCENARIOS
            .iter()
            .filter(|listed| listed.groups.contains(&name));
        let own: Vec<Scenario> = own.filter_map(|listed| listed.how).collect();
        if !own.is_empty() {
            return Some(own);
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
                    let groups = super::groups().join(", ");
                    let names: Vec<String> = Self::all().map(|s| s.to_string()).collect();
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
            | Scenario::OneCore(OneCore::Cold | OneCore::Warm)
            | Scenario::Service => None,
            Scenario::Prefetched(method) | Scenario::Background(method) => Some(method),
            Scenario::Swept(swept) | Scenario::SweptAlone(swept) => Some(swept.method()),
            Scenario::Live
            | Scenario::WarmPrefetch
            | Scenario::OneCore(OneCore::Prefetched | OneCore::WarmPrefetch)
            | Scenario::Wrong(_)
            | Scenario::WriterPrefetch
            | Scenario::WriterShield => Some(Method::Infill),
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
        self.condition() == Condition::Background || self.takes_other_set()
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
        self.method() == Some(Method::Formula) || self == Scenario::Service
    }

    /// The condition under which its set was learned.
    pub fn condition(self) -> Condition {
        match self {
            Scenario::Background(_) => Condition::Background,
            Scenario::Live => Condition::Live,
            _ => Condition::Idle,
        }
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
            Scenario::Swept(swept) => write!(f, "{SWEEP}{swept}"),
            Scenario::SweptAlone(swept) => write!(f, "{SWEEP_ALONE}{swept}"),
            how => {
                let mut listed = SCENARIOS.iter();
                let found = listed.find(|listed| listed.how == Some(*how));
                f.write_str(found.ok_or(fmt::Error)?.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn scenarios_with_another_app_are_told() {
        let list = |names: &str| Scenario::parse_list(names).unwrap();
        let mut others = list("standard,live,service,writer").into_iter();
        assert!(!others.any(Scenario::needs_other_app));
        assert!(
            list("background")
                .into_iter()
                .all(Scenario::needs_other_app)
        );
        let wrong = list("wrong").into_iter().filter(|s| s.needs_other_app());
        let wrong: Vec<Scenario> = wrong.collect();
        assert_eq!(wrong, [Scenario::Wrong(WrongProfile::OtherApp)]);
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
}
