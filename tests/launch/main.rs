//! Launches of real programs, supervised in processes of their own.
//!
//! This program is its own harness, since signals are sent to whole processes, and a harness's
//! threads would catch them. Executed with [`roles::VARIABLE`] set, it plays one of the [`roles`];
//! otherwise it runs the tests whose name contains the first argument, one after the other.

mod behaviour;
mod privileged;
mod roles;
mod signals;
mod tree;

use std::panic::catch_unwind;
use std::process::ExitCode;

type Test = (&'static str, fn());

fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(roles::VARIABLE) {
        roles::play(&role);
    }
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let (mut passed, mut failed) = (0, 0);
    let groups: [&[Test]; 4] = [
        behaviour::TESTS,
        signals::TESTS,
        privileged::TESTS,
        tree::TESTS,
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
