//! A new user's whole way, over reboots of a virtual machine (`scripts/vm.sh`): an earlier package is installed, an app on
//! a slow disk becomes faster by itself, the package is upgraded, removed and purged, and nothing is left.
//!
//! This program is its own harness, since the same file runs on both sides: in the machine, where it is called `guest`, it
//! does what the user and the administrator do, and ends at the first thing that is not as it should be; on the host it
//! boots the machine. That takes ten minutes, and is done only where somebody asks for it.

mod app;
mod guest;
mod inventory;
#[path = "../installed/journal.rs"]
mod journal;
#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/package.rs"]
mod package;
#[path = "../installed/system.rs"]
mod system;

use std::path::Path;
use std::process::ExitCode;

use machine::{DEBIAN_13, Init};

/// The tests, and the kernels that the machine is booted with.
const TESTS: [(&str, &str); 2] = [
    ("a_new_user_is_served_on_debian_12", "stock"),
    ("a_new_user_is_served_on_debian_13", DEBIAN_13),
];

/// Asks for the test on Debian 12. Who has built the machine of Debian 13 has asked for both.
const ASKED: &str = "PARALFETCH_NEW_USER";

/// How the machine is booted: three times, with a disk that is slow enough for an emulated processor to be fast.
const SETTINGS: [(&str, &str); 3] = [
    ("PARALFETCH_VM_BOOTS", "3"),
    ("PARALFETCH_VM_DISK_MIB", "128"),
    ("PARALFETCH_VM_DISK_MB_S", "3"),
];

fn main() -> ExitCode {
    if machine::is_guest() {
        return guest::main();
    }
    let mut tests = TESTS.to_vec();
    tests.retain(|(test, kernel)| machine::is_possible(test, kernel) && is_asked_for(test));
    machine::run_tests(
        &tests,
        |(test, _)| test,
        |(test, kernel)| machine::holds(test, || boot(kernel)),
    )
}

/// Whether this test is to be done, as far as it is a matter of its ten minutes.
fn is_asked_for(test: &str) -> bool {
    let is_asked_for =
        std::env::var(ASKED).is_ok_and(|value| value == "1") || machine::is_built(DEBIAN_13);
    if !is_asked_for {
        println!("left out: {test}: it takes ten minutes, with {ASKED}=1 in the environment");
    }
    is_asked_for
}

fn boot(kernel: &str) -> Result<String, String> {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let package = package::build(directory.path());
    let earlier = package::pack_earlier(&package);
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/new_user/app.py");
    let files = [package.as_path(), earlier.as_path(), Path::new(app)];
    machine::boot_with(kernel, Init::Systemd, &files, &SETTINGS)
}
