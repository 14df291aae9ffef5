//! What has changed of the managed apps, as listeners on the bus are told it.
//!
//! Many places of the service change apps: launches, calls, jobs of the worker, the daily check. None of them reports
//! it. The event loop compares all apps with what was reported last, when anything may have changed, and after
//! launches were served.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::apps::state_of;
use super::types::{AppChange, AppState, ChangeKind};
use crate::model::UserApp;
use crate::policy::Phase;
use crate::service::cached_profile::CachedProfiles;
use crate::service::registry::{Added, Record, Registry};

/// Changes of one user's apps that may wait for the bus. Beyond it, the oldest is lost.
const MOST_OF_A_USER: usize = 1024;

/// Changes of one user's apps that are sent in a row, before it is another user's turn.
const ROUND: usize = 8;

/// What is reported of an app when it changes. The profile is kept to tell it from its successor, until that is
/// reported.
struct ReportedApp {
    phase: Phase,
    added: Added,
    profile: Option<Arc<[u8]>>,
}

impl ReportedApp {
    fn new(record: &Record, profile: Option<&Arc<[u8]>>) -> Self {
        ReportedApp {
            // Neither how often learning was tried is reported, nor since when the app is switched off.
            phase: match record.managed.phase() {
                Phase::Learning { .. } => Phase::Learning { attempts: 0 },
                Phase::Prefetching => Phase::Prefetching,
                Phase::Disabled { off, .. } => Phase::Disabled { off, since_s: 0 },
            },
            added: record.added,
            profile: profile.cloned(),
        }
    }

    fn is(&self, other: &ReportedApp) -> bool {
        let is_same_profile = match (&self.profile, &other.profile) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        is_same_profile && self.phase == other.phase && self.added == other.added
    }
}

/// All managed apps as they were reported last.
pub struct ReportedApps(BTreeMap<UserApp, ReportedApp>);

impl ReportedApps {
    /// The apps that there are now: listeners ask for them.
    pub fn new(registry: &Registry, profiles: &CachedProfiles) -> Self {
        let mut reported = ReportedApps(BTreeMap::new());
        reported.update(registry, profiles);
        reported
    }

    /// What has changed since the last time.
    pub fn update(&mut self, registry: &Registry, profiles: &CachedProfiles) -> Vec<AppChange> {
        let mut changes = Vec::new();
        for (key, record) in &registry.records {
            let profile = profiles.get(key);
            let now = ReportedApp::new(record, profile.map(|profile| &profile.packed));
            let kind = match self.0.get(key) {
                Some(before) if before.is(&now) => continue,
                Some(_) => ChangeKind::Changed,
                None => ChangeKind::Added,
            };
            self.0.insert(key.clone(), now);
            changes.push(AppChange::new(kind, state_of(record, profile)));
        }
        self.0.retain(|key, _| {
            let stays = registry.records.contains_key(key);
            if !stays {
                let gone = AppState {
                    uid: key.uid,
                    app: key.id.clone(),
                    ..AppState::default()
                };
                changes.push(AppChange::new(ChangeKind::Removed, gone));
            }
            stays
        });
        changes
    }
}

/// Changes that have not been sent yet, the last one of each app: however often a user changes his apps, what waits
/// is bounded, and others wait for [`ROUND`] of his.
#[derive(Default)]
pub struct PendingChanges(HashMap<u32, VecDeque<AppChange>>);

impl PendingChanges {
    /// Adds a change, or has the one of the same app that waits tell this one, too.
    pub fn put(&mut self, change: AppChange) {
        let of_user = self.0.entry(change.uid).or_default();
        let Some(at) = of_user.iter().position(|it| it.app == change.app) else {
            if of_user.len() >= MOST_OF_A_USER {
                of_user.pop_front();
            }
            return of_user.push_back(change);
        };
        match (of_user[at].change, change.change) {
            // Nobody has been told that there was one.
            (ChangeKind::Added, ChangeKind::Removed) => {
                of_user.remove(at);
            }
            (ChangeKind::Added, _) => {
                of_user[at] = AppChange {
                    change: ChangeKind::Added,
                    ..change
                };
            }
            (ChangeKind::Removed, ChangeKind::Added) => {
                of_user[at] = AppChange {
                    change: ChangeKind::Changed,
                    ..change
                };
            }
            _ => of_user[at] = change,
        }
        self.0.retain(|_, changes| !changes.is_empty());
    }

