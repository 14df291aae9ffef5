//! The waits of a command and of what it starts.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::cli::output_file;
use paralfetch::kernel::TraceError;
use paralfetch::process::{Command, Exit, Spawn, Supervisor, User};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::getpid;

use super::args::WaitsArgs;
use super::{json, said_columns, say, say_all, text};
use crate::{SeenWaits, WaitLog, WaitOptions};

/// Time between two looks. Short, since a command may close a file and end right after it has waited.
const LOOK: Duration = Duration::from_millis(25);

/// Rows of each table.
const MOST_ROWS: usize = 20;

/// Starts the command, reports its waits when it has ended, and ends as it ended.
pub fn main(args: &WaitsArgs) -> Result<()> {
    let user = User::invoking();
    let command = Command::find_for(&args.cmd, args.root.as_deref(), user.as_ref())?;
    let mut supervisor = Supervisor::new()?;
    let file = match &args.json {
        Some(Some(path)) => Some((path, created(path)?)),
        _ => None,
    };
    // Ours are not counted, and nothing else that we start waits.
    let options = WaitOptions {
        least: args.least,
        only: Some(getpid()),
    };
    let _measured = args.cost.then(super::measure_programs);
    let log = WaitLog::start(&options, true)?;
    let spawn = Spawn {
        user,
        ..Spawn::new(command)
    };
    supervisor.start(spawn)?;
    let (exit, seen) = follow(&mut supervisor, log)?;
    match (seen, file) {
        (Err(error), _) => say(&format!("{error}; there is no report")),
        // The command has ended, and its status counts: a failure to write is only said.
        (Ok(seen), Some((path, mut file))) => {
            if let Err(error) = file.write_all(json_lines(&seen).as_bytes()) {
                say(&format!("cannot write {}: {error}", path.display()));
            }
        }
        (Ok(seen), None) if args.json.is_some() => {
            let _ = io::stderr().write_all(json_lines(&seen).as_bytes());
        }
        (Ok(seen), None) => {
            let columns = said_columns();
            say_all(&report(&seen, args.cost, columns), columns);
        }
    }
    exit.finish()
}

/// Makes the file before the command is started: an unwritable one is known early.
fn created(path: &Path) -> Result<File> {
    output_file::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Supervises the command to its end. A detector that fails meanwhile does not end it.
fn follow(
    supervisor: &mut Supervisor,
    mut log: WaitLog,
) -> Result<(Exit, Result<SeenWaits, TraceError>)> {
    loop {
        let timeout = Timespec::try_from(LOOK)?;
        let signals = supervisor.signal_fd();
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let exit = supervisor.on_signals()?;
        if let Err(error) = log.look(Duration::ZERO) {
            let exit = exit.map_or_else(|| supervisor.wait(), Ok)?;
            return Ok((exit, Err(error)));
        }
        if let Some(exit) = exit {
            return Ok((exit, log.finish()));
        }
    }
}

fn report(seen: &SeenWaits, with_cost: bool, columns: Option<usize>) -> Vec<String> {
    let watched = text::watched(seen);
    let mut lines = vec![text::summary(&seen.totals, &seen.names, watched)];
    let rows = MOST_ROWS;
    let size = text::WaitTableSize { rows, columns };
    lines.extend(text::tables(&seen.totals, &seen.names, size));
    lines.extend(text::caveats(seen.lost, &seen.missing));
    lines.extend(with_cost.then(|| text::cost(seen)));
    lines
}

fn json_lines(seen: &SeenWaits) -> String {
    let waits = seen.waits.iter();
    let lines = waits.map(|wait| json::wait(wait, &seen.names));
    let totals = json::totals(seen, seen.waits.len() as u64);
    lines
        .chain([totals])
        .map(|line| format!("{line}\n"))
        .collect()
}
