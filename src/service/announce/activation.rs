//! Descriptors that systemd passed, as sd_listen_fds(3) describes them.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};

use super::AnnounceError;

/// SD_LISTEN_FDS_START: the first descriptor behind the standard ones.
const START: RawFd = 3;
/// More than any unit of ours passes.
const MAX_FDS: RawFd = 64;
/// What sd_listen_fds_with_names(3) calls a descriptor without a name.
const UNNAMED: &str = "unknown";

/// A descriptor that systemd passed.
#[derive(Debug)]
pub struct Passed {
    /// `FileDescriptorName=` of the socket unit; the unit's name by default.
    pub name: String,
    /// The descriptor; programs that this process executes do not get it.
    pub fd: OwnedFd,
}

/// Takes over the descriptors that systemd passed to this process; none if it did not start it
/// through a socket unit, or at a further call. The environment stays as it is: it names this
/// process, so children do not take it for theirs.
///
/// # Errors
/// When the environment contradicts itself or the descriptors; then nothing is taken over.
pub fn passed() -> Result<Vec<Passed>, AnnounceError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| std::env::var(name).ok();
    let names = described(
        rustix::process::getpid().as_raw_nonzero().get(),
        variable("LISTEN_PID").as_deref(),
        variable("LISTEN_FDS").as_deref(),
        variable("LISTEN_FDNAMES").as_deref(),
    )
    .map_err(AnnounceError::Activation)?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let numbered: Vec<(RawFd, String)> = (START..).zip(names).collect();
    for (fd, _) in &numbered {
        check_open(*fd)?;
    }
    numbered
        .into_iter()
        .map(|(fd, name)| {
            // SAFETY: it is open. Whoever executed this very process says so in LISTEN_PID and left
            // it to us, and no other call takes it.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            fcntl_setfd(&fd, FdFlags::CLOEXEC)
                .map_err(|error| AnnounceError::Receive(error.into()))?;
            Ok(Passed { name, fd })
        })
        .collect()
}

fn check_open(fd: RawFd) -> Result<(), AnnounceError> {
    // SAFETY: no memory is passed, and the call changes nothing.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        let text = format!("LISTEN_FDS counts descriptor {fd}, which is not open");
        return Err(AnnounceError::Activation(text));
    }
    Ok(())
}

/// The names of the descriptors, in order from [`START`].
fn described(
    own_pid: i32,
    pid: Option<&str>,
    fds: Option<&str>,
    names: Option<&str>,
) -> Result<Vec<String>, String> {
    let (Some(pid), Some(fds)) = (pid, fds) else {
        return Ok(Vec::new());
    };
    let for_pid: i32 = pid
        .parse()
        .map_err(|_| format!("LISTEN_PID={pid} is not a process id"))?;
    // Meant for a parent of ours.
    if for_pid != own_pid {
        return Ok(Vec::new());
    }
    let count = fds
        .parse()
        .ok()
        .filter(|count| (0..=MAX_FDS).contains(count))
        .ok_or_else(|| format!("LISTEN_FDS={fds} is not a number from 0 to {MAX_FDS}"))?;
    let Some(names) = names else {
        return Ok((0..count).map(|_| UNNAMED.to_owned()).collect());
    };
    let names: Vec<String> = match count {
        0 => Vec::new(),
        _ => names.split(':').map(str::to_owned).collect(),
    };
    if names.len() != count as usize {
        return Err(format!(
            "LISTEN_FDNAMES names {} descriptors, and LISTEN_FDS counts {count}",
            names.len()
        ));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_order() {
        let names = described(7, Some("7"), Some("2"), Some("launch:bus")).unwrap();
        assert_eq!(names, ["launch", "bus"]);
        let names = described(7, Some("7"), Some("2"), None).unwrap();
        assert_eq!(names, ["unknown", "unknown"]);
        assert!(
            described(7, Some("7"), Some("0"), Some(""))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn nothing_is_passed_to_others() {
        for (pid, fds) in [
            (None, None),
            (Some("7"), None),
            (None, Some("1")),
            (Some("8"), Some("1")),
        ] {
            assert!(described(7, pid, fds, None).unwrap().is_empty());
        }
    }

    #[test]
    fn contradictions() {
        for (pid, fds, names) in [
            ("x", "1", "a"),
            ("7", "x", "a"),
            ("7", "-1", "a"),
            ("7", "65", "a"),
            ("7", "2", "a"),
            ("7", "1", "a:b"),
        ] {
            let error = described(7, Some(pid), Some(fds), Some(names)).unwrap_err();
            assert!(error.starts_with("LISTEN_"), "{error}");
        }
    }

    #[test]
    fn the_test_harness_was_not_started_by_a_socket_unit() {
        assert!(passed().unwrap().is_empty());
    }
}
