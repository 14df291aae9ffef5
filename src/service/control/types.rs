//! Arguments and answers of the calls, as plain data: dictionaries `a{sv}` on the bus and objects in
//! JSON, with the field names as keys.

use serde::{Deserialize, Serialize};
use zbus::zvariant::Type;

use crate::policy::{PhaseRequest, Plan};

/// One managed app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct AppState {
    /// What identifies it: an absolute path, or `launcher:name`.
    #[serde(with = "member")]
    pub app: String,
    /// Its name for people.
    #[serde(with = "member")]
    pub name: String,
    /// `learning`, `prefetching` or `disabled`.
    #[serde(with = "member")]
    pub phase: String,
    /// Why it is disabled; else empty.
    #[serde(with = "member")]
    pub why: String,
    /// Why it is managed: `user`, `desktop` (it has a .desktop entry) or `discovered`.
    #[serde(with = "member")]
    pub added_by: String,
    /// Launches that the service has seen.
    #[serde(with = "member")]
    pub launches: u64,
    /// When the last launch began, in seconds since the epoch; 0 if there was none.
    #[serde(with = "member")]
    pub last_s: u64,
    /// Launches that were prefetched.
    #[serde(with = "member")]
    pub prefetched: u64,
    /// Typical time that a prefetched cold launch waits for the drive, in microseconds; 0 for unknown.
    #[serde(with = "member")]
    pub cold_with_us: u64,
    /// The same without prefetching.
    #[serde(with = "member")]
    pub cold_without_us: u64,
    /// Typical time of a launch, in microseconds; 0 for unknown.
    #[serde(with = "member")]
    pub duration_us: u64,
    /// What prefetching saves of the waiting time, in percent; [`AppState::GAIN_UNKNOWN`] for unknown.
    #[serde(with = "member")]
    pub gain_percent: i32,
    /// Size of the profile's file; 0 if there is none.
    #[serde(with = "member")]
    pub profile_bytes: u64,
    /// Prefetch entries of the profile.
    #[serde(with = "member")]
    pub entries: u64,
}

impl AppState {
    /// Stands for a gain that is not known.
    pub const GAIN_UNKNOWN: i32 = -1000;

    /// The gain in percent, if it is known.
    pub fn gain(&self) -> Option<i32> {
        (self.gain_percent != Self::GAIN_UNKNOWN).then_some(self.gain_percent)
    }
}

/// The service as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct Status {
    /// Version of the service's program.
    #[serde(with = "member")]
    pub version: String,
    /// `manual` or `automatic`.
    #[serde(with = "member")]
    pub mode: String,
    /// Managed apps.
    #[serde(with = "member")]
    pub managed: u64,
    /// Managed apps that have a profile.
    #[serde(with = "member")]
    pub with_profile: u64,
    /// Managed apps whose next launch is learned.
    #[serde(with = "member")]
    pub learning: u64,
    /// Managed apps that are disabled.
    #[serde(with = "member")]
    pub disabled: u64,
    /// The service's resident memory.
    #[serde(with = "member")]
    pub resident_bytes: u64,
    /// Profiles on disk.
    #[serde(with = "member")]
    pub profiles_bytes: u64,
    /// Launches of managed apps since the service started.
    #[serde(with = "member")]
    pub launches_seen: u64,
    /// Events of the kernel that were lost since then because a buffer was full.
    #[serde(with = "member")]
    pub lost_events: u64,
    /// When the service started, in seconds since the epoch.
    #[serde(with = "member")]
    pub since_s: u64,
    /// What the kernel allows the service to do, one line each.
    #[serde(with = "member")]
    pub abilities: Vec<String>,
    /// What the administrator should know, one line each.
    #[serde(with = "member")]
    pub warnings: Vec<String>,
}

/// One launch that is over. A number that was not measured has no member on the bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct LaunchRecord {
    /// When it began, in seconds since the epoch.
    #[serde(with = "member")]
    pub time_s: u64,
    /// The app, as in [`AppState::app`].
    #[serde(with = "member")]
    pub app: String,
    /// What was done with it: a word of [`plan_word`].
    #[serde(with = "member")]
    pub kind: String,
    /// `cold`, `warm`, or something between the two; empty if it is not known.
    #[serde(with = "member")]
    pub warmth: String,
    /// From execve to the completion block, in microseconds.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// Time that the launch tree waited for the drive, in microseconds.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub waiting_us: Option<u64>,
    /// Read from the drive.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// The launch's own synchronous readaheads.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub own_readaheads: Option<u64>,
    /// Context switches of the launch tree while its profile was being prefetched.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub switches: Option<u64>,
    /// Prefetch entries.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// From execve to the first prefetch request, in microseconds.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub until_first_us: Option<u64>,
    /// What else is to be said of it; usually empty.
    #[serde(with = "member")]
    pub note: String,
}

/// A signal of the service about a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchSignal {
    /// A launch of a managed app began.
    Begun {
        /// The app, as in [`AppState::app`].
        app: String,
        /// Its process.
        pid: u32,
        /// What is done with it.
        plan: Plan,
    },
    /// A launch of a managed app is over.
    Ended(LaunchRecord),
}

/// A request on the bus: `learn`, `prefetch` or `disable`.
pub fn request_word(request: PhaseRequest) -> &'static str {
    match request {
        PhaseRequest::Learn => "learn",
        PhaseRequest::Prefetch => "prefetch",
        PhaseRequest::Disable => "disable",
    }
}

/// The request that a word stands for.
pub(super) fn request_of(word: &str) -> Option<PhaseRequest> {
    [
        PhaseRequest::Learn,
        PhaseRequest::Prefetch,
        PhaseRequest::Disable,
    ]
    .into_iter()
    .find(|&request| request_word(request) == word)
}

/// A plan on the bus: `learn`, `prefetch`, `withhold` or `leave`.
pub fn plan_word(plan: Plan) -> &'static str {
    match plan {
        Plan::Learn => "learn",
        Plan::Prefetch => "prefetch",
        Plan::Withhold => "withhold",
        Plan::Leave => "leave",
    }
}

/// The plan that a word stands for.
pub(super) fn plan_of(word: &str) -> Option<Plan> {
    [Plan::Learn, Plan::Prefetch, Plan::Withhold, Plan::Leave]
        .into_iter()
        .find(|&plan| plan_word(plan) == word)
}

/// A member of a dictionary: a variant on the bus, itself in JSON.
mod member {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zbus::zvariant::{Type, as_value};

    pub fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Type,
        S: Serializer,
    {
        if serializer.is_human_readable() {
            value.serialize(serializer)
        } else {
            as_value::serialize(value, serializer)
        }
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de> + Type + 'de,
        D: Deserializer<'de>,
    {
        if deserializer.is_human_readable() {
            T::deserialize(deserializer)
        } else {
            as_value::deserialize(deserializer)
        }
    }
}

/// A member that may be missing.
mod optional {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zbus::zvariant::Type;

    use super::member;

    pub fn serialize<T, S>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Type,
        S: Serializer,
    {
        match value {
            Some(value) => member::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: Deserialize<'de> + Type + 'de,
        D: Deserializer<'de>,
    {
        member::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests;
