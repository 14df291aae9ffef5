use std::sync::mpsc::channel;

use super::*;
use crate::learn::LearnSummary;
use crate::model::Learned;
use crate::policy::{PhaseRequest, TuningEnd, well_prefetched};
use crate::profile::generate::sample;
use crate::service::config::HistoryConfig;
use crate::service::mailbox::{Inbox, mailbox};
use crate::service::records::Records;
use crate::service::worker::Worker;

const ID: &str = "/opt/app";

fn key() -> UserApp {
    profile().app.user_app().unwrap()
}

/// The apps of a state directory that holds a profile of [`ID`], and what their worker sends.
fn one_app(dir: &std::path::Path) -> (ManagedApps, Inbox, Worker) {
    let store = Store::create(dir).unwrap();
    store.save(&profile()).unwrap();
    let (outbox, inbox) = mailbox().unwrap();
    let worker = Worker::start(
        Records::open(dir, &HistoryConfig::default()).0,
        outbox.clone(),
    )
    .unwrap();
    let (registry, _) = Registry::load(dir).unwrap();
    let loaded = ManagedApps::load(
        registry,
        &Rules::none(),
        store,
        worker.jobs().clone(),
        outbox,
    );
    (loaded.unwrap().0, inbox, worker)
}

#[test]
fn a_managed_program_that_is_declared_a_launcher_is_managed_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let (mut registry, _) = Registry::load(dir.path()).unwrap();
    for (id, argument) in [
        ("/usr/bin/python3", None),
        ("/img/bin/sh", None),
        ("/usr/bin/gimp", None),
        ("/usr/bin/env", Some("x")),
    ] {
        let marks = Marks {
            argument: argument.map(str::to_owned),
            ..Marks::default()
        };
        registry.insert(Record::new(
            UserApp::new(0, id),
            "App".into(),
            Added::User,
            marks,
        ));
    }
    let (outbox, _inbox) = mailbox().unwrap();
    let records = Records::open(dir.path(), &HistoryConfig::default()).0;
    let worker = Worker::start(records, outbox.clone()).unwrap();
    let store = Store::create(dir.path()).unwrap();
    let (rules, jobs) = (Rules::builtin(), worker.jobs().clone());
    let (apps, _) = ManagedApps::load(registry, &rules, store, jobs, outbox).unwrap();
    let left: Vec<&str> = apps.registry.records.keys().map(|key| &*key.id).collect();
    assert_eq!(left, ["/usr/bin/env", "/usr/bin/gimp"]);
}

/// Waits until the worker has done its jobs, and takes what came of them.
fn take_results(apps: &mut ManagedApps, inbox: &Inbox) {
    let (done, all_done) = channel();
    apps.jobs.run(move || done.send(()).unwrap());
    all_done.recv().unwrap();
    for message in inbox.take() {
        match message {
            Message::Profile { app, news } => drop(apps.take_news(&app, news)),
            Message::Profiles { found, new, known } => {
                apps.loaded_again(found, new, &known);
            }
            _ => {}
        }
    }
}

/// The shift that is in force, which tells profiles of the tests from each other.
fn shift(apps: &ManagedApps) -> Option<u64> {
    let revision = apps.profiles.get(&key())?.history.last();
    Some(revision.unwrap().params.shift_bytes)
}

/// Whose metadata come after its data, or before, as the shift says.
fn profile() -> Profile {
    let mut profile = sample(ID);
    profile.entries[0].time_us = 2000;
    // Data in the order of accesses.
    profile.entries.swap(1, 2);
    profile
}

fn with_live(profile: Profile) -> Profile {
    Profile {
        learned: Learned::Live,
        ..profile
    }
}

fn with_shift(shift_bytes: u64) -> Params {
    Params {
        shift_bytes,
        ..profile().history[0].params
    }
}

