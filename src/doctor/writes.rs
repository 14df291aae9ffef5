//! What can be done so that launches do not wait for other programs' writes.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::AbilityCheck;

/// The settings of a drive that the shield changes.
const KNOBS: [&str; 2] = ["queue/scheduler", "queue/max_sectors_kb"];

/// Whether drives that are being written can be shielded. Changes nothing. What other users than root may write says
/// nothing of the service, which is root.
pub fn shield() -> AbilityCheck {
    const NAME: &str = "writes: drives' queues";
    if !rustix::process::geteuid().is_root() {
        return AbilityCheck::unknown(
            NAME,
            "for the service to try",
            "they may be changed by root alone: sudo paralfetch doctor",
        );
    }
    AbilityCheck::useful(
        NAME,
        queues(Path::new("/sys")),
        "launches wait behind what other programs write",
    )
}

fn queues(sys: &Path) -> Result<String, String> {
    let drives = drives(sys);
    let Some(drive) = drives.first() else {
        return Err("sysfs has no drives".to_owned());
    };
    for knob in KNOBS.map(|knob| drive.join(knob)) {
        let opened = OpenOptions::new().write(true).open(&knob);
        opened.map_err(|error| format!("{} {}", knob.display(), why(&error)))?;
    }
    Ok(format!("drives with such settings: {}", drives.len()))
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "is mounted read-only, as in a container: run the service on the host".to_owned()
        }
        io::ErrorKind::PermissionDenied => "may be written by root alone".to_owned(),
        io::ErrorKind::NotFound => "is not in this kernel".to_owned(),
        _ => format!("cannot be written: {error}"),
    }
}

/// Whole drives that hold something.
fn drives(sys: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(sys.join("block"))
        .into_iter()
        .flatten()
        .flatten();
    let mut drives: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    drives.retain(|drive| {
        let size = fs::read_to_string(drive.join("size"));
        size.is_ok_and(|size| size.trim() != "0") && drive.join("queue/scheduler").exists()
    });
    drives.sort();
    drives
}

#[cfg(test)]
mod tests {
    use tempfile::{TempDir, tempdir};

    use super::*;

    /// A sysfs with these files.
    fn sys(files: &[(&str, &str)]) -> TempDir {
        let dir = tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn what_is_missing_is_named() {
        let lack = |files: &[(&str, &str)]| queues(sys(files).path()).unwrap_err();
        assert!(lack(&[]).contains("no drives"));
        let empty = [
            ("block/loop0/size", "0"),
            ("block/loop0/queue/scheduler", "[none]"),
        ];
        assert!(lack(&empty).contains("no drives"));
        let drive = [
            ("block/sda/size", "9"),
            ("block/sda/queue/scheduler", "[none]"),
        ];
        assert!(lack(&drive).contains("max_sectors_kb is not in"));
        let whole = sys(&[
            drive[0],
            drive[1],
            ("block/sda/queue/max_sectors_kb", "1280"),
        ]);
        assert_eq!(
            queues(whole.path()).unwrap(),
            "drives with such settings: 1"
        );
    }

    #[test]
    fn a_containers_settings_are_read_only() {
        let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        assert!(why(&error).contains("container"));
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(why(&error).contains("root"));
    }
}
