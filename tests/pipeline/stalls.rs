//! A drive that stands still in the middle of a launch, as cheap flash does while it tidies up; and an app
//! that gets no processor, as on a machine that is busy.

use std::fs;

use crate::set_up;
use common::Mounted;
use common::root::{PAGES, Root, pages_of};
use common::slowed::{Slowed, leave_out_data};

#[test]
fn what_is_read_after_a_pause_of_the_drive_is_learned() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let Some((slowed, files, read)) = Slowed::reading(&root) else {
        return;
    };
    let learn = root.paralfetch(&["learn", "--live"], &["/bin/sh", "-c", &read]);
    let output = slowed.command(&learn).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(root.show("sh")["ended"], "exit");
    assert_whole(&root, &files);
}

#[test]
fn what_is_read_after_a_wait_for_a_processor_is_learned() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let Some(slowed) = Slowed::by_processor() else {
        return;
    };
    let group = root.path().join("group");
    fs::create_dir(&group).unwrap();
    let _mounted = Mounted::bind(&slowed.0, &group);
    // Enough each time that it is no quiet.
    let files: Vec<String> = (0..40).map(|file| format!("/data/{file}")).collect();
    let work = "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done";
    let parts: Vec<String> = files
        .chunks(20)
        .map(|files| format!("{work}; cat {}", files.join(" ")))
        .collect();
    let read = parts.join("; ");
    leave_out_data(&root, &files, &read);
    // Only the app: whoever learns it looks as often as ever.
    let enter = format!("echo $$ >/group/cgroup.procs; {read}");
    let output = root
        .paralfetch(
            &["learn", "--live", "--timeout", "300"],
            &["/bin/sh", "-c", &enter],
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_whole(&root, &files);
}

/// All of these files were learned.
fn assert_whole(root: &Root, files: &[String]) {
    let profile = root.show("sh");
    for file in files {
        let all: Vec<u64> = (0..PAGES as u64).collect();
        assert_eq!(pages_of(&profile, file), all, "{file}");
    }
}
