//! What a launch may cost the service, and what of it is no part of the app.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};
use std::time::Instant;

use paralfetch::drive::drop_caches;

use crate::running::number;
use crate::set_up;
use common::root::pages_of;

#[test]
fn a_launch_that_looks_up_too_many_paths_is_not_learned_and_counts_as_an_attempt() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // Many times as many as are recorded: what sees paths is attached a moment after the beginning.
    let look_up = "i=0; while [ $i -lt 400000 ]; do [ -e /no-such-file-$i ]; i=$((i+1)); done";
    image.script("app", &format!("{look_up}; cat /data/*"));
    image.script("calm", "cat /data/*");
    image.enable("app");
    image.enable("calm");
    let mut service = image.start();
    for _ in 0..3 {
        service.ready_to_learn();
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

/// Bytes of the film: several times what is cut out of it below.
const FILM: usize = 100 << 20;

/// Microseconds between the first byte and this many bytes of what the program prints: a time within the launch,
/// however busy the host is, as the program is ahead of its reader by a pipe's room and its buffer alone.
fn time_of_reading(program: &mut Command, bytes: usize) -> u64 {
    let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    let begun = Instant::now();
    io::copy(&mut (&mut output).take(bytes as u64), &mut io::sink()).unwrap();
    let took = begun.elapsed();
    io::copy(&mut output, &mut io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    took.as_micros() as u64
}

#[test]
fn a_users_film_is_no_part_of_the_app_and_launches_are_timed_to_its_end() {
    for owner in [0, 1000] {
        let Some((image, _turn)) = set_up() else {
            return;
        };
        let film = image.root.path().join("film");
        fs::write(&film, vec![1; FILM]).unwrap();
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
        let reading_us = time_of_reading(&mut image.launcher("app"), FILM - (16 << 20));
        let line = service.launch_of(&image.id("app"));
        let is_timed = number(&line, "duration_us") >= reading_us;
        assert!(is_timed, "reading took {reading_us} us: {line}");
        service.stop();
    }
}
