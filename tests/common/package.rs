//! The Debian package of the program that is tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package's file, and that of an earlier one.
pub const PACKAGE: &str = "paralfetch.deb";
pub const EARLIER: &str = "earlier.deb";

/// Builds the package as [`PACKAGE`] in `directory`.
pub fn build(directory: &Path) -> PathBuf {
    let root = Path::new(crate::TREE);
    let mut script = Command::new(root.join("scripts/deb.sh"));
    script.args(["--binary", crate::program()]).arg(directory);
    let file = told(&mut script);
    let package = directory.join(PACKAGE);
    fs::rename(file.trim(), &package).expect("it is there");
    package
}

/// Packs what is in a package again beside it, with a version that is the one before, as [`EARLIER`].
pub fn pack_earlier(package: &Path) -> PathBuf {
    let unpacked = package.with_extension("unpacked");
    told(
        Command::new("dpkg-deb")
            .arg("--raw-extract")
            .args([package, &unpacked]),
    );
    let control = unpacked.join("DEBIAN/control");
    let fields = fs::read_to_string(&control).expect("a package has it");
    let fields: String = fields
        .lines()
        .map(|line| match line.strip_prefix("Version: ") {
            // A tilde sorts before the end.
            Some(version) => format!("Version: {version}~earlier\n"),
            None => format!("{line}\n"),
        })
        .collect();
    fs::write(control, fields).expect("it is ours");
    let earlier = package.with_file_name(EARLIER);
    told(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .args([&unpacked, &earlier]),
    );
    earlier
}

/// What a program prints; it must succeed.
fn told(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text of ours")
}
