//! The virtual machines that other kernels and whole systems are tested in (`scripts/vm.sh`).

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::{harness, skipped};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/vm.sh");

/// After so long the machine is given up. It is done after a minute and a half on two slow cores, and after
/// five and more where others take half of them.
const LIMIT_SECONDS: u32 = 1800;

/// The exit status with which the guest asks for a reboot, where the machine has boots left.
pub const REBOOT: u8 = 75;

/// What the machine's first process is.
#[derive(Clone, Copy)]
pub enum Init {
    /// The program alone.
    Guest,
    /// systemd, which starts the program when everything else has been started.
    Systemd,
}

/// Whether this program is the one in the machine: there, it has another name.
pub fn is_guest() -> bool {
    let arg0 = std::env::args_os().next();
    arg0.is_some_and(|arg0| Path::new(&arg0).file_name() == Some("guest".as_ref()))
}

/// Whether the machine with this system has been built; it need not be.
fn has_machine(system: &str) -> bool {
    let ready = Command::new(SCRIPT)
        .args(["ready", system])
        .output()
        .is_ok_and(|output| output.status.success());
    if !ready {
        skipped(&format!(
            "the machine has not been built: 'scripts/vm.sh image {system}'"
        ));
    }
    ready
}

/// Runs the tests that are wanted and whose machine there is, and prints the closing line of a test program. `names` says
/// the name of a test and its system, as `scripts/vm.sh` knows it; `holds` boots the machine and says whether all was as it
/// should be.
pub fn run_tests<T>(
    tests: &[T],
    names: impl Fn(&T) -> (&'static str, &'static str),
    holds: impl Fn(&T) -> bool,
) -> ExitCode {
    if harness::is_listing() {
        harness::list(tests.iter().map(|test| names(test).0));
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for test in tests {
        let (name, system) = names(test);
        if !harness::is_wanted(name) || !has_machine(system) {
            continue;
        }
        match holds(test) {
            true => passed += 1,
            false => failed += 1,
        }
    }
    harness::close(passed, failed)
}

/// Boots the machine for a test, and prints what came of it; whether the guest was content.
pub fn holds(test: &str, boot: impl FnOnce() -> Result<String, String>) -> bool {
    let started = Instant::now();
    let verdict = match boot() {
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

/// Boots the machine of a system, as `scripts/vm.sh` knows it, and executes this very program there,
/// beside the product's and `files`.
///
/// # Errors
/// All that the guest and the machine said, if the guest did not succeed.
pub fn boot(system: &str, init: Init, files: &[&Path]) -> Result<String, String> {
    boot_with(system, init, files, &[])
}

/// [`boot`] with other settings of `scripts/vm.sh`, which are variables of its environment.
///
/// # Errors
/// All that the guest and the machine said, if the guest did not succeed.
pub fn boot_with(
    system: &str,
    init: Init,
    files: &[&Path],
    settings: &[(&str, &str)],
) -> Result<String, String> {
    let output = Command::new(SCRIPT)
        .envs(settings.iter().copied())
        .env("PARALFETCH_VM_SYSTEM", system)
        .env(
            "PARALFETCH_VM_INIT",
            match init {
                Init::Guest => "guest",
                Init::Systemd => "systemd",
            },
        )
        .args(["run", &LIMIT_SECONDS.to_string()])
        .arg(std::env::current_exe().expect("a running program has a file"))
        .arg(crate::program())
        .args(files)
        .output()
        .expect("scripts/vm.sh can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(text.into_owned());
    }
    Err(format!(
        "the guest failed: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}
