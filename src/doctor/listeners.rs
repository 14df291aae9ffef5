//! Programs that are asked before others may open or read a file (fanotify(7), permission events), as scanners of files and
//! lists of allowed programs are.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::AbilityCheck;
use crate::model::shown;

/// `FAN_OPEN_PERM`, `FAN_ACCESS_PERM` and `FAN_OPEN_EXEC_PERM` (linux/fanotify.h), with what is asked about in words.
const PERMISSIONS: [(u64, &str); 3] = [
    (0x1_0000, "opened"),
    (0x2_0000, "read"),
    (0x4_0000, "executed"),
];

/// What the link of a listener's descriptor in /proc/PID/fd reads.
const LISTENER: &str = "anon_inode:[fanotify]";

/// Most that is read of a descriptor's text: a line for each mark.
const MOST_BYTES: u64 = 1 << 20;

/// The events that a listener has asked for, by the text of /proc/PID/fdinfo/FD: the masks of all of its marks together.
/// 0 for other descriptors.
pub fn listener_mask(fdinfo: &str) -> u64 {
    let marks = fdinfo
        .lines()
        .filter_map(|line| line.strip_prefix("fanotify "));
    let mask = |mark: &str| {
        let mut fields = mark.split_ascii_whitespace();
        let hex = fields.find_map(|field| field.strip_prefix("mask:"))?;
        u64::from_str_radix(hex, 16).ok()
    };
    marks.filter_map(mask).fold(0, |all, mask| all | mask)
}

/// A process that listens.
struct FanotifyListener {
    program: String,
    pid: i32,
    /// What it has asked for, as [`listener_mask`] has it.
    mask: u64,
}

/// The listeners that there are.
pub fn permission_listeners() -> AbilityCheck {
    const NAME: &str = "permission events";
    if !rustix::process::geteuid().is_root() {
        let cost =
            "whether another program is asked before files are opened: sudo paralfetch doctor";
        return AbilityCheck::unknown(NAME, "root alone sees who listens", cost);
    }
    match listeners(Path::new("/proc")) {
        Ok((listeners, refused)) => judge(NAME, &listeners, refused),
        Err(error) => AbilityCheck::useful(
            NAME,
            Err(format!("the process table cannot be read: {error}")),
            "a program that is asked before files are opened, and delays that, is not found",
        ),
    }
}

/// `refused`: how many processes could not be looked at.
fn judge(name: &str, listeners: &[FanotifyListener], refused: usize) -> AbilityCheck {
    let describe = |listener: &FanotifyListener| {
        let asked = PERMISSIONS
            .iter()
            .filter(|(bit, _)| listener.mask & bit != 0);
        let asked: Vec<&str> = asked.map(|(_, what)| *what).collect();
        let program: String = listener.program.chars().map(shown).collect();
        let (pid, what) = (listener.pid, asked.join(", "));
        (!asked.is_empty()).then(|| format!("{program} ({pid}) is asked before files are {what}"))
    };
    let found: Vec<String> = listeners.iter().filter_map(describe).collect();
    let found = match (found.is_empty(), refused) {
        (true, 0) => Ok("nobody is asked before files are opened".to_owned()),
        (true, refused) => Ok(format!(
            "nobody that can be looked at is asked before files are opened (processes that cannot: {refused})"
        )),
        (false, _) => Err(found.join("; ")),
    };
    AbilityCheck::useful(
        name,
        found,
        "each open waits for its answer: apps are not prefetched if that takes half a millisecond or more. Have it leave \
         out the directories of your apps, and then: paralfetch relearn APP",
    )
}

/// All fanotify listeners, and how many processes could not be looked at: in a container, root may not look at all
/// of them, and nobody can look at one that is just ending. A process that has ended counts as neither.
fn listeners(proc: &Path) -> io::Result<(Vec<FanotifyListener>, usize)> {
    let (mut listeners, mut refused) = (Vec::new(), 0);
    for process in fs::read_dir(proc)? {
        let process = process?;
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        match listener(&process.path(), pid) {
            Ok(found) => listeners.extend(found),
            Err(_) => refused += 1,
        }
    }
    listeners.sort_by_key(|listener| listener.pid);
    Ok((listeners, refused))
}

/// The process as a listener, if it is one.
fn listener(process: &Path, pid: i32) -> io::Result<Option<FanotifyListener>> {
    let mask = mask_of(process)?;
    if mask == 0 {
        return Ok(None);
    }
    let program = read(&process.join("comm"))?;
    let program = program.trim_end().to_owned();
    Ok(Some(FanotifyListener { program, pid, mask }))
}

