//! Arguments and answers of the calls, as plain data: dictionaries `a{sv}` on the bus and objects in
//! JSON, with the field names as keys.

use serde::{Deserialize, Serialize};
use zbus::zvariant::Type;

use super::shield::ShieldSummary;
use crate::model::{Profile, UserApp};
use crate::policy::Plan;
use crate::service::dictionary::{member, optional};
use crate::service::history::LaunchRecord;

/// One managed app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct AppState {
    /// Real user id of whom launches it; 4294967295 for an app that the administrator has named for all users.
    #[serde(with = "member")]
    pub uid: u32,
    /// What identifies it: an absolute path, or `launcher:name`, such as `flatpak:org.gimp.GIMP` or `announced:NAME`;
    /// `login:session` for its user's logins.
    #[serde(with = "member")]
    pub app: String,
    /// Its name for people.
    #[serde(with = "member")]
    pub name: String,
    /// `learning` and `prefetching`: what is done with its next launch. `disabled`: its launches are left alone, for good if
    /// its user asked for that, and else for 30 days.
    #[serde(with = "member")]
    pub phase: String,
    /// Why it is disabled, is learned again without having been asked for, cannot be learned, is prefetched in part only, or
    /// by an imported profile; else empty.
    #[serde(with = "member")]
    pub why: String,
    /// Why it is managed: `user` (the administrator named it, or it was learned by hand), `owner` (its user named it),
    /// `desktop` (it has a .desktop entry), `discovered` (it turned out large and slow), `announced`,
    /// `login` (it stands for its user's logins), or `imported` (a profile of it was, or came with a package).
    #[serde(with = "member")]
    pub added_by: String,
    /// Launches that the service has seen.
    #[serde(with = "member")]
    pub launches: u64,
    /// When the last launch began, in seconds since the epoch; `None` if there was none.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub last_s: Option<u64>,
    /// Launches that were prefetched, without those that were learned, too.
    #[serde(with = "member")]
    pub prefetched: u64,
    /// Typical time that a prefetched cold launch takes, in microseconds: the lower median of the last eight that can be
    /// compared with others; `None` before there were any.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub cold_with_us: Option<u64>,
    /// Typical time of cold launches without prefetching: learned without a profile, or withheld.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub cold_without_us: Option<u64>,
    /// Typical time that a prefetched cold launch waits for the drive, in microseconds, summed up over its tasks; `None`
    /// before there were any. Typical is the lower median of the last 20 cold launches of a kind.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub waiting_with_us: Option<u64>,
    /// Typical time that one without prefetching waits so.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub waiting_without_us: Option<u64>,
    /// Typical time of a cold launch, in microseconds, of prefetched ones if there are any; `None` before there were any.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// What prefetching saves of a cold launch's time, in percent, below 0 where it costs time; `None` if that is not
    /// known.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub gain_percent: Option<i32>,
    /// Launches in the history whose data were read before they began.
    #[serde(with = "member")]
    pub anticipated: u64,
    /// What these have saved, in microseconds, as far as it is known.
    #[serde(with = "member")]
    pub anticipated_saved_us: u64,
    /// Launches in the history whose drive was shielded from other programs' writes.
    #[serde(with = "member")]
    pub beside_writes: u64,
    /// Size of the profile's file; 0 if there is none, or the service does not run.
    #[serde(with = "member")]
    pub profile_bytes: u64,
    /// Prefetch entries of the profile; 0 like `profile_bytes`.
    #[serde(with = "member")]
    pub entries: u64,
}

/// The service as a whole. Apps, profiles and launches are those of the asking user, and all for the administrator.
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
    /// The service's resident memory; 0: not known.
    #[serde(with = "member")]
    pub resident_bytes: u64,
    /// Size of these profiles.
    #[serde(with = "member")]
    pub profiles_bytes: u64,
    /// Launches since the service started, also of programs that it observes and does not manage yet.
    #[serde(with = "member")]
    pub launches_seen: u64,
    /// Time that prefetching has saved, in microseconds: of each prefetched cold launch in the history what its app
    /// typically saves. Below 0 where it costs time; 0 also where that is not known.
    #[serde(with = "member")]
    pub saved_us: i64,
    /// Launches in the history whose data were read before they began.
    #[serde(with = "member")]
    pub anticipated: u64,
    /// What these have saved, in microseconds, as far as it is known.
    #[serde(with = "member")]
    pub anticipated_saved_us: u64,
    /// Bytes that were read before launches, and that launches found; of the last weeks, older ones counting less.
    #[serde(with = "member")]
    pub read_before_used_bytes: u64,
    /// Bytes so read that no launch found within a day, or before the system was started again.
    #[serde(with = "member")]
    pub read_before_unused_bytes: u64,
    /// Of the whole system: events of the kernel and launches that were lost since then because a buffer was full.
    #[serde(with = "member")]
    pub lost_events: u64,
    /// Of the whole system: executions since then that were left alone because their user makes too many.
    #[serde(with = "member")]
    pub excess_execs: u64,
    /// When the service started, in seconds since the epoch.
    #[serde(with = "member")]
    pub since_s: u64,
    /// What is done so that launches do not wait for other programs' writes.
    #[serde(with = "member")]
    pub shield: ShieldSummary,
    /// What the kernel allows the service to do, for people, one line each.
    #[serde(with = "member")]
    pub abilities: Vec<String>,
    /// What the administrator should know, for people, one line each, the latest last; empty for others.
    #[serde(with = "member")]
    pub warnings: Vec<String>,
}

