//! Talking with a child process in lines, each answer within a bound.

use std::io::{BufRead, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::child::{die_with_parent, end, ended_within};

/// What a child says first when it is ready.
pub const READY: &str = "ready";

/// How long a child may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(30);

/// A child that is spoken with. Killed when this is dropped.
#[derive(Debug)]
pub struct Dialogue {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    heard: Vec<u8>,
}

impl Dialogue {
    /// Starts the child, and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it does not start, or is not ready within `limit`.
    pub fn start(mut command: Command, limit: Duration) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        die_with_parent(&mut command, &[]);
        let mut child = command.spawn().context("cannot start a child")?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let from = from.context("no pipe from the child")?;
        let mut dialogue = Dialogue {
            child,
            to,
            from,
            heard: Vec::new(),
        };
        let said = dialogue.hear(limit)?;
        if said != READY {
            bail!("the child is not ready, but said: {said}");
        }
        Ok(dialogue)
    }

    /// Process id of the child.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Says a line to it.
    ///
    /// # Errors
    /// When it has ended.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let to = self.to.as_mut().context("the child was asked to end")?;
        writeln!(to, "{line}").context("the child does not listen: has it ended?")
    }

    /// The next line that it says.
    ///
    /// # Errors
    /// When it says none within `limit`, or has ended.
    pub fn hear(&mut self, limit: Duration) -> Result<String> {
        let begun = Instant::now();
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let left = Timespec::try_from(limit.saturating_sub(begun.elapsed()))?;
            match poll(
                &mut [PollFd::new(&self.from.as_fd(), PollFlags::IN)],
                Some(&left),
            ) {
                Ok(0) => bail!("a child has said nothing for {} s", limit.as_secs()),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut piece = [0; 4096];
            let read = self.from.read(&mut piece)?;
            if read == 0 {
                let status = ended_within(&mut self.child, GRACE)?;
                let how = status.map_or("it still runs".to_owned(), |status| status.to_string());
                bail!("a child fell silent: {how}: see its message above");
            }
            self.heard.extend_from_slice(&piece[..read]);
        }
    }

    /// Ends it by closing the line to it.
    ///
    /// # Errors
    /// When it does not end by itself within half a minute, or its exit status is not 0.
    pub fn end(mut self) -> Result<()> {
        self.to = None;
        match ended_within(&mut self.child, GRACE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("a child ended with {status}: see its message above"),
            None => bail!("a child did not end within {} s", GRACE.as_secs()),
        }
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        self.to = None;
        match self.child.try_wait() {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                if let Err(error) = end(&mut self.child) {
                    eprintln!("lab: {error:#}");
                }
            }
        }
    }
}

/// The child's side: says a line.
///
/// # Errors
/// When nobody listens.
pub fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The child's side: the next line; `None` at the end.
///
/// # Errors
/// When standard input cannot be read.
pub fn hear() -> Result<Option<String>> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn lines_come_one_by_one() {
        let mut child =
            Dialogue::start(shell("printf 'ready\\na\\nb\\n'; read x; echo $x"), SOON).unwrap();
        assert_eq!(child.hear(SOON).unwrap(), "a");
        assert_eq!(child.hear(SOON).unwrap(), "b");
        child.say("c").unwrap();
        assert_eq!(child.hear(SOON).unwrap(), "c");
        child.end().unwrap();
    }

    #[test]
    fn silence_ends() {
        let error = Dialogue::start(shell("exec sleep 60"), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
        let error = Dialogue::start(shell("exit 3"), SOON).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let error = Dialogue::start(shell("echo no"), SOON).unwrap_err();
        assert!(error.to_string().contains("said: no"), "{error}");
    }

    #[test]
    fn how_a_child_ends_is_told() {
        let child = Dialogue::start(shell("echo ready; cat; exit 2"), SOON).unwrap();
        assert!(
            child
                .end()
                .unwrap_err()
                .to_string()
                .contains("exit status: 2")
        );
    }
}