#[test]
fn a_profile_from_elsewhere_is_read_ahead_until_the_user_has_one_and_says_nothing_to_his_lessons() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, _inbox, _worker) = one_app(dir.path());
    let of = |uid, learned| Profile {
        app: App {
            uid,
            ..profile().app
        },
        learned,
        ..profile()
    };
    let other = UserApp::new(7, ID);
    let record = Record::new(
        other.clone(),
        "App".into(),
        Added::Imported,
        Marks::default(),
    );
    apps.registry.insert(record);
    let plan = |apps: &mut ManagedApps| {
        let planned = apps.plan(&other, false);
        (planned.plan, planned.has_profile)
    };
    assert_eq!(plan(&mut apps), (Plan::Learn, false));
    let seed = CachedProfile::load(&of(EVERY_USER, Learned::Imported)).unwrap();
    apps.seeds.insert(UserApp::new(EVERY_USER, ID), seed);
    assert_eq!(plan(&mut apps), (Plan::Learn, true));
    assert!(apps.profile(&other).unwrap().is_imported);
    assert!(apps.load_sequence(&other).is_none());
    let own = CachedProfile::load(&of(7, Learned::Live)).unwrap();
    apps.use_learned(&other, own, None, true);
    assert!(!apps.profile(&other).unwrap().is_imported);
    assert!(!apps.profile(&key()).unwrap().is_imported);
}

#[test]
fn what_was_made_of_an_old_profile_replaces_no_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, inbox, _worker) = one_app(dir.path());
    apps.reschedule(&key(), with_shift(0));
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), Some(0));

    // Of two jobs that begin with the same profile, the second finds another one stored.
    apps.reschedule(&key(), with_shift(1 << 16));
    apps.reschedule(&key(), with_shift(1 << 17));
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), Some(1 << 16));
    let stored = apps.store.load(profile().app.key()).unwrap().unwrap();
    assert_eq!(stored.history, apps.profiles[&key()].history);

    // The app is learned while the worker still schedules the profile of before.
    let mut learned = profile();
    learned.created += 1;
    let in_force = learned.history[0].params.shift_bytes;
    apps.reschedule(&key(), with_shift(0));
    apps.use_learned(&key(), CachedProfile::load(&learned).unwrap(), None, true);
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), Some(in_force));

    // A profile in the store that was learned by hand since is not overwritten.
    learned.created += 1;
    apps.store.save(&learned).unwrap();
    apps.reschedule(&key(), with_shift(0));
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), Some(in_force));
    assert_eq!(apps.store.load(learned.app.key()).unwrap(), Some(learned));

    // An app that was forgotten does not come back.
    apps.reschedule(&key(), with_shift(0));
    apps.forget(&key());
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), None);
    assert!(apps.store.load(profile().app.key()).unwrap().is_none());
}

/// A cold launch whose prefetch came too late, so that tuning takes a step.
fn late_launch() -> LaunchFigures {
    LaunchFigures {
        switches: 100,
        ..well_prefetched()
    }
}

#[test]
fn steps_that_change_nothing_are_passed_over_though_the_profile_takes_in_what_the_launch_missed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, inbox, _worker) = one_app(dir.path());
    apps.observe(
        &key(),
        &Observation::Launched {
            history: &profile().history,
            figures: &late_launch(),
            rules: apps.rules,
        },
    );
    let tuning = |apps: &ManagedApps| apps.registry.records[&key()].managed.tuning().cloned();
    assert!(tuning(&apps).unwrap().wanted().is_some());
    // As the job that takes in what was missed.
    apps.change_profile(&key(), Occasion::Launch, |profile, _, store| {
        let obsolete = profile.obsolete + 1;
        let taken_in = Profile {
            obsolete,
            ..profile
        };
        let stored = CachedProfile::store(&taken_in, store);
        let noted = NotedReads { joined: 1, kept: 0 };
        Some(ProfileChange::Extended(
            stored.map(|stored| (stored, noted)),
        ))
    });
    // Data of 24 KiB: no shift beyond that changes anything.
    let rules = apps.rules;
    for _ in 0..=rules.max_shift / rules.shift_step {
        // Once for the step, and once for what follows from it.
        take_results(&mut apps, &inbox);
        take_results(&mut apps, &inbox);
    }
    let tuning = tuning(&apps).unwrap();
    assert_eq!(tuning.wanted(), None);
    assert_eq!(tuning.ended(), Some(TuningEnd::AtLimit));
    let stored = apps.store.load(profile().app.key()).unwrap().unwrap();
    assert_eq!(stored.obsolete, profile().obsolete + 1);
}

