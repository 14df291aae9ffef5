//! The outcome.

use std::os::fd::OwnedFd;

use rustix::process::Pid;

/// A process that has become an app.
#[derive(Debug)]
pub struct AnnouncedLaunch {
    /// The process, in this process's pid namespace.
    pub pid: Pid,
    /// The very process: it becomes readable when the process has ended.
    pub pidfd: OwnedFd,
    /// When it was forked: clock ticks after boot, field 22 of /proc/PID/stat. With `pid` it names
    /// this very process, also in the kernel's events.
    pub start_time: u64,
    /// Real user id of whoever announced it. 0 for [`super::File`].
    pub uid: u32,
    /// The name, in the alphabet of [`super::parse`].
    pub name: String,
}

impl AnnouncedLaunch {
    /// Under which name the app is managed: `announced:NAME` when root said so,
    /// `announced:UID:NAME` otherwise, so that users touch neither each other's profiles nor
    /// root's. Names hold no colon, so no two of these are equal by accident.
    pub fn identity(&self) -> String {
        match self.uid {
            0 => format!("announced:{}", self.name),
            uid => format!("announced:{uid}:{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: u32, name: &str) -> String {
        AnnouncedLaunch {
            pid: rustix::process::getpid(),
            pidfd: std::fs::File::open("/dev/null").unwrap().into(),
            start_time: 0,
            uid,
            name: name.into(),
        }
        .identity()
    }

    #[test]
    fn users_have_names_of_their_own() {
        assert_eq!(
            identity(0, "org.example.Mail"),
            "announced:org.example.Mail"
        );
        assert_eq!(identity(1000, "mail"), "announced:1000:mail");
        assert_ne!(identity(1000, "mail"), identity(1001, "mail"));
    }
}
