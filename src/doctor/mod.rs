//! What this system allows: each ability that learning and prefetching rest on, whether it is there,
//! and what its absence costs.
//!
//! Nothing is guessed from version numbers where it can be tried: with root, the programs of a
//! learning session are loaded and attached, and detached again.

mod kernel;
mod listeners;
mod system;
mod writes;

use std::path::Path;

use serde::Serialize;

use crate::model::Hooks;

pub use listeners::listener_mask;

/// How an ability stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbilityLevel {
    /// As it should be.
    Ok,
    /// Only root can look at it.
    Unknown,
    /// Paralfetch works, but not as well as it could.
    Less,
    /// Learning or prefetching does not work.
    Broken,
}

/// One ability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbilityCheck {
    /// What was looked at.
    pub name: String,
    /// How it stands.
    pub level: AbilityLevel,
    /// What was found.
    pub found: String,
    /// What it costs that it is not as it should be or not known to be, and what to do; `None` if it is.
    pub cost: Option<String>,
}

/// What was found of an ability: `Err` where it is not as it should be.
type Found = Result<String, String>;

impl AbilityCheck {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        AbilityCheck::useful(name, Ok(found.into()), "")
    }

    /// An ability that this user cannot look at.
    fn unknown(name: impl Into<String>, found: impl Into<String>, cost: impl Into<String>) -> Self {
        AbilityCheck {
            name: name.into(),
            level: AbilityLevel::Unknown,
            found: found.into(),
            cost: Some(cost.into()),
        }
    }

    /// An ability without which Paralfetch works less well.
    fn useful(name: impl Into<String>, found: Found, cost: impl Into<String>) -> Self {
        let cost = found.is_err().then(|| cost.into());
        AbilityCheck {
            name: name.into(),
            level: match found {
                Ok(_) => AbilityLevel::Ok,
                Err(_) => AbilityLevel::Less,
            },
            found: found.unwrap_or_else(|found| found),
            cost,
        }
    }

    /// An ability without which learning or prefetching does not work.
    fn needed(name: impl Into<String>, found: Found, cost: impl Into<String>) -> Self {
        let mut check = AbilityCheck::useful(name, found, cost);
        if check.level == AbilityLevel::Less {
            check.level = AbilityLevel::Broken;
        }
        check
    }
}

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Whether learning and prefetching work: nothing is [`AbilityLevel::Broken`], as far as this user can look.
    pub works: bool,
    /// The running kernel's release, such as `6.1.0-25-amd64`.
    pub kernel: String,
    /// How a learning session sees uses of cached pages; `None` if none could be attached, which takes root.
    pub hooks: Option<Hooks>,
    /// Each ability, in the order in which they build on each other.
    pub checks: Vec<AbilityCheck>,
}

/// Looks at everything, without root at what everybody may. Takes part of a second; the calling thread must be the
/// process's main thread, as for learning. Changes nothing. The measured costs of drives are
/// read from `state_dir`.
pub fn diagnose(state_dir: &Path) -> Diagnosis {
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy().into_owned();
    let mut checks = vec![AbilityCheck::ok("kernel", kernel.clone())];
    checks.extend(kernel::conditions());
    let (hooks, hook_checks) = kernel::hooks();
    checks.extend(hook_checks);
    checks.extend([kernel::fault_around(), kernel::cachestat()]);
    checks.extend(system::drives());
    checks.extend(system::drive_costs(state_dir));
    checks.extend([system::memory(), system::memory_cgroup()]);
    checks.push(listeners::permission_listeners());
    checks.push(writes::shield());
    Diagnosis {
        works: checks
            .iter()
            .all(|check| check.level < AbilityLevel::Broken),
        kernel,
        hooks,
        checks,
    }
}