/// How a managed app has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "s")]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It is managed from now on.
    Added,
    /// It is not managed any more: it was forgotten.
    Removed,
    /// It has another phase, another profile or another reason to be managed. Unknown words of later versions are read
    /// as this.
    #[default]
    #[serde(other)]
    Changed,
}

/// A change of a managed app. How its launches do, [`ServiceCalls::apps`](super::ServiceCalls::apps) says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct AppChange {
    /// `added`, `changed` or `removed`. Of a removed app, the user and the app are known, and the rest is empty.
    #[serde(with = "member")]
    pub change: ChangeKind,
    /// See [`AppState::uid`].
    #[serde(with = "member")]
    pub uid: u32,
    /// See [`AppState::app`].
    #[serde(with = "member")]
    pub app: String,
    /// See [`AppState::name`].
    #[serde(with = "member")]
    pub name: String,
    /// See [`AppState::phase`].
    #[serde(with = "member")]
    pub phase: String,
    /// See [`AppState::why`].
    #[serde(with = "member")]
    pub why: String,
    /// See [`AppState::added_by`].
    #[serde(with = "member")]
    pub added_by: String,
    /// See [`AppState::profile_bytes`].
    #[serde(with = "member")]
    pub profile_bytes: u64,
    /// See [`AppState::entries`].
    #[serde(with = "member")]
    pub entries: u64,
}

impl AppChange {
    /// The change that has led to this state of an app.
    pub fn new(change: ChangeKind, state: AppState) -> Self {
        AppChange {
            change,
            uid: state.uid,
            app: state.app,
            name: state.name,
            phase: state.phase,
            why: state.why,
            added_by: state.added_by,
            profile_bytes: state.profile_bytes,
            entries: state.entries,
        }
    }
}

/// The profile of an app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct ProfileData {
    /// See [`AppState::uid`].
    #[serde(with = "member")]
    pub uid: u32,
    /// See [`AppState::app`].
    #[serde(with = "member")]
    pub app: String,
    /// When it was learned, in seconds since the epoch.
    #[serde(with = "member")]
    pub created_s: u64,
    /// Prefetch entries.
    #[serde(with = "member")]
    pub entries: u64,
    /// Files of which data are prefetched.
    #[serde(with = "member")]
    pub files: u64,
    /// Bytes that are prefetched.
    #[serde(with = "member")]
    pub bytes: u64,
    /// The profile as the bytes of a `.pf` file, which [`crate::profile::decode`] reads; for others than the administrator
    /// without the names of files that its user could not list.
    #[serde(with = "member")]
    pub pf: Vec<u8>,
}

impl ProfileData {
    /// The data of this app's profile, of which `pf` are the bytes.
    pub fn new(key: UserApp, profile: &Profile, pf: Vec<u8>) -> Self {
        ProfileData {
            uid: key.uid,
            app: key.id,
            created_s: profile.created,
            entries: profile.entries.len() as u64,
            files: profile.scheduled_files() as u64,
            bytes: profile.entries.iter().map(|entry| entry.span.bytes()).sum(),
            pf,
        }
    }
}

/// A signal of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceSignal {
    /// A launch of a managed app began.
    Begun {
        /// The app, and whose it is.
        app: UserApp,
        /// Process id of the app.
        pid: u32,
        /// What is done with it.
        plan: Plan,
    },
    /// A launch of a managed app is over.
    Ended(LaunchRecord),
    /// A managed app has changed.
    AppChanged(AppChange),
}

impl ServiceSignal {
    /// The user whose launch or app it is.
    pub fn uid(&self) -> u32 {
        match self {
            ServiceSignal::Begun { app, .. } => app.uid,
            ServiceSignal::Ended(launch) => launch.uid,
            ServiceSignal::AppChanged(change) => change.uid,
        }
    }
}

#[cfg(test)]
mod tests;
