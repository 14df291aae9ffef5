//! The installed service on a whole system: systemd as process 1, dbus-daemon and polkit, in the
//! virtual machine (`scripts/vm.sh`), with Debian 12's stock kernel.
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
mod system;
mod upheavals;
mod week;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use machine::Init;

/// The test, and the kernel that it is done with, as `scripts/vm.sh` knows it. Under emulation, that of
/// the backports has crashed while code was patched for tracing.
const TESTS: [(&str, &str); 1] = [("the_installed_service_works_on_the_stock_kernel", "stock")];

/// What of the source tree is needed for installing, packed for the machine.
const TREE: [&str; 5] = ["scripts", "dist", "docs", "man", "packaging"];

fn main() -> ExitCode {
    if machine::is_guest() {
        guest::main();
        return ExitCode::SUCCESS;
    }
    machine::run_tests(
        &TESTS,
        |(test, _)| test,
        |(test, kernel)| holds(test, kernel),
    )
}

fn holds(test: &str, kernel: &str) -> bool {
    let started = Instant::now();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let tree = directory.path().join(guest::TREE);
    build_package(directory.path());
    pack(&tree, directory.path());
    let fork_server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/fork_server.py");
    let files = [tree.as_path(), Path::new(fork_server)];
    let verdict = match machine::boot(kernel, Init::Systemd, &files) {
        Ok(text) => {
            print!("{text}");
            "ok"
        }
        Err(text) => {
            eprintln!("{text}");
            "FAILED"
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    println!("test {test} ... {verdict} ({seconds:.0} s)");
    verdict == "ok"
}

/// The Debian package of the program that is tested, as [`guest::PACKAGE`].
fn build_package(directory: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(root.join("scripts/deb.sh"))
        .args(["--binary", env!("CARGO_BIN_EXE_paralfetch")])
        .arg(directory)
        .output()
        .expect("scripts/deb.sh can be run");
    let told = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "scripts/deb.sh: {told}");
    let file = String::from_utf8(built.stdout).expect("a path of ours");
    std::fs::rename(file.trim(), directory.join(guest::PACKAGE)).expect("it is there");
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
        .arg(guest::PACKAGE)
        .status()
        .expect("tar can be run");
    assert!(packed.success(), "tar: {packed}");
}
