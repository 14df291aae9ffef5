//! Whether somebody is logged in, and whose tasks wait for drives.

use std::fs;
use std::path::PathBuf;

use crate::model::is_person;

/// Tasks wait if some of them did so for this share of the last 10 s, in percent (PSI, `avg10`).
const WAITS: f64 = 1.0;

/// Where the system says who is there and who waits.
#[derive(Clone, Debug)]
pub struct People {
    /// logind's files, one for each user who is logged in.
    pub users: PathBuf,
    /// systemd's cgroup of all sessions, with one cgroup (`user-UID.slice`) for each user.
    pub slices: PathBuf,
    /// The kernel's report for the whole system, which counts where there are no such cgroups.
    pub pressure: PathBuf,
}

impl Default for People {
    /// The people of the running system.
    fn default() -> Self {
        People {
            users: "/run/systemd/users".into(),
            slices: "/sys/fs/cgroup/user.slice".into(),
            pressure: "/proc/pressure/io".into(),
        }
    }
}

impl People {
    /// Whether a person is logged in. Users whose services linger behind them are not.
    pub(super) fn is_one_logged_in(&self) -> bool {
        self.users_logged_in().next().is_some()
    }

    /// The people who are logged in.
    pub fn logged_in(&self) -> Vec<u32> {
        self.users_logged_in().collect()
    }

    /// The people who have a session at a seat of this system, in ascending order.
    pub fn at_seats(&self) -> Vec<u32> {
        let sessions = self.sessions().filter(|(_, text)| has_seat(text));
        let mut users: Vec<u32> = sessions.map(|(uid, _)| uid).collect();
        users.sort_unstable();
        users
    }

    fn users_logged_in(&self) -> impl Iterator<Item = u32> {
        self.sessions().map(|(uid, _)| uid)
    }

    /// The people who are logged in, with what logind says of each.
    fn sessions(&self) -> impl Iterator<Item = (u32, String)> {
        let users = fs::read_dir(&self.users).into_iter().flatten().flatten();
        users.filter_map(|user| {
            let uid = user.file_name().to_str()?.parse().ok();
            let uid = uid.filter(|&uid| is_person(uid))?;
            let text = fs::read_to_string(user.path()).ok()?;
            is_logged_in(&text).then_some((uid, text))
        })
    }

    /// The users whose sessions wait for drives; `None` is the whole system, if its sessions are not told apart.
    pub(super) fn who_waits(&self) -> Vec<Option<u32>> {
        let slices = fs::read_dir(&self.slices).into_iter().flatten().flatten();
        let reports: Vec<(u32, f64)> = slices
            .filter_map(|slice| {
                let name = slice.file_name();
                let uid = name
                    .to_str()?
                    .strip_prefix("user-")?
                    .strip_suffix(".slice")?;
                let uid = uid.parse().ok().filter(|&uid| is_person(uid))?;
                let text = fs::read_to_string(slice.path().join("io.pressure")).ok()?;
                Some((uid, some_waited(&text)?))
            })
            .collect();
        if !reports.is_empty() {
            let waiting = reports.into_iter().filter(|(_, share)| *share >= WAITS);
            return waiting.map(|(uid, _)| Some(uid)).collect();
        }
        let of_system = fs::read_to_string(&self.pressure).unwrap_or_default();
        match some_waited(&of_system) {
            Some(share) if share >= WAITS => vec![None],
            _ => Vec::new(),
        }
    }
}

/// Whether logind says that a user has a session.
fn is_logged_in(text: &str) -> bool {
    matches!(value(text, "STATE"), Some("active" | "online"))
}

/// Whether a session of a user that is not being closed has a seat.
fn has_seat(text: &str) -> bool {
    value(text, "ONLINE_SEATS").is_some_and(|seats| !seats.is_empty())
}

/// What logind's file says under a name.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The share of the last 10 s in which some task waited, in percent (Documentation/accounting/psi.rst).
fn some_waited(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let share = some
        .split(' ')
        .find_map(|word| word.strip_prefix("avg10="))?;
    share.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::{TempDir, tempdir};

    use super::*;

    fn people() -> (TempDir, People) {
        let dir = tempdir().unwrap();
        let people = People {
            users: dir.path().join("users"),
            slices: dir.path().join("slices"),
            pressure: dir.path().join("pressure"),
        };
        (dir, people)
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn people_who_have_a_session_are_logged_in() {
        let (_dir, people) = people();
        assert!(!people.is_one_logged_in(), "there is no logind");
        for (user, text) in [
            ("0", "NAME=root\nSTATE=active\n"),
            ("120", "NAME=gdm\nSTATE=active\n"),
            ("65534", "STATE=active\n"),
            ("1001", "NAME=anna\nSTATE=lingering\n"),
            ("x", "STATE=active\n"),
        ] {
            write(&people.users.join(user), text);
            assert!(!people.is_one_logged_in(), "{user}");
        }
        for user in ["1000", "1184400500"] {
            let file = people.users.join(user);
            write(&file, "NAME=berta\nSTATE=online\n");
            assert!(people.is_one_logged_in(), "{user}");
            assert_eq!(people.logged_in(), [user.parse::<u32>().unwrap()]);
            fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn the_report_of_a_session_counts_where_there_is_one() {
        let (_dir, people) = people();
        let report =
            |share| format!("some avg10={share} avg60=0.00 avg300=0.00 total=7\nfull avg10=9.00\n");
        assert!(people.who_waits().is_empty(), "there are no reports");
        write(&people.pressure, &report("0.99"));
        assert!(people.who_waits().is_empty());
        write(&people.pressure, &report("12.50"));
        assert_eq!(people.who_waits(), [None]);
        let slice = |name: &str| people.slices.join(name).join("io.pressure");
        write(&slice("user-1000.slice"), &report("0.00"));
        write(&slice("user-120.slice"), &report("50.00"));
        write(&slice("session.scope"), &report("50.00"));
        assert!(people.who_waits().is_empty(), "no person waits");
        write(&slice("user-1001.slice"), &report("3.10"));
        assert_eq!(people.who_waits(), [Some(1001)]);
    }
}
