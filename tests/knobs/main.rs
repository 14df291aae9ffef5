//! Settings of the kernel and of systemd that are changed and restored, whatever happens in between: with real knobs
//! of a loop device of its own, with processes that are killed, and with a systemd that this program plays.
//!
//! Executed with [`holder::VARIABLE`] set, this program changes knobs and waits; otherwise it runs the tests whose
//! name contains the first argument, one after the other.

#[path = "../common/mod.rs"]
mod common;
mod drive;
mod fake_systemd;
mod holder;
mod killed;
mod priority;
mod system;
mod units;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

type Test = (&'static str, fn());

fn main() -> ExitCode {
    if std::env::var_os(holder::VARIABLE).is_some() {
        return holder::hold();
    }
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let (mut passed, mut failed) = (0, 0);
    let groups: [&[Test]; 5] = [
        system::TESTS,
        drive::TESTS,
        priority::TESTS,
        killed::TESTS,
        units::TESTS,
    ];
    for (name, test) in groups.into_iter().flatten() {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let ok = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        *(if ok { &mut passed } else { &mut failed }) += 1;
    }
    // As libtest closes, for whoever adds up.
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed;");
    if failed > 0 {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Waits until this is so, for a minute at most.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < limit, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
