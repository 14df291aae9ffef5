//! A login as a launch: what the processes of a user's sessions read from the moment that a session at a seat is open until
//! the desktop is quiet.
//!
//! systemd starts these processes, so that no execve begins it: they are those in the user's slice of the control groups, and
//! what they start.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use super::marks::Marks;
use super::registry::{Added, Record};
use crate::fs::mounts::MountTable;
use crate::fs::virtual_file;
use crate::model::{App, UserApp};
use crate::process::cgroup_directory;
use crate::shield::People;

/// Under what each user's logins are managed: as a name, it has a colon.
pub const ID: &str = "login:session";

/// What people call it.
const TITLE: &str = "login";

/// Cgroups of a user that are looked into, and processes that are taken from them. He may have made thousands.
const MOST_CGROUPS: usize = 256;
const MOST_PROCESSES: usize = 1024;

/// Whether this is a user's login.
pub fn is_login(key: &UserApp) -> bool {
    key.id == ID
}

/// The logins of a user, as the service keeps them.
pub fn key(uid: u32) -> UserApp {
    UserApp::new(uid, ID)
}

/// The logins of a user as what their profile belongs to: no file is their executable.
pub fn app(uid: u32) -> App {
    App {
        uid,
        path: ID.into(),
        ..App::default()
    }
}

/// The record of a user's logins before the first.
pub fn record(uid: u32) -> Record {
    Record::new(key(uid), TITLE.to_owned(), Added::Login, Marks::default())
}

/// The processes in a user's slice, the outer cgroups' first. None where there is no such cgroup of version 2.
pub fn processes(mounts: &MountTable, uid: u32) -> Vec<i32> {
    let slice = format!("/user.slice/user-{uid}.slice");
    let directory = cgroup_directory(mounts, Path::new(&slice));
    directory.map_or_else(Vec::new, |directory| processes_below(&directory))
}

fn processes_below(directory: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    let mut directories = VecDeque::from([directory.to_owned()]);
    let mut looked_into = 0;
    while let Some(directory) = directories.pop_front() {
        // Of a cgroup that is gone meanwhile, or whose threads are told apart, nothing is to be had.
        let read = virtual_file::read(directory.join("cgroup.procs")).unwrap_or_default();
        let pids = read.split(|&byte| byte == b'\n');
        let pids = pids.filter_map(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
        // 0 stands for a process that this process does not see.
        found.extend(pids.filter(|&pid: &i32| pid > 0));
        looked_into += 1;
        if looked_into + directories.len() >= MOST_CGROUPS {
            continue;
        }
        let below = fs::read_dir(&directory).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let room = MOST_CGROUPS - looked_into - directories.len();
        directories.extend(below.take(room).map(|entry| entry.path()));
    }
    found.truncate(MOST_PROCESSES);
    found
}

/// The people at the system's seats. Who has logged in over a network has no desktop here.
pub struct Seats {
    people: People,
    /// Who was there at the last look.
    seated: Vec<u32>,
}

/// Who came to a seat, and who left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SeatChanges {
    pub came: Vec<u32>,
    pub left: Vec<u32>,
}

impl Seats {
    /// The people who are there now have logged in before.
    pub fn new(people: People) -> Self {
        let seated = people.at_seats();
        Seats { people, seated }
    }

    /// What has changed since the last look.
    pub fn changes(&mut self) -> SeatChanges {
        let before = std::mem::replace(&mut self.seated, self.people.at_seats());
        let without = |users: &[u32], others: &[u32]| {
            let users = users.iter().filter(|uid| !others.contains(uid));
            users.copied().collect()
        };
        SeatChanges {
            came: without(&self.seated, &before),
            left: without(&before, &self.seated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_all_cgroups_below_a_slice_are_found_within_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let put = |cgroup: &str, processes: &str| {
            let cgroup = dir.path().join(cgroup);
            fs::create_dir_all(&cgroup).unwrap();
            fs::write(cgroup.join("cgroup.procs"), processes).unwrap();
        };
        put("", "");
        put("user@1000.service/app.slice/app.service", "30\n31\n");
        put("session-2.scope", "0\n10\nx\n-4\n");
        fs::create_dir(dir.path().join("gone")).unwrap();
        assert_eq!(processes_below(dir.path()), [10, 30, 31]);
        assert!(processes_below(&dir.path().join("missing")).is_empty());
        for number in 0..2 * MOST_CGROUPS {
            put(&format!("many/{number}"), "7\n8\n9\n10\n11\n");
        }
        let found = processes_below(dir.path());
        assert!(found.contains(&10), "the outer ones come first");
        // Five of them have no process of the many.
        assert_eq!(found.len(), MOST_PROCESSES);
        let many = processes_below(&dir.path().join("many/0"));
        assert_eq!(many.len(), 5);
    }

    #[test]
    fn who_comes_to_a_seat_logs_in_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let user = |uid: &str, text: &str| fs::write(dir.path().join(uid), text).unwrap();
        user("1000", "STATE=active\nONLINE_SEATS=seat0\n");
        let mut seats = Seats::new(People {
            users: dir.path().to_owned(),
            ..People::default()
        });
        assert_eq!(seats.changes(), SeatChanges::default());
        user("1001", "STATE=active\nONLINE_SEATS=\n");
        user("1002", "STATE=opening\nONLINE_SEATS=seat0\n");
        user("0", "STATE=active\nONLINE_SEATS=seat0\n");
        user("120", "STATE=active\nONLINE_SEATS=seat0\n");
        assert_eq!(seats.changes(), SeatChanges::default());
        user("1000", "STATE=lingering\n");
        user("1001", "STATE=online\nONLINE_SEATS=seat0\n");
        let expected = SeatChanges {
            came: vec![1001],
            left: vec![1000],
        };
        assert_eq!(seats.changes(), expected);
        assert_eq!(seats.changes(), SeatChanges::default());
    }
}
