//! A harness for programs whose tests must be alone in their process.

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test, by its name.
pub type Test = (&'static str, fn());

/// Runs the tests whose name contains the first argument, one after the other, and closes as libtest does, for whoever adds
/// up. With `--list`, only names them.
pub fn run(groups: &[&[Test]]) -> ExitCode {
    let tests = groups.iter().copied().flatten();
    if is_listing() {
        list(tests.map(|(name, _)| *name));
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests.filter(|(name, _)| is_wanted(name)) {
        let ok = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        *(if ok { &mut passed } else { &mut failed }) += 1;
    }
    close(passed, failed)
}

/// Whether the tests are only to be named.
pub fn is_listing() -> bool {
    std::env::args().any(|argument| argument == "--list")
}

/// Names tests as libtest does.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        println!("{name}: test");
    }
}

/// Whether a test of this name is wanted: the first argument that is no option is part of it.
pub fn is_wanted(name: &str) -> bool {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    filter.is_none_or(|filter| name.contains(&filter))
}

/// The closing line.
pub fn close(passed: u32, failed: u32) -> ExitCode {
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed;");
    ExitCode::from(u8::from(failed > 0))
}
