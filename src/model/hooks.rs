//! The kernel hooks by which uses of cached pages are traced.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How uses of cached pages are traced, or why they cannot be. Profiles hold the variant's number: in another order,
/// they are of another format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookKind {
    /// By the kernel's own tracepoints.
    Tracepoint,
    /// By programs on entry to or exit from the kernel's functions.
    Fentry,
    /// Not traced: the kernel has neither the tracepoints nor the functions that would contain them (its
    /// compiler may have inlined those).
    #[default]
    NoFunction,
    /// Not traced: the kernel has no tracepoints and allows no programs on its functions (it is locked down,
    /// or built without support).
    Refused,
}

impl HookKind {
    /// The weaker of the two.
    pub(crate) fn weaker(self, other: HookKind) -> HookKind {
        // A missing function says more than a refusal: it would not help to be allowed more.
        let rank = |means| match means {
            HookKind::Tracepoint => 0,
            HookKind::Fentry => 1,
            HookKind::Refused => 2,
            HookKind::NoFunction => 3,
        };
        std::cmp::max_by_key(self, other, |&means| rank(means))
    }

    /// Whether uses are traced.
    pub fn sees(self) -> bool {
        matches!(self, HookKind::Tracepoint | HookKind::Fentry)
    }
}

impl fmt::Display for HookKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            HookKind::Tracepoint => "tracepoint",
            HookKind::Fentry => "fentry",
            HookKind::NoFunction => "not seen (no tracepoint, no such function)",
            HookKind::Refused => "not seen (no tracepoint, fentry refused)",
        })
    }
}

/// How a learning run traces pages that were cached before the launch. Other pages are always traced, when
/// they are added to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// Pages that read(2) and its kin take from the cache: `filemap_get_pages`.
    pub reads: HookKind,
    /// Pages that page faults take from the cache: `filemap_fault` and `filemap_map_pages`. If the
    /// two are traced in different ways, the weaker one.
    pub faults: HookKind,
}

impl Hooks {
    /// What is not learned where reads of cached pages are not traced.
    pub const READS_LOST: &str =
        "files that the app reads while another program holds them in the cache";

    /// What is not learned where page faults on cached pages are not traced.
    pub const FAULTS_LOST: &str =
        "programs, libraries and mapped files that another running program has mapped too";

    /// What a profile that was learned with these hooks lacks, a line for each kind of use that is not
    /// traced.
    pub fn losses(&self) -> Vec<String> {
        [
            (self.reads, "reads of cached pages", Hooks::READS_LOST),
            (
                self.faults,
                "page faults on cached pages",
                Hooks::FAULTS_LOST,
            ),
        ]
        .into_iter()
        .filter(|(means, ..)| !means.sees())
        .map(|(means, uses, lost)| format!("{uses} are {means}: {lost} are not in the profile"))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weaker_hook_is_that_which_sees_less_or_says_more() {
        let ranked = [
            HookKind::Tracepoint,
            HookKind::Fentry,
            HookKind::Refused,
            HookKind::NoFunction,
        ];
        for (rank, stronger) in ranked.into_iter().enumerate() {
            for weaker in ranked.into_iter().skip(rank) {
                assert_eq!(stronger.weaker(weaker), weaker);
                assert_eq!(weaker.weaker(stronger), weaker);
            }
        }
    }

    #[test]
    fn losses_name_what_is_not_seen_and_why() {
        let all = Hooks {
            reads: HookKind::Fentry,
            faults: HookKind::Tracepoint,
        };
        assert!(all.losses().is_empty());
        let none = Hooks {
            reads: HookKind::NoFunction,
            faults: HookKind::Refused,
        };
        let losses = none.losses();
        assert_eq!(losses.len(), 2);
        assert!(losses[0].contains("no such function"), "{}", losses[0]);
        assert!(losses[1].contains("fentry refused"), "{}", losses[1]);
    }
}
