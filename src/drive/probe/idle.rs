//! Whether others use a drive: sysfs counts its requests.

use std::time::Duration;

use crate::drive::Sysfs;
use crate::drive::sysfs::read;

/// How long a drive is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Most requests in that time of an idle drive.
const MOST_REQUESTS: u64 = 4;

/// Reads and writes of a drive since it was attached, and those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveRequests {
    /// Completed.
    pub completed: u64,
    /// In flight.
    pub in_flight: u64,
}

/// Why a drive is not known to be idle, as the end of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotIdle {
    /// Others use the drive.
    Busy(String),
    /// sysfs does not tell whether others use the drive.
    Unknown(&'static str),
}

impl DriveRequests {
    /// Of a whole disk, encoded as `st_rdev`.
    ///
    /// # Errors
    /// Why sysfs does not tell, as the end of a sentence.
    pub fn of(sysfs: &Sysfs, drive: u64) -> Result<DriveRequests, &'static str> {
        let disk = sysfs.disk(drive);
        let iostats = disk.and_then(|disk| read(&disk.join("queue/iostats")));
        // The counters can be read then, but never move.
        if iostats.as_deref() == Some("0") {
            return Err("the kernel does not count its requests: queue/iostats is 0");
        }
        DriveRequests::counted(sysfs, drive).ok_or("sysfs has no counters of its requests")
    }

    fn counted(sysfs: &Sysfs, drive: u64) -> Option<DriveRequests> {
        let writes = sysfs.write_counters(drive)?;
        Some(DriveRequests {
            completed: sysfs.reads(drive)?.saturating_add(writes.requests),
            in_flight: writes.in_flight.saturating_add(writes.reads_in_flight),
        })
    }
}

/// Looks at a drive for a fifth of a second.
///
/// # Errors
/// Why it is not known to be idle.
pub fn ensure_idle(sysfs: &Sysfs, drive: u64) -> Result<(), NotIdle> {
    let count = || DriveRequests::of(sysfs, drive).map_err(NotIdle::Unknown);
    let before = count()?;
    std::thread::sleep(LOOK);
    match judge(before, count()?) {
        None => Ok(()),
        Some(why) => Err(NotIdle::Busy(why)),
    }
}

fn judge(before: DriveRequests, after: DriveRequests) -> Option<String> {
    let requests = after.completed.saturating_sub(before.completed);
    let in_flight = before.in_flight.min(after.in_flight);
    (requests > MOST_REQUESTS || in_flight > 0).then(|| {
        format!(
            "{requests} requests of others in {} ms, {in_flight} in flight",
            LOOK.as_millis()
        )
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    #[test]
    fn requests_are_counted_and_a_few_are_idle() {
        let stat =
            "  131201    32148  7052874    52319   258131    53806 23701296   124717        0";
        let count = |stat, inflight| {
            let (_root, sysfs) = fake(
                &[("8:0", "sda")],
                &[
                    ("devices/sda/stat", stat),
                    ("devices/sda/inflight", inflight),
                ],
            );
            DriveRequests::of(&sysfs, makedev(8, 0))
        };
        let idle = count(stat, "       0        0\n").unwrap();
        assert_eq!((idle.completed, idle.in_flight), (131_201 + 258_131, 0));
        assert_eq!(count(stat, "       2        3\n").unwrap().in_flight, 5);
        assert!(count(stat, "x").is_err());
        assert!(count("1 2 3", "0 0").is_err());
        let later = |completed, in_flight| DriveRequests {
            completed: idle.completed + completed,
            in_flight,
        };
        assert_eq!(judge(idle, later(4, 1)), None);
        let why = judge(idle, later(5, 0)).unwrap();
        assert!(why.starts_with("5 requests"), "{why}");
        assert!(
            judge(later(0, 2), later(0, 1))
                .unwrap()
                .ends_with("1 in flight")
        );
        // A drive that was attached anew counts from 0.
        assert_eq!(judge(later(9, 0), idle), None);
    }

    #[test]
    fn a_drive_whose_requests_are_not_counted_is_not_taken_to_be_idle() {
        let sysfs_with = |iostats| {
            fake(
                &[("8:0", "sda"), ("8:16", "sdb")],
                &[
                    ("devices/sda/stat", "1 0 8 1 2 0 16 1 0 2 2\n"),
                    ("devices/sda/inflight", "       0        0\n"),
                    ("devices/sda/queue/iostats", iostats),
                ],
            )
        };
        let (_root, sysfs) = sysfs_with("1\n");
        assert_eq!(ensure_idle(&sysfs, makedev(8, 0)), Ok(()));
        let why = |sysfs: &Sysfs, drive| match ensure_idle(sysfs, drive) {
            Err(NotIdle::Unknown(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(&sysfs, makedev(8, 16)).contains("no counters"));
        let (_root, sysfs) = sysfs_with("0\n");
        assert!(why(&sysfs, makedev(8, 0)).contains("iostats is 0"));
    }
}
