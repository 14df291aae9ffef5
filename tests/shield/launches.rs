//! What the shield changes, and when that ends.

use crate::set_up;
use crate::system::{USER, chosen, until_in_force};
use common::until;

#[test]
fn a_launch_beside_a_writer_has_few_and_small_writes_until_the_drive_is_quiet() {
    let Some((mut written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield();
    assert!(!written.is_changed(), "there is no reason yet");
    assert!(shield.launch(USER, written.dev()));
    until_in_force(&shield);
    assert!(written.knob("max_sectors_kb").parse::<u64>().unwrap() <= 128);
    // Kernels have it built in.
    assert_eq!(chosen(&written.knob("scheduler")), "mq-deadline");
    assert_eq!(written.knob("iosched/async_depth"), "1");
    written.stop_writing();
    written.is_as_before();
    until("the reports say so", || shield.status().in_force.is_empty());
    let status = shield.status();
    assert_eq!((status.taken, status.problem), (1, None));
    let ended = &status.ended[0];
    assert_eq!(ended.uid, Some(USER));
    assert!(ended.ended_ms >= Some(ended.since_ms), "{ended:?}");
    shield.stop();
    assert!(!written.is_changed());
}

#[test]
fn a_shield_that_is_stopped_restores_everything_at_once() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield();
    assert!(shield.launch(USER, written.dev()));
    until_in_force(&shield);
    assert!(written.is_changed());
    shield.stop();
    assert!(!written.is_changed());
}
