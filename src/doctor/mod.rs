//! What this system allows: each ability that learning and prefetching rest on, whether it is there,
//! and what its absence costs.
//!
//! Nothing is guessed from version numbers where it can be tried: with root, the programs of a
//! learning session are loaded and attached, and detached again.

mod kernel;
mod system;

use serde::Serialize;

use crate::model::Hooks;

/// How an ability stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbilityLevel {
    /// As it should be.
    Ok,
    /// Paralfetch works, but not as well as it could.
    Less,
    /// Learning or prefetching does not work.
    Broken,
}

/// One ability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbilityCheck {
    /// What was looked at.
    pub name: &'static str,
    /// How it stands.
    pub level: AbilityLevel,
    /// What was found.
    pub found: String,
    /// What it costs that it is not as it should be, and what to do; `None` if it is.
    pub cost: Option<String>,
}

impl AbilityCheck {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        AbilityCheck {
            name,
            level: AbilityLevel::Ok,
            found: found.into(),
            cost: None,
        }
    }

    fn less(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        AbilityCheck {
            level: AbilityLevel::Less,
            cost: Some(cost.into()),
            ..AbilityCheck::ok(name, found)
        }
    }

    fn broken(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        AbilityCheck {
            level: AbilityLevel::Broken,
            ..AbilityCheck::less(name, found, cost)
        }
    }
}

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Whether learning and prefetching work: nothing is [`AbilityLevel::Broken`].
    pub works: bool,
    /// The running kernel's release, such as `6.1.0-25-amd64`.
    pub kernel: String,
    /// By what means a learning session sees cached pages; `None` if none could be attached.
    pub hooks: Option<Hooks>,
    /// Each ability, in the order in which they build on each other.
    pub checks: Vec<AbilityCheck>,
}

/// Looks at everything. Takes part of a second; the calling thread must be the process's main thread,
/// as for learning. Changes nothing.
pub fn diagnose() -> Diagnosis {
    let kernel = kernel::release();
    let mut checks = vec![
        AbilityCheck::ok("kernel", kernel.clone()),
        kernel::root(),
        kernel::bpf(),
        kernel::btf(),
        kernel::lockdown(),
    ];
    let (hooks, hook_checks) = kernel::hooks();
    checks.extend(hook_checks);
    checks.push(kernel::fault_around());
    checks.push(kernel::cachestat());
    checks.extend(system::drives());
    checks.push(system::memory());
    checks.push(system::memory_cgroup());
    Diagnosis {
        works: checks
            .iter()
            .all(|check| check.level < AbilityLevel::Broken),
        kernel,
        hooks,
        checks,
    }
}
