//! The knobs of a drive: a loop device of this test's own, which holds no file.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use paralfetch::drive::{Knobs, Setting, Undone, restore_leftovers};

use crate::Test;
use common::privileged;

pub const TESTS: &[Test] = &[
    (
        "a_drives_knobs_are_restored_as_the_kernel_keeps_them",
        a_drives_knobs_are_restored_as_the_kernel_keeps_them,
    ),
    (
        "what_an_administrator_sets_in_between_is_kept",
        what_an_administrator_sets_in_between_is_kept,
    ),
    (
        "a_drive_that_was_replaced_keeps_its_own_values",
        a_drive_that_was_replaced_keeps_its_own_values,
    ),
];

/// From linux/loop.h.
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;

/// A loop device without a file; gone with this value.
pub struct Drive(i32);

impl Drive {
    pub fn new() -> Self {
        let number = (300..400).find(|&number| control(LOOP_CTL_ADD, number).is_ok());
        Drive(number.expect("a free loop device"))
    }

    /// Removes it and makes another one of the same name.
    pub fn replace(&self) {
        self.remove();
        control(LOOP_CTL_ADD, self.0).unwrap();
    }

    pub fn remove(&self) {
        // udev may have it open for a moment.
        common::until("the loop device is removed", || {
            match control(LOOP_CTL_REMOVE, self.0) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => false,
                removed => removed.map(|()| true).unwrap(),
            }
        });
    }

    pub fn queue(&self, name: &str) -> PathBuf {
        Path::new(&format!("/sys/block/loop{}/queue", self.0)).join(name)
    }

    pub fn bdi(&self, name: &str) -> PathBuf {
        Path::new(&format!("/sys/class/bdi/7:{}", self.0)).join(name)
    }

    /// What its knobs say.
    pub fn values(&self) -> Vec<String> {
        let queue = ["scheduler", "nr_requests", "max_sectors_kb"].map(|name| self.queue(name));
        let bdi = [self.bdi("read_ahead_kb")];
        // Older kernels do not have all of them.
        queue
            .iter()
            .chain(&bdi)
            .filter(|path| path.exists())
            .map(|path| read(path))
            .collect()
    }

    /// Changes of all of them.
    pub fn changes(&self) -> Vec<(PathBuf, &'static str)> {
        let other = match read(&self.queue("scheduler")).contains("[none]") {
            true => "mq-deadline",
            false => "none",
        };
        let changes = [
            (self.queue("scheduler"), other),
            (self.queue("nr_requests"), "17"),
            (self.queue("max_sectors_kb"), "64"),
            (self.bdi("read_ahead_kb"), "4"),
        ];
        changes
            .into_iter()
            .filter(|(path, _)| path.exists())
            .collect()
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // A panic here would hide the test's, and the test may have removed it.
        if let Err(error) = control(LOOP_CTL_REMOVE, self.0)
            && error.raw_os_error() != Some(libc::ENODEV)
        {
            eprintln!("cannot remove loop{}: {error}", self.0);
        }
    }
}

fn control(request: libc::c_ulong, number: i32) -> io::Result<()> {
    let control = File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    // SAFETY: these two take a number.
    match unsafe { libc::ioctl(control.as_raw_fd(), request as _, number) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

pub fn setting((path, value): (PathBuf, &str)) -> Setting {
    Setting {
        path,
        value: value.to_owned(),
    }
}

fn a_drives_knobs_are_restored_as_the_kernel_keeps_them() {
    if !privileged() {
        return;
    }
    let drive = Drive::new();
    // An administrator's: choosing another scheduler forgets them.
    fs::write(drive.queue("scheduler"), "mq-deadline").unwrap();
    let expire = drive.queue("iosched/read_expire");
    fs::write(&expire, "1000").unwrap();
    fs::write(drive.queue("nr_requests"), "99").unwrap();
    let before = drive.values();
    let run = tempfile::tempdir().unwrap();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    let mut ids: Vec<_> = drive
        .changes()
        .into_iter()
        .map(|change| knobs.change(setting(change)).unwrap().unwrap())
        .collect();
    for (now, before) in drive.values().iter().zip(&before) {
        assert_ne!(now, before);
    }
    while let Some(id) = ids.pop() {
        assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    }
    assert_eq!(drive.values(), before);
    assert_eq!(read(&expire), "1000");

    // All at once, by dropping them.
    for change in drive.changes() {
        knobs.change(setting(change)).unwrap().unwrap();
    }
    drop(knobs);
    assert_eq!(drive.values(), before);
    assert_eq!(read(&expire), "1000");
}

fn what_an_administrator_sets_in_between_is_kept() {
    if !privileged() {
        return;
    }
    let drive = Drive::new();
    let run = tempfile::tempdir().unwrap();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    for name in ["max_sectors_kb", "nr_requests"] {
        let change = (drive.queue(name), "32");
        let before = read(&drive.queue(name));
        if let Some(id) = knobs.change(setting(change)).unwrap() {
            fs::write(drive.queue(name), "16").unwrap();
            assert_eq!(knobs.undo(id).unwrap(), Undone::ChangedByOthers);
            assert_eq!(read(&drive.queue(name)), "16");
            fs::write(drive.queue(name), before).unwrap();
        }
    }
    // One that others have set back is nobody's.
    let change = (drive.queue("max_sectors_kb"), "64");
    let before = read(&change.0);
    let id = knobs.change(setting(change.clone())).unwrap().unwrap();
    fs::write(&change.0, &before).unwrap();
    assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    assert_eq!(read(&change.0), before);
}

fn a_drive_that_was_replaced_keeps_its_own_values() {
    if !privileged() {
        return;
    }
    let (drive, other) = (Drive::new(), Drive::new());
    let before = [drive.values(), other.values()];
    let run = tempfile::tempdir().unwrap();
    let hold = || {
        let mut knobs = Knobs::acquire(run.path(), None).unwrap();
        let changes = drive.changes().into_iter().chain(other.changes());
        let ids: Vec<_> = changes
            .map(|change| knobs.change(setting(change)).unwrap().unwrap())
            .collect();
        (knobs, ids)
    };
    // Another drive under its name that has, by accident, our very values.
    let (mut knobs, ids) = hold();
    drive.replace();
    for (path, value) in drive.changes() {
        fs::write(path, value).unwrap();
    }
    let own = drive.values();
    let undone: Vec<Undone> = ids
        .into_iter()
        .rev()
        .map(|id| knobs.undo(id).unwrap())
        .collect();
    let (of_other, of_drive) = undone.split_at(undone.len() / 2);
    assert!(
        of_other.iter().all(|undone| *undone == Undone::Restored),
        "{of_other:?}"
    );
    assert!(
        of_drive.iter().all(|undone| *undone == Undone::Gone),
        "{of_drive:?}"
    );
    assert_eq!([drive.values(), other.values()], [own, before[1].clone()]);

    // Removed for good, after a crash: the next start restores the others.
    drop(knobs);
    drive.replace();
    let (knobs, _) = hold();
    let record = fs::read(run.path().join("knobs.json")).unwrap();
    drop(knobs);
    for (path, value) in other.changes() {
        fs::write(path, value).unwrap();
    }
    fs::write(run.path().join("knobs.json"), record).unwrap();
    drive.remove();
    assert_eq!(
        restore_leftovers(run.path()).unwrap(),
        other.changes().len()
    );
    assert_eq!(other.values(), before[1]);
}
