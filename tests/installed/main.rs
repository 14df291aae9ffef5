//! The installed service on a whole system: systemd as process 1, dbus-daemon and polkit, in the
//! virtual machine (`scripts/vm.sh`), with Debian 12's stock kernel, and on Debian 13 where its machine has been built.
//!
//! This program is its own harness, since the same file runs on both sides: in the machine, where it
//! is called `guest`, it does what an administrator and users do, and ends at the first thing that is
//! not as it should be; on the host it boots the machine.

mod apps;
mod drive;
mod guest;
mod journal;
#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/package.rs"]
mod package;
mod system;
mod upheavals;
mod week;

use std::path::Path;
use std::process::{Command, ExitCode};

use machine::{DEBIAN_13, Init};

/// The tests, and the kernels that they are done with, as `scripts/vm.sh` knows them. Under emulation, that of
/// the backports has crashed while code was patched for tracing.
const TESTS: [(&str, &str); 2] = [
    ("the_installed_service_works_on_the_stock_kernel", "stock"),
    ("the_installed_service_works_on_debian_13", DEBIAN_13),
];

/// What of the source tree is needed for installing, packed for the machine.
const TREE: [&str; 5] = ["scripts", "dist", "docs", "man", "packaging"];

fn main() -> ExitCode {
    if machine::is_guest() {
        guest::main();
        return ExitCode::SUCCESS;
    }
    let mut tests = TESTS.to_vec();
    tests.retain(|(test, kernel)| machine::is_possible(test, kernel));
    machine::run_tests(
        &tests,
        |(test, _)| test,
        |(test, kernel)| machine::holds(test, || boot(kernel)),
    )
}

fn boot(kernel: &str) -> Result<String, String> {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let tree = directory.path().join(guest::TREE);
    package::build(directory.path());
    pack(&tree, directory.path());
    let fork_server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/fork_server.py");
    let files = [tree.as_path(), Path::new(fork_server)];
    machine::boot(kernel, Init::Systemd, &files)
}

/// The tree, and the package from `directory`.
fn pack(to: &Path, directory: &Path) {
    let packed = Command::new("tar")
        .arg("-cf")
        .arg(to)
        .args(["-C", env!("CARGO_MANIFEST_DIR")])
        .args(TREE)
        .arg("-C")
        .arg(directory)
        .arg(package::PACKAGE)
        .status()
        .expect("tar can be run");
    assert!(packed.success(), "tar: {packed}");
}
