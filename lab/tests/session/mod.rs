//! What tests of whole sessions share.

use std::path::Path;
use std::process::Command;

/// Whether the machine has what the laboratory needs. Prints what is missing, and panics if
/// `PARALFETCH_REQUIRE_PRIVILEGED` is 1.
pub fn possible() -> bool {
    let tools = ["Xvfb", "mmdebstrap", "losetup"];
    let missing = tools.iter().find(|tool| {
        !["/usr/bin", "/usr/sbin", "/sbin"]
            .iter()
            .any(|directory| Path::new(directory).join(tool).exists())
    });
    let why = if !rustix::process::geteuid().is_root() {
        "this test needs root".to_owned()
    } else if let Some(tool) = missing {
        format!("this test needs {tool}")
    } else if !Path::new("/dev/fuse").exists() {
        "this test needs /dev/fuse".to_owned()
    } else {
        return true;
    };
    common::skipped(&why);
    false
}

/// Runs the laboratory's command line.
pub fn lab(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_lab"))
        .args(arguments)
        .output()
        .unwrap()
}
