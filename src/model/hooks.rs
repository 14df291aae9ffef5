//! By what means uses of cached pages are seen.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How uses of cached pages are seen, or why they are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookKind {
    /// By the kernel's own tracepoints.
    Tracepoint,
    /// By programs on entry to or exit from the kernel's functions.
    Fentry,
    /// Not seen: the kernel has neither the tracepoints nor, by name, the functions that they would
    /// be in (its compiler may have inlined them).
    #[default]
    NoFunction,
    /// Not seen: the kernel has no tracepoints, and does not allow programs on its functions (it is
    /// locked down, or built without them).
    Refused,
}

impl HookKind {
    /// Whether anything is seen.
    pub fn sees(self) -> bool {
        matches!(self, HookKind::Tracepoint | HookKind::Fentry)
    }

    /// The one of the two that sees less.
    pub(crate) fn weaker(self, other: HookKind) -> HookKind {
        let rank = |means| match means {
            HookKind::Tracepoint => 0,
            HookKind::Fentry => 1,
            HookKind::Refused => 2,
            HookKind::NoFunction => 3,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
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

/// By what means a learning session sees pages that were cached before the launch. (Pages that were
/// not are always seen.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// Pages that read(2) and its kin take from the cache: `filemap_get_pages`.
    pub reads: HookKind,
    /// Pages that page faults take from the cache: `filemap_fault` and `filemap_map_pages`. If the
    /// two are seen by different means, the weaker one.
    pub faults: HookKind,
}

impl Hooks {
    /// Whether both kinds of use are seen.
    pub fn see_all(&self) -> bool {
        self.reads.sees() && self.faults.sees()
    }

    /// What is not learned where reads of cached pages are not seen.
    pub const READS_LOST: &str =
        "files that the app reads while another program holds them in the cache";

    /// What is not learned where page faults on cached pages are not seen.
    pub const FAULTS_LOST: &str =
        "programs, libraries and mapped files that another running program has mapped too";

    /// What is missing from a profile that was learned so, a line for each kind of use that is not
    /// seen.
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
    fn the_weaker_means_counts() {
        use HookKind::{Fentry, NoFunction, Refused, Tracepoint};
        for (a, b, weaker) in [
            (Tracepoint, Tracepoint, Tracepoint),
            (Tracepoint, Fentry, Fentry),
            (Refused, Fentry, Refused),
            (Tracepoint, NoFunction, NoFunction),
        ] {
            assert_eq!(a.weaker(b), weaker);
            assert_eq!(b.weaker(a), weaker);
        }
    }

    #[test]
    fn losses_name_what_is_not_seen_and_why() {
        let all = Hooks {
            reads: HookKind::Fentry,
            faults: HookKind::Tracepoint,
        };
        assert!(all.see_all());
        assert!(all.losses().is_empty());
        let none = Hooks {
            reads: HookKind::NoFunction,
            faults: HookKind::Refused,
        };
        assert!(!none.see_all());
        let losses = none.losses();
        assert_eq!(losses.len(), 2);
        assert!(losses[0].contains("no such function"), "{}", losses[0]);
        assert!(losses[1].contains("fentry refused"), "{}", losses[1]);
    }
}
