//! The waits of the whole system as they happen.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use paralfetch::cli::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::args::WaitsArgs;
use super::{json, say, text};
use crate::{WaitLog, WaitOptions};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Time between two frames.
const FRAME: Duration = Duration::from_secs(1);

/// Rows of each table where no terminal bounds them.
const MOST_ROWS: usize = 20;

/// Waits under way that a frame shows.
const MOST_UNDER_WAY: usize = 4;

/// How waits are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Face {
    /// Tables that are drawn again and again.
    Frames,
    /// A line for each wait that has ended.
    Lines,
    /// The line as JSON.
    Json,
}

/// Watches until a signal comes, the time is over, or nobody reads any more.
pub fn main(args: &WaitsArgs) -> Result<()> {
    let face = match args.json {
        Some(Some(_)) => {
            let why = "--json=FILE is for a command: redirect standard output";
            let kind = ErrorKind::ArgumentConflict;
            WaitsArgs::command().error(kind, why).exit()
        }
        Some(None) => Face::Json,
        None if terminal::draws(&io::stdout()) => Face::Frames,
        None => Face::Lines,
    };
    // These end watching, with the totals.
    let to_end: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    to_end.thread_block()?;
    let signals = SignalFd::with_flags(&to_end, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let options = WaitOptions {
        least: args.least,
        only: None,
    };
    let _measured = args.cost.then(super::measure_programs);
    let mut log = WaitLog::start(&options, false)?;
    if face == Face::Lines {
        let missing = text::caveats(0, &log.seen().missing);
        missing.iter().for_each(|line| say(line));
    }
    let begun = Instant::now();
    let mut next_frame = begun;
    let mut is_read = true;
    while is_read {
        let left = match args.duration {
            Some(duration) => duration.saturating_sub(begun.elapsed()),
            None => LOOK,
        };
        if left.is_zero() || is_readable(signals.as_fd(), left.min(LOOK))? {
            break;
        }
        let ended = log.look(Duration::ZERO)?;
        let names = &log.seen().names;
        is_read = match face {
            Face::Json => emit(ended.iter().map(|wait| json::wait(wait, names).to_string()))?,
            Face::Lines => {
                let since_ns = log.seen().since_ns;
                emit(ended.iter().map(|wait| text::line(wait, since_ns, names)))?
            }
            Face::Frames if Instant::now() >= next_frame => {
                next_frame += FRAME;
                draw(&log, begun.elapsed())?
            }
            Face::Frames => true,
        };
    }
    // Otherwise they would end this process as soon as it no longer blocks them.
    while signals.read_signal()?.is_some() {}
    to_end.thread_unblock()?;
    close(face, log, args.cost)
}

/// Prints the totals.
fn close(face: Face, log: WaitLog, with_cost: bool) -> Result<()> {
    // Those that are still under way have had no line.
    let ended = log.seen().totals.all.count;
    let seen = log.finish()?;
    let watched = text::watched(&seen);
    if face == Face::Json {
        emit([json::totals(&seen, ended).to_string()])?;
        return Ok(());
    }
    let summary = text::summary(&seen.totals, &seen.names, watched);
    let mut lines = terminal::wrapped(&summary, terminal::columns(), 2);
    let size = text::WaitTableSize {
        rows: MOST_ROWS,
        columns: terminal::columns(),
    };
    lines.extend(text::tables(&seen.totals, &seen.names, size));
    lines.extend(with_cost.then(|| text::cost(&seen)));
    if face == Face::Frames {
        lines.extend(text::caveats(seen.lost, &seen.missing));
        // The whole of it, even if the screen is smaller.
        let whole = (usize::MAX, usize::MAX);
        return write_while_read(&frame(&lines, whole)).map(|_| ());
    }
    lines.extend(text::caveats(seen.lost, &[]));
    emit(lines).map(|_| ())
}

/// Draws what was seen so far, and who waits now.
fn draw(log: &WaitLog, watched: Duration) -> Result<bool> {
    let seen = log.seen();
    let under_way = log.waiting()?;
    let totals = seen.totals.with(&under_way);
    let size = terminal::size();
    let summary = text::summary(&totals, &seen.names, watched);
    let mut lines = terminal::wrapped(&summary, Some(size.1), 2);
    lines.push(format!("waiting now: {}", under_way.len()));
    let shown = under_way.iter().take(MOST_UNDER_WAY);
    lines.extend(shown.map(|wait| text::line(wait, seen.since_ns, &seen.names)));
    lines.extend(text::caveats(log.lost(), &[]));
    // Three tables with a head, a line for further rows, and a line for the cursor.
    let left = size.0.saturating_sub(lines.len() + 1);
    let rows = (left / 3).saturating_sub(2).max(1);
    let columns = Some(size.1);
    let table = text::WaitTableSize { rows, columns };
    lines.extend(text::tables(&totals, &seen.names, table));
    write_while_read(&frame(&lines, size))
}

/// Prints lines; false if nobody reads them any more.
fn emit(lines: impl IntoIterator<Item = String>) -> Result<bool> {
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    write_while_read(&text)
}

/// Prints a text; false if nobody reads standard output any more.
fn write_while_read(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// The text that draws these lines over what was drawn before, cut to the terminal's size. Nothing has to be
/// restored afterwards: the last frame stays.
fn frame(lines: &[String], (rows, columns): (usize, usize)) -> String {
    // The cursor needs the last row.
    let shown = lines.iter().take(rows.saturating_sub(1).max(1));
    let mut text = String::from("\x1b[H");
    for line in shown {
        text.extend(line.chars().take(columns));
        // Clears to the end of the line.
        text.push_str("\x1b[K\n");
    }
    // Clears what is below.
    text.push_str("\x1b[J");
    text
}

/// Waits until the descriptor can be read, but no longer than so.
fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> Result<bool> {
    let timeout = Timespec::try_from(timeout)?;
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_into_the_terminal() {
        let lines: Vec<String> = (0..9).map(|row| format!("{row}äöü")).collect();
        assert_eq!(frame(&lines, (3, 2)), "\x1b[H0ä\x1b[K\n1ä\x1b[K\n\x1b[J");
        assert_eq!(frame(&[], (3, 2)), "\x1b[H\x1b[J");
    }
}