    /// Takes the next changes to be sent, with their users: the oldest ones of each.
    pub fn take_round(&mut self) -> Vec<(u32, Vec<AppChange>)> {
        let take = |(uid, changes): (&u32, &mut VecDeque<AppChange>)| {
            let count = changes.len().min(ROUND);
            (*uid, changes.drain(..count).collect())
        };
        let round = self.0.iter_mut().map(take).collect();
        self.0.retain(|_, changes| !changes.is_empty());
        round
    }

    /// Whether all have been taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Observation, PhaseRequest};
    use crate::service::marks::Marks;

    const APP: &str = "/usr/bin/a";

    fn change(kind: ChangeKind, uid: u32, app: &str, phase: &str) -> AppChange {
        let state = AppState {
            uid,
            app: app.to_owned(),
            phase: phase.to_owned(),
            ..AppState::default()
        };
        AppChange::new(kind, state)
    }

    #[test]
    fn what_is_added_changed_and_removed_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let record = |uid| {
            let key = UserApp::new(uid, APP);
            Record::new(key, "A".into(), Added::Desktop, Marks::default())
        };
        let profiles = CachedProfiles::new();
        registry.insert(record(1));
        let mut reported = ReportedApps::new(&registry, &profiles);
        let mut changes = |registry: &Registry| reported.update(registry, &profiles);
        assert_eq!(changes(&registry), []);
        registry.insert(record(2));
        let found = changes(&registry);
        assert_eq!(
            (found[0].change, found[0].uid, found[0].phase.as_str()),
            (ChangeKind::Added, 2, "learning")
        );
        let first = registry.records.get_mut(&UserApp::new(1, APP)).unwrap();
        // That is nothing a listener shows.
        first.launched(7);
        let asked = Observation::Asked(PhaseRequest::Disable);
        first.managed.next(7, &asked);
        let found = changes(&registry);
        let [disabled] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (disabled.change, disabled.uid, disabled.phase.as_str()),
            (ChangeKind::Changed, 1, "disabled")
        );
        assert!(!disabled.why.is_empty());
        registry.records.remove(&UserApp::new(1, APP));
        let removed = change(ChangeKind::Removed, 1, APP, "");
        assert_eq!(changes(&registry), [removed]);
        assert_eq!(changes(&registry), []);
    }

    #[test]
    fn the_last_change_of_an_app_is_the_one_that_is_sent() {
        use ChangeKind::{Added, Changed, Removed};
        for (first, second, sent) in [
            (Added, Changed, Some(Added)),
            (Added, Removed, None),
            (Changed, Changed, Some(Changed)),
            (Changed, Removed, Some(Removed)),
            (Removed, Added, Some(Changed)),
        ] {
            let mut pending = PendingChanges::default();
            pending.put(change(first, 1, "/a", "learning"));
            pending.put(change(second, 1, "/a", "prefetching"));
            assert_eq!(pending.is_empty(), sent.is_none());
            let round = pending.take_round();
            let expected = sent.map(|sent| (1, vec![change(sent, 1, "/a", "prefetching")]));
            assert_eq!(round, Vec::from_iter(expected));
            assert!(pending.is_empty());
        }
    }

    #[test]
    fn the_changes_of_one_user_are_bounded_and_wait_for_those_of_others() {
        let mut pending = PendingChanges::default();
        for number in 0..2 * MOST_OF_A_USER {
            let app = format!("/{number}");
            pending.put(change(ChangeKind::Added, 1, &app, "learning"));
        }
        pending.put(change(ChangeKind::Added, 2, "/b", "learning"));
        let mut round = pending.take_round();
        round.sort_by_key(|(uid, _)| *uid);
        assert_eq!(
            (round.len(), round[0].1.len(), round[1].1.len()),
            (2, ROUND, 1)
        );
        let rounds = std::iter::from_fn(|| Some(pending.take_round()).filter(|it| !it.is_empty()));
        let left: usize = rounds.flatten().map(|(_, changes)| changes.len()).sum();
        assert_eq!(left, MOST_OF_A_USER - ROUND);
    }
}