/// The events that a process has asked for, through all of its descriptors.
fn mask_of(process: &Path) -> io::Result<u64> {
    let mut mask = 0;
    let descriptors = unless_gone(fs::read_dir(process.join("fd")))?;
    for descriptor in descriptors.into_iter().flatten() {
        let Some(descriptor) = unless_gone(descriptor)? else {
            continue;
        };
        let target = unless_gone(fs::read_link(descriptor.path()))?;
        if target.is_some_and(|target| target.as_os_str() == LISTENER) {
            let fdinfo = process.join("fdinfo").join(descriptor.file_name());
            mask |= listener_mask(&read(&fdinfo)?);
        }
    }
    Ok(mask)
}

/// The beginning of a file of /proc; empty if the process or descriptor does not exist any more.
fn read(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    if let Some(file) = unless_gone(File::open(path))? {
        unless_gone(file.take(MOST_BYTES).read_to_end(&mut text))?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// `None` if the process or descriptor does not exist any more.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A process that ends between open and read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::doctor::AbilityLevel;

    /// As Linux 6.12 writes it (fs/notify/fdinfo.c).
    const SCANNER: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1057\n\
        fanotify flags:14 event-flags:8000\n\
        fanotify mnt_id:1e mflags:0 mask:10000 ignored_mask:0\n\
        fanotify ino:2a sdev:fd00001 mflags:0 mask:8 ignored_mask:40000000 fhandle-bytes:8 fhandle-type:1 f_handle:2a\n";

    #[test]
    fn the_masks_of_all_marks_are_one_and_other_text_has_none() {
        assert_eq!(listener_mask(SCANNER), 0x1_0008);
        for text in [
            "",
            "mask:10000",
            "inotify wd:1 ino:2a sdev:fd00001 mask:10000 ignored_mask:0",
            "fanotify ignored_mask:10000 mflags:0",
            "fanotify mask:",
            "fanotify mask:xyz mask:10000",
            "fanotify mask:10000000000000000000",
            "fanotify  \u{1b}[2J\0mask:10000",
        ] {
            assert_eq!(listener_mask(text), 0, "{text:?}");
        }
        assert_eq!(
            listener_mask("fanotify mask:20000\r\nfanotify mask:1"),
            0x2_0001
        );
    }

    #[test]
    fn listeners_on_permission_events_are_named_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: &str, comm: &str, target: &str, fdinfo: &str| {
            let process = dir.path().join(pid);
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::create_dir_all(process.join("fdinfo")).unwrap();
            fs::write(process.join("comm"), format!("{comm}\n")).unwrap();
            symlink(target, process.join("fd/3")).unwrap();
            fs::write(process.join("fdinfo/3"), fdinfo).unwrap();
        };
        process("70", "scan\u{1b}er", LISTENER, SCANNER);
        process("8", "watcher", LISTENER, "fanotify mnt_id:1 mask:8\n");
        process("9", "liar", "/tmp/anon_inode:[fanotify]", SCANNER);
        process("self", "scan", LISTENER, SCANNER);
        fs::create_dir(dir.path().join("10")).unwrap();
        let (found, refused) = listeners(dir.path()).unwrap();
        assert_eq!(refused, 0);
        let pids: Vec<i32> = found.iter().map(|listener| listener.pid).collect();
        assert_eq!(pids, [8, 70]);
        let check = judge("x", &found, 1);
        assert_eq!(check.level, AbilityLevel::Less);
        let named = check
            .found
            .ends_with(" (70) is asked before files are opened");
        assert!(named && !check.found.contains('\u{1b}'), "{}", check.found);
        assert!(!check.found.contains("watcher"), "{}", check.found);
        assert_eq!(judge("x", &found[..1], 0).level, AbilityLevel::Ok);
        let all = FanotifyListener {
            program: "a".to_owned(),
            pid: 1,
            mask: 0x7_0000,
        };
        let found = judge("x", &[all], 0).found;
        assert!(found.ends_with("are opened, read, executed"), "{found}");
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_not_one_that_does_not_listen() {
        let dir = tempfile::tempdir().unwrap();
        assert!(listeners(&dir.path().join("none")).is_err());
        fs::create_dir(dir.path().join("7")).unwrap();
        let looked_at = || {
            let (found, refused) = listeners(dir.path()).unwrap();
            (found.len(), refused)
        };
        assert_eq!(looked_at(), (0, 0), "it has ended");
        fs::write(dir.path().join("7/fd"), "").unwrap();
        assert_eq!(looked_at(), (0, 1));
        let check = judge("x", &[], 1);
        assert_eq!(check.level, AbilityLevel::Ok);
        assert!(check.found.ends_with("cannot: 1)"), "{}", check.found);
    }
}
