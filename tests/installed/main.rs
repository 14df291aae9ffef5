//! The installed service on a whole system: systemd as process 1, dbus-daemon and polkit, in the
//! virtual machines (`scripts/vm.sh`): on Debian 12 and on Debian 13.
//!
//! This program is its own harness, since the same file runs on both sides: in the machine, where it
//! is called `guest`, it does what an administrator and users do, and ends at the first thing that is
//! not as it should be; on the host it boots the machine.

mod apps;
mod drive;
mod guest;
mod upheavals;
mod week;

use std::path::Path;
use std::process::{Command, ExitCode};

use common::machine::{self, Init};
use common::package;

/// The tests, and the systems of the machines.
const TESTS: [(&str, &str); 2] = [
    ("the_installed_service_works_on_debian_12", "debian12"),
    ("the_installed_service_works_on_debian_13", "debian13"),
];

/// What of the source tree is needed for installing, packed for the machine.
const TREE: [&str; 5] = ["scripts", "dist", "docs", "man", "packaging"];

fn main() -> ExitCode {
    if machine::is_guest() {
        guest::main();
        return ExitCode::SUCCESS;
    }
    machine::run_tests(
        &TESTS,
        |names| *names,
        |(test, system)| machine::holds(test, || boot(system)),
    )
}

fn boot(system: &str) -> Result<String, String> {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let tree = directory.path().join(guest::TREE);
    package::build(directory.path());
    pack(&tree, directory.path());
    let fork_server = concat!(env!("CARGO_MANIFEST_DIR"), "/common/fork_server.py");
    let files = [tree.as_path(), Path::new(fork_server)];
    machine::boot(system, Init::Systemd, &files)
}

/// The tree, and the package from `directory`.
fn pack(to: &Path, directory: &Path) {
    let packed = Command::new("tar")
        .arg("-cf")
        .arg(to)
        .args(["-C", common::TREE])
        .args(TREE)
        .arg("-C")
        .arg(directory)
        .arg(package::PACKAGE)
        .status()
        .expect("tar can be run");
    assert!(packed.success(), "tar: {packed}");
}
