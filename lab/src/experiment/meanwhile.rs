//! When an app's window comes while the main thread does something else.

use std::io::pipe;
use std::os::fd::AsFd;
use std::thread;

use anyhow::{Result, anyhow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::display::Watch;

/// Calls `act`, and looks for the window until it returns. Its result, and when the window was mapped, CLOCK_MONOTONIC
/// in nanoseconds, if it was.
///
/// # Errors
/// When the X server has gone.
pub(super) fn window_during<T>(
    watch: Option<Watch>,
    act: impl FnOnce() -> T,
) -> Result<(T, Option<u64>)> {
    let Some(mut watch) = watch else {
        return Ok((act(), None));
    };
    let (over, end) = pipe()?;
    thread::scope(|scope| {
        let looker = scope.spawn(move || -> Result<Option<u64>> {
            loop {
                if let Some(window) = watch.poll()? {
                    return Ok(Some(window.at_ns));
                }
                let (events, over) = (watch.fd(), over.as_fd());
                let mut fds = [&events, &over].map(|fd| PollFd::new(fd, PollFlags::IN));
                match poll(&mut fds, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                if !fds[1].revents().is_empty() {
                    return Ok(watch.poll()?.map(|window| window.at_ns));
                }
            }
        });
        let done = act();
        drop(end);
        let window_ns = looker
            .join()
            .map_err(|_| anyhow!("looking for the window has panicked"))??;
        Ok((done, window_ns))
    })
}
