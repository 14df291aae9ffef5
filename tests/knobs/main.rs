//! Settings of the kernel and of systemd that are changed and restored, whatever happens in between: with real knobs
//! of a loop device of its own, with processes that are killed, and with a systemd that this program plays.
//!
//! Executed with [`holder::VARIABLE`] set, this program changes knobs and waits; otherwise it runs the tests whose
//! name contains the first argument, one after the other.

mod drive;
mod fake_systemd;
mod holder;
mod killed;
mod priority;
mod system;
mod units;

use std::process::ExitCode;

use common::harness::{self, Test};

fn main() -> ExitCode {
    if std::env::var_os(holder::VARIABLE).is_some() {
        return holder::hold();
    }
    harness::run(&[
        system::TESTS,
        drive::TESTS,
        priority::TESTS,
        killed::TESTS,
        units::TESTS,
    ])
}
