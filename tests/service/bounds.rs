//! What a launch may cost the service, and what of it is no part of the app.

use std::fs;
use std::os::unix::fs::chown;
use std::time::Instant;

use paralfetch::drive::drop_caches;

use crate::root::pages_of;
use crate::running::number;
use crate::set_up;

#[test]
fn a_launch_that_looks_up_too_many_paths_is_not_learned_and_counts_as_an_attempt() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let look_up = "i=0; while [ $i -lt 100000 ]; do [ -e /no-such-file-$i ]; i=$((i+1)); done";
    image.script("app", &format!("{look_up}; cat /data/*"));
    image.script("calm", "cat /data/*");
    image.enable("app");
    image.enable("calm");
    let mut service = image.start();
    service.line(&["ready to learn"]);
    for _ in 0..3 {
        image.launch("app");
        let line = service.launch_of(&image.id("app"));
        let says = line.contains("kind=Watched") && line.contains("looked up more paths");
        assert!(says, "{line}");
    }
    let given_up = service.heard(&["switched off", "nothing could be learned"]);
    assert_eq!(given_up.len(), 1);
    // The recorder is free again.
    image.learn_in_the_end(&mut service, "calm");
    service.stop();
}

#[test]
fn a_users_film_is_no_part_of_the_app_and_launches_are_timed_to_its_end() {
    for owner in [0, 1000] {
        let Some((image, _turn)) = set_up() else {
            return;
        };
        let film = image.root.path().join("film");
        fs::write(&film, vec![1; 100 << 20]).unwrap();
        chown(&film, Some(owner), None).unwrap();
        image.script("app", "cat /data/*; cat /film");
        image.enable("app");
        let mut service = image.start();
        image.learn(&mut service, "app");
        image.until_stored("app");
        let profile = image.root.show("app");
        let holds_film = !pages_of(&profile, "/film").is_empty();
        assert_eq!(holds_film, owner == 0, "{profile}");

        drop_caches().unwrap();
        let begun = Instant::now();
        image.launch("app");
        let took_us = begun.elapsed().as_micros() as u64;
        let line = service.launch_of(&image.id("app"));
        let is_timed = number(&line, "duration_us") > took_us / 2;
        assert!(is_timed, "it took {took_us} us: {line}");
        service.stop();
    }
}
