//! What the shield changes, and when that ends.

use std::process;

use paralfetch::policy::{MeasureKind, ShieldSettings};
use paralfetch::shield::{Shield, ShieldStatus};

use crate::set_up;
use crate::system::USER;
use crate::system::{WrittenImage, chosen, in_force, quiet, until_in_force};
use common::until;

fn begins(shield: &Shield, written: &WrittenImage, launch: u64) {
    let root = process::id().cast_signed();
    assert!(shield.launch_begins(launch, USER, root, written.device()));
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

#[test]
fn a_launch_holds_writeback_back_until_it_ends() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let before = number(&written.knob("dirty_background_ratio"));
    let shield = written.shield(quiet(ShieldSettings {
        longest_hold_ms: 10_000,
        ..ShieldSettings::default()
    }));
    assert!(!written.is_changed(), "there is no reason yet");
    begins(&shield, &written, 1);
    until_in_force(&shield, MeasureKind::Hold);
    assert_eq!(written.knob("dirty_expire_centisecs"), "360000");
    assert!(number(&written.knob("dirty_background_ratio")) > before);
    // The scheduler heeds priorities. The journal's thread is found at the second look.
    until_in_force(&shield, MeasureKind::Journal);
    assert!(
        written
            .knob("the journal's priority")
            .starts_with("realtime")
    );

    begins(&shield, &written, 2);
    assert!(shield.launch_ends(1));
    until("one launch is under way", || shield.status().launches == 1);
    assert!(in_force(&shield.status()).contains(&MeasureKind::Hold));
    assert!(shield.launch_ends(2));
    written.is_as_before();
    until("the reports say so", || shield.status().in_force.is_empty());
    let ShieldStatus { ended, problem, .. } = shield.status();
    let hold = ended
        .iter()
        .find(|report| report.kind == MeasureKind::Hold)
        .unwrap();
    assert_eq!((hold.uid, problem), (Some(USER), None));
    assert!(hold.ended_ms >= Some(hold.since_ms), "{hold:?}");
    shield.stop();
    assert!(!written.is_changed());
}

#[test]
fn a_hold_ends_by_its_bound_and_the_drive_is_limited_then() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield(quiet(ShieldSettings {
        longest_hold_ms: 300,
        ..ShieldSettings::default()
    }));
    begins(&shield, &written, 1);
    until_in_force(&shield, MeasureKind::Hold);
    until_in_force(&shield, MeasureKind::Backlog);
    assert_eq!(written.knob("strict_limit"), "1");
    assert!(number(&written.knob("max_ratio_fine")) < 1_000_000);
    let ended = shield.status().ended;
    assert!(
        ended.iter().any(|report| report.kind == MeasureKind::Hold),
        "{ended:?}"
    );
    // Nobody says that the launch is over.
    drop(shield);
    assert!(!written.is_changed());
}

#[test]
fn a_waiting_task_has_the_drive_limited_for_some_seconds() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield(quiet(ShieldSettings::default()));
    let task = process::id().cast_signed();
    assert!(shield.foreground_waits(task, task, USER, written.device()));
    until_in_force(&shield, MeasureKind::Backlog);
    assert_eq!(written.knob("strict_limit"), "1");
    // It waits no more, or is not seen to wait.
    written.is_as_before();
    assert_eq!(shield.status().problem, None);
}

#[test]
fn the_systems_limit_stands_in_for_the_drives() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let only = ShieldSettings::default().only(MeasureKind::Dirty);
    let shield = written.shield(quiet(only));
    let task = process::id().cast_signed();
    assert!(shield.foreground_waits(task, task, USER, written.device()));
    until_in_force(&shield, MeasureKind::Dirty);
    assert_eq!(written.knob("dirty_ratio"), "0");
    assert!(number(&written.knob("dirty_bytes")) >= 16 << 20);
    written.is_as_before();
}

#[test]
fn the_responsive_profile_changes_the_drives_requests() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let only = ShieldSettings::default().only(MeasureKind::Requests);
    let shield = written.shield(quiet(only));
    let task = process::id().cast_signed();
    assert!(shield.foreground_waits(task, task, USER, written.device()));
    until_in_force(&shield, MeasureKind::Requests);
    assert!(number(&written.knob("max_sectors_kb")) <= 128);
    // Kernels have it built in.
    assert_eq!(chosen(&written.knob("scheduler")), "mq-deadline");
    assert_eq!(written.knob("iosched/async_depth"), "1");
    written.is_as_before();
}

#[test]
fn a_user_who_launches_in_a_loop_gets_so_many_holds_a_minute() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield(quiet(ShieldSettings {
        grants_per_minute: 2,
        ..ShieldSettings::default().only(MeasureKind::Hold)
    }));
    begins(&shield, &written, 0);
    until_in_force(&shield, MeasureKind::Hold);
    assert!(shield.launch_ends(0));
    for launch in 1.. {
        begins(&shield, &written, launch);
        until("the launch is known", || shield.status().launches == 1);
        if shield.status().refused > 0 {
            break;
        }
        assert!(shield.launch_ends(launch));
        until("its end is known", || shield.status().launches == 0);
    }
    assert!(shield.status().taken <= 2, "{:?}", shield.status());
    written.is_as_before();
}

#[test]
fn a_shield_that_is_switched_off_does_nothing() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let off = ShieldSettings {
        enabled: false,
        ..ShieldSettings::default()
    };
    let shield = written.shield(off);
    let root = process::id().cast_signed();
    assert!(!shield.launch_begins(1, USER, root, written.device()));
    assert_eq!(shield.status(), ShieldStatus::default());
    assert!(!written.is_changed());
}
