//! Hears of logins, logouts and the end of a suspend. While neither happens, nothing runs for it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::state::WarmUpOccasion;

/// The year 2200, in seconds since the epoch: the timer is never to ring.
const NEVER_S: i64 = 7_258_118_400;

/// What is listened to.
pub struct Occasions {
    /// logind's files, one for each user; `None` where there is no logind.
    users: Option<OwnedFd>,
    /// A timer by the time of day that is cancelled when that jumps, as at the end of a suspend.
    clock: Option<OwnedFd>,
}

impl Occasions {
    /// Begins to listen. The second value says what cannot be heard.
    pub fn listen(users: &Path) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut keep = |what: &str, opened: io::Result<Option<OwnedFd>>| {
            opened.unwrap_or_else(|error| {
                warnings.push(format!("{what} are not heard of: {error}"));
                None
            })
        };
        let occasions = Occasions {
            users: keep("logins", watch(users)),
            clock: keep("ends of a suspend", timer().map(Some)),
        };
        (occasions, warnings)
    }

    /// Listens to logins from now on if that was not possible before.
    pub fn listen_again(&mut self, users: &Path) {
        if self.users.is_none() {
            // What is wrong was said at the start.
            self.users = watch(users).ok().flatten();
        }
    }

    /// Readable when something has happened.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let all = [self.users.as_ref(), self.clock.as_ref()];
        all.into_iter().flatten().map(AsFd::as_fd)
    }

    /// What has happened since the last call.
    ///
    /// # Errors
    /// When it cannot be read; that is not heard of any more.
    pub fn take(&mut self) -> io::Result<Vec<WarmUpOccasion>> {
        let mut found = Vec::new();
        if let Some(users) = &self.users {
            match changes(users) {
                Ok(changes) => {
                    found.extend(changes.any.then_some(WarmUpOccasion::Login));
                    self.users.take_if(|_| changes.is_gone);
                }
                Err(error) => {
                    self.users = None;
                    return Err(error);
                }
            }
        }
        let mut expirations = [0; 8];
        let clock = self.clock.as_ref();
        match clock.map(|clock| rustix::io::read(clock, &mut expirations)) {
            None | Some(Err(Errno::AGAIN | Errno::INTR)) => {}
            // It was cancelled, and is to be set anew.
            Some(Err(Errno::CANCELED)) => {
                self.clock = Some(timer()?);
                found.push(WarmUpOccasion::Resumed);
            }
            // Nobody has that much patience.
            Some(Ok(_)) => self.clock = None,
            Some(Err(error)) => {
                self.clock = None;
                return Err(error.into());
            }
        }
        Ok(found)
    }
}

fn watch(users: &Path) -> io::Result<Option<OwnedFd>> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // logind writes by rename.
    let changes =
        WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
    match inotify::add_watch(&inotify, users, changes) {
        Ok(_) => Ok(Some(inotify)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn timer() -> io::Result<OwnedFd> {
    let timer = timerfd_create(
        TimerfdClockId::Realtime,
        TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
    )?;
    let at = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
    let never = Itimerspec {
        it_interval: at(0),
        it_value: at(NEVER_S),
    };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, flags, &never)?;
    Ok(timer)
}

/// What happened to the watched directory since the last call.
#[derive(Default)]
struct Changes {
    /// A file in it was replaced, written or removed.
    any: bool,
    /// The directory is gone, and nothing is heard of another one in its place.
    is_gone: bool,
}

fn changes(inotify: &OwnedFd) -> io::Result<Changes> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(inotify, &mut buffer);
    let mut changes = Changes::default();
    loop {
        match reader.next() {
            Err(Errno::AGAIN) => return Ok(changes),
            Err(Errno::INTR) => {}
            Ok(event) if event.events().contains(ReadFlags::IGNORED) => changes.is_gone = true,
            Ok(_) => changes.any = true,
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_users_file_that_is_replaced_or_removed_may_be_a_login_or_logout() {
        let dir = tempfile::tempdir().unwrap();
        let (mut occasions, warnings) = Occasions::listen(dir.path());
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(occasions.fds().count(), 2);
        assert_eq!(occasions.take().unwrap(), []);
        let user = dir.path().join("1000");
        fs::write(dir.path().join(".new"), "STATE=active\n").unwrap();
        fs::rename(dir.path().join(".new"), &user).unwrap();
        assert_eq!(occasions.take().unwrap(), [WarmUpOccasion::Login]);
        fs::remove_file(&user).unwrap();
        assert_eq!(occasions.take().unwrap(), [WarmUpOccasion::Login]);
        assert_eq!(occasions.take().unwrap(), []);
    }

    #[test]
    fn logind_may_come_later() {
        let dir = tempfile::tempdir().unwrap();
        let users = dir.path().join("users");
        let (mut occasions, warnings) = Occasions::listen(&users);
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(occasions.take().unwrap(), []);
        fs::create_dir(&users).unwrap();
        occasions.listen_again(&users);
        fs::write(users.join("1000"), "STATE=active\n").unwrap();
        assert_eq!(occasions.take().unwrap(), [WarmUpOccasion::Login]);
        fs::remove_dir_all(&users).unwrap();
        assert_eq!(occasions.take().unwrap(), [WarmUpOccasion::Login]);
        fs::create_dir(&users).unwrap();
        occasions.listen_again(&users);
        fs::write(users.join("1000"), "STATE=active\n").unwrap();
        assert_eq!(occasions.take().unwrap(), [WarmUpOccasion::Login]);
    }
}
