//! What a launch may cost the service, and what of it is no part of the app.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::running::number;
use crate::set_up;
use crate::writes::UNTIL_EXIT;
use common::drop_caches;
use common::root::pages_of;

#[test]
fn a_launch_that_looks_up_too_many_paths_is_learned_without_the_last_of_them() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // Many times as many as are recorded, as programs do that look for icons in every theme.
    let look_up = "i=0; while [ $i -lt 200000 ]; do [ -e /no-such-file-$i ]; i=$((i+1)); done";
    image.script("app", &format!("cat /data/*; {look_up}; cat /later"));
    fs::write(image.root.path().join("later"), vec![1; 1 << 20]).unwrap();
    image.configure(UNTIL_EXIT);
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_stored("app");
    let profile = image.root.show("app");
    assert!(!pages_of(&profile, "/later").is_empty(), "{profile}");
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

        drop_caches();
        let reading_us = time_of_reading(&mut image.launcher("app"), FILM - (16 << 20));
        let line = service.launch_of(&image.id("app"));
        let is_timed = number(&line, "duration_us") >= reading_us;
        assert!(is_timed, "reading took {reading_us} us: {line}");
        service.stop();
    }
}
