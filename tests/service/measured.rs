//! Drives are measured by the service itself.

use std::fs;

use crate::set_up;
use common::until;

/// A little after a launch, the drive that the profile lies on is measured, if nobody else uses it just then.
#[test]
fn the_drive_of_a_profile_is_measured_and_kept() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure("prefetch.probe = true\n[launch]\nquiet_window_ms = 100\n");
    image.enable("app");
    let kept = image.root.state.path().join("drives.json");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_stored("app");
    service.stop();
    until("the drive is measured", || {
        // One that was found in use is left alone for minutes, unless the service starts again.
        let mut service = image.start();
        image.launch("app");
        service.launch_of(&image.id("app"));
        let line = service.line(&["measured", "drive="]);
        service.stop();
        line.contains("the drive was measured")
    });
    let text = fs::read_to_string(&kept).unwrap();
    assert_eq!(text.matches("\"measured\":").count(), 1, "{text}");
    assert!(text.contains("\"far_seek_us\""), "{text}");
}
