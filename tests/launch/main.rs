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

use std::process::ExitCode;

use common::harness::{self, Test};

fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(roles::VARIABLE) {
        roles::play(&role);
    }
    harness::run(&[
        behaviour::TESTS,
        signals::TESTS,
        privileged::TESTS,
        tree::TESTS,
    ])
}