fn added(apps: &ManagedApps) -> Option<Added> {
    Some(apps.registry.records.get(&key())?.added)
}

#[test]
fn profiles_that_are_read_again_replace_none_that_was_learned_or_forgotten_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, inbox, _worker) = one_app(dir.path());
    apps.load_again(&Rules::none());
    let mut learned = with_live(profile());
    learned.history[0].params.shift_bytes = 1 << 18;
    apps.use_learned(&key(), CachedProfile::load(&learned).unwrap(), None, true);
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), Some(1 << 18));

    apps.load_again(&Rules::none());
    apps.forget(&key());
    take_results(&mut apps, &inbox);
    assert_eq!((shift(&apps), added(&apps)), (None, None));

    // Nor does reading a profile again make jobs late that began with it.
    let (mut apps, inbox, _worker) = one_app(dir.path());
    apps.load_again(&Rules::none());
    apps.reschedule(&key(), with_shift(0));
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), Some(0));
}

#[test]
fn a_profile_that_the_service_has_learned_names_no_app_when_it_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, inbox, _worker) = one_app(dir.path());
    let switch_off_and_on = |apps: &mut ManagedApps, learned: &Profile| {
        apps.store.save(learned).unwrap();
        apps.registry.records.get_mut(&key()).unwrap().added = Added::Owner;
        let asked = [PhaseRequest::Disable, PhaseRequest::Prefetch];
        for request in asked.map(Observation::Asked) {
            apps.observe(&key(), &request);
        }
        apps.load_again(&Rules::none());
        take_results(apps, &inbox);
        assert!(apps.profiles.contains_key(&key()));
        added(apps)
    };
    let live = with_live(profile());
    assert_eq!(switch_off_and_on(&mut apps, &live), Some(Added::Owner));
    let by_hand = profile();
    assert_eq!(switch_off_and_on(&mut apps, &by_hand), Some(Added::User));
}

#[test]
fn an_app_that_is_forgotten_while_it_is_learned_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, inbox, _worker) = one_app(dir.path());
    apps.forget(&key());
    let learned = LearnedProfile {
        profile: with_live(profile()),
        log: Vec::new(),
        unread: Vec::new(),
        summary: LearnSummary::default(),
    };
    let cached = CachedProfile::load(&learned.profile).unwrap();
    apps.keep(&key(), cached, learned, None, true);
    take_results(&mut apps, &inbox);
    assert_eq!(shift(&apps), None);
    assert_eq!(apps.store.load(profile().app.key()).unwrap(), None);
}

#[test]
fn apps_of_a_lost_registry_are_named_if_they_were_learned_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(added(&one_app(dir.path()).0), Some(Added::User));
    let live = CachedProfile::load(&with_live(profile())).unwrap();
    let (mut registry, _) = Registry::load(dir.path()).unwrap();
    registry.insert(record_of(&key(), &live, &Rules::none(), &MountTable::parse(b"")).unwrap());
    assert_eq!(registry.records[&key()].added, Added::Owner);
}

#[test]
fn an_app_that_is_switched_off_is_forgotten_with_its_profile() {
    let dir = tempfile::tempdir().unwrap();
    let (mut apps, inbox, _worker) = one_app(dir.path());
    apps.observe(&key(), &Observation::Asked(PhaseRequest::Disable));
    assert!(!apps.profiles.contains_key(&key()));
    apps.forget(&key());
    take_results(&mut apps, &inbox);
    assert_eq!(apps.store.load(profile().app.key()).unwrap(), None);
}
