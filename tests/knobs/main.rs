//! Settings of the kernel that are changed and restored, whatever happens in between: with real knobs of a loop device of
//! its own, and with processes that are killed.
//!
//! Executed with [`holder::VARIABLE`] set, this program changes knobs and waits; otherwise it runs the tests whose
//! name contains the first argument, one after the other.

mod drive;
mod holder;
mod killed;

use std::process::ExitCode;

use common::harness::{self, Test};

fn main() -> ExitCode {
    if std::env::var_os(holder::VARIABLE).is_some() {
        return holder::hold();
    }
    harness::run(&[drive::TESTS, killed::TESTS])
}
