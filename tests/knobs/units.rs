//! Limits of a systemd unit.

use std::fs;

use paralfetch::drive::{KnobError, Knobs, Setting, SystemBus, Undone, UnitProperty};

use crate::Test;
use crate::fake_systemd::{FakeSystemd, UNIT};
use crate::holder::Holder;
use common::until;

pub const TESTS: &[Test] = &[
    (
        "a_units_limits_are_restored_without_a_trace",
        a_units_limits_are_restored_without_a_trace,
    ),
    (
        "a_limit_that_an_administrator_sets_is_kept",
        a_limit_that_an_administrator_sets_is_kept,
    ),
    (
        "a_unit_that_was_started_anew_has_its_own_limits",
        a_unit_that_was_started_anew_has_its_own_limits,
    ),
    (
        "a_limit_that_outlives_a_restart_is_restored",
        a_limit_that_outlives_a_restart_is_restored,
    ),
    (
        "a_unit_that_has_ended_is_gone",
        a_unit_that_has_ended_is_gone,
    ),
    (
        "a_systemd_that_hangs_is_not_waited_for",
        a_systemd_that_hangs_is_not_waited_for,
    ),
    (
        "a_killed_process_leaves_no_limit",
        a_killed_process_leaves_no_limit,
    ),
];

const LIMIT: u64 = 64 << 20;

fn setting(property: UnitProperty, value: u64) -> Setting {
    Setting::UnitProperty {
        unit: UNIT.to_owned(),
        property,
        value,
    }
}

fn memory_high() -> Setting {
    setting(UnitProperty::MemoryHigh, LIMIT)
}

fn guard(systemd: &FakeSystemd) -> Knobs {
    let run_dir = systemd.directory().join("run");
    Knobs::acquire_on(&run_dir, None, SystemBus::at(systemd.address())).unwrap()
}

fn a_units_limits_are_restored_without_a_trace() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    // As a systemd that sees limits in pages.
    systemd.unit().granularity = 48 << 20;
    let mut knobs = guard(&systemd);
    let weight = setting(UnitProperty::IoWeight, 10);
    let ids = [memory_high(), weight].map(|setting| knobs.change(setting).unwrap().unwrap());
    let changed = systemd.unit().clone();
    assert_eq!((changed.memory_high, changed.io_weight), (48 << 20, 10));
    assert_eq!(changed.drop_ins.len(), 2);
    let same = setting(UnitProperty::IoWeight, 10);
    assert!(knobs.change(same).unwrap().is_none());
    for id in ids {
        assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    }
    let unit = systemd.unit();
    assert_eq!((unit.memory_high, unit.io_weight), (u64::MAX, 100));
    // What an administrator writes into the unit's file later must not be hidden.
    let directory = changed.drop_ins[0].parent().unwrap();
    assert!(!directory.exists());
}

fn a_limit_that_an_administrator_sets_is_kept() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    let mut knobs = guard(&systemd);
    let id = knobs.change(memory_high()).unwrap().unwrap();
    systemd.unit().memory_high = 7 << 20;
    assert_eq!(knobs.undo(id).unwrap(), Undone::ChangedByOthers);
    assert_eq!(systemd.unit().memory_high, 7 << 20);

    // One that was set at run time before keeps its file.
    let id = knobs.change(memory_high()).unwrap().unwrap();
    assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    let unit = systemd.unit();
    assert_eq!(unit.memory_high, 7 << 20);
    let kept = fs::read_to_string(&unit.drop_ins[0]).unwrap();
    assert!(kept.ends_with("MemoryHigh=7340032\n"), "{kept}");
}

fn a_unit_that_was_started_anew_has_its_own_limits() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    let mut knobs = guard(&systemd);
    let id = knobs.change(memory_high()).unwrap().unwrap();
    systemd.restart_unit(false);
    // By accident, our very limit.
    systemd.unit().memory_high = LIMIT;
    assert_eq!(knobs.undo(id).unwrap(), Undone::Gone);
    assert_eq!(systemd.unit().memory_high, LIMIT);
}

fn a_limit_that_outlives_a_restart_is_restored() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    let mut knobs = guard(&systemd);
    let id = knobs.change(memory_high()).unwrap().unwrap();
    systemd.restart_unit(true);
    assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    let unit = systemd.unit();
    assert_eq!(unit.memory_high, u64::MAX);
    assert!(!unit.drop_ins[0].exists());
}

fn a_unit_that_has_ended_is_gone() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    let mut knobs = guard(&systemd);
    let id = knobs.change(memory_high()).unwrap().unwrap();
    systemd.unit().is_running = false;
    assert_eq!(knobs.undo(id).unwrap(), Undone::Gone);
    let error = knobs.change(memory_high()).unwrap_err().to_string();
    assert!(error.contains("no such unit"), "{error}");
}

fn a_systemd_that_hangs_is_not_waited_for() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    let mut knobs = guard(&systemd);
    let id = knobs.change(memory_high()).unwrap().unwrap();
    systemd.unit().is_silent = true;
    let error = knobs.undo(id).unwrap_err();
    assert!(
        matches!(&error, KnobError::Unit { error, .. } if error.contains("not answered")),
        "{error}"
    );
    // It stays recorded, and can be undone when systemd answers again.
    systemd.unit().is_silent = false;
    assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    assert_eq!(systemd.unit().memory_high, u64::MAX);
}

fn a_killed_process_leaves_no_limit() {
    let Some(systemd) = FakeSystemd::start() else {
        return;
    };
    let run_dir = systemd.directory().join("run");
    let settings = [format!("unit {UNIT} {LIMIT}")];
    let mut holder = Holder::start(&run_dir, &settings, true, Some(systemd.address()));
    holder.says("held");
    assert_eq!(systemd.unit().memory_high, LIMIT);
    holder.kill();
    until("the keeper has restored the limit", || {
        !run_dir.join("knobs.json").exists()
    });
    assert_eq!(systemd.unit().memory_high, u64::MAX);
}
