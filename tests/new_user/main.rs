//! A new user's whole way, over reboots of a virtual machine (`scripts/vm.sh`): an earlier package is installed, an app on
//! a slow disk becomes faster by itself, the package is upgraded, removed and purged, and nothing is left.
//!
//! This program is its own harness, since the same file runs on both sides: in the machine, where it is called `guest`, it
//! does what the user and the administrator do, and ends at the first thing that is not as it should be; on the host it
//! boots the machine. That takes ten minutes.

mod app;
mod guest;
mod inventory;

use std::path::Path;
use std::process::ExitCode;

use common::machine::{self, Init};
use common::package;

/// The tests, and the systems of the machines.
const TESTS: [(&str, &str); 2] = [
    ("a_new_user_is_served_on_debian_12", "debian12"),
    ("a_new_user_is_served_on_debian_13", "debian13"),
];

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
    machine::run_tests(
        &TESTS,
        |names| *names,
        |(test, system)| machine::holds(test, || boot(system)),
    )
}

fn boot(system: &str) -> Result<String, String> {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let package = package::build(directory.path());
    let earlier = package::pack_earlier(&package);
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/new_user/app.py");
    let files = [package.as_path(), earlier.as_path(), Path::new(app)];
    machine::boot_with(system, Init::Systemd, &files, &SETTINGS)
}
