//! The product's shield in a process of its own: what it holds is put back however this one ends, and
//! ending a launch's processes does not end it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::drive::Sysfs;
use paralfetch::learn::keeper_command;
use paralfetch::model::DriveClass;
use paralfetch::shield::{People, Shield, ShieldOptions, ShieldStatus, Shielding};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::dialogue::{self, Dialogue, READY};
use crate::machine::LONGEST_SESSION;

/// Where its knobs' old values are recorded; a reboot empties it, as it does the knobs.
const GUARD_DIR: &str = "/run/paralfetch-lab-shield";

/// Longest wait for its start and for its answers.
const LIMIT: Duration = Duration::from_secs(30);

/// The user whose launches these are, and who is logged in as far as the shield can tell.
const USER: u32 = 1000;

/// What it is told, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    Launch,
    Status,
}

/// What its process is started with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ShieldJob {
    /// The drive, as stat(2) numbers it, and its class: a loop device cannot say so.
    pub drive: (u64, DriveClass),
}

/// A running shield.
#[derive(Debug)]
pub struct ShieldProcess {
    child: Dialogue,
}

impl ShieldProcess {
    /// Starts it; `lab` is the program whose subcommand serves.
    ///
    /// # Errors
    /// When it cannot be started, or another session has it.
    pub fn start(job: ShieldJob, lab: &Path) -> Result<Self> {
        let mut command = Command::new(lab);
        command.arg("shield").arg(serde_json::to_string(&job)?);
        let child = Dialogue::start(command, LIMIT).context("cannot start the shield")?;
        Ok(ShieldProcess { child })
    }

    /// Process id of the shield.
    pub fn pid(&self) -> Pid {
        self.child.pid()
    }

    /// A launch from the drive begins.
    ///
    /// # Errors
    /// When the shield has ended.
    pub fn launch(&mut self) -> Result<()> {
        self.tell(Told::Launch)
    }

    fn tell(&mut self, told: Told) -> Result<()> {
        self.child.say(&serde_json::to_string(&told)?)
    }

    /// What it does and did.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&mut self) -> Result<ShieldStatus> {
        self.tell(Told::Status)?;
        let said = self.child.hear(LIMIT).context("the shield")?;
        serde_json::from_str(&said).context("the shield's status makes no sense")
    }

    /// Ends it, and what it does; returns what it did.
    ///
    /// # Errors
    /// When it does not answer or end.
    pub fn end(mut self) -> Result<Vec<String>> {
        let status = self.status()?;
        self.child.end().context("the shield")?;
        Ok(describe(&status))
    }
}

impl ShieldJob {
    /// Serves until standard input ends.
    ///
    /// # Errors
    /// When the shield cannot be started, or is told nonsense.
    pub fn run(self) -> Result<()> {
        let guard_dir = PathBuf::from(GUARD_DIR);
        let keeper = keeper_command(&guard_dir, LONGEST_SESSION);
        let (dev, class) = self.drive;
        let shield = Shield::start(ShieldOptions {
            people: people(&guard_dir.join("people"))?,
            guard_dir,
            keeper: Some(keeper.context("cannot tell where this program is")?),
            sysfs: Sysfs::default().knowing(dev, class),
        })?;
        serve(shield, dev)
    }
}

/// One user who is logged in, and no cgroups of sessions: pressure of the whole system counts, whoever measures.
fn people(dir: &Path) -> Result<People> {
    let users = dir.join("users");
    fs::create_dir_all(&users)?;
    fs::write(users.join(USER.to_string()), "STATE=active\n")?;
    Ok(People {
        users,
        slices: dir.join("slices"),
        ..People::default()
    })
}

fn serve(shield: Shield, dev: u64) -> Result<()> {
    dialogue::say(READY)?;
    while let Some(line) = dialogue::hear()? {
        match serde_json::from_str(&line).context("this is nothing to tell a shield")? {
            Told::Launch => {
                if !shield.launch(USER, dev) {
                    eprintln!("lab: the shield has no room for a launch");
                }
            }
            Told::Status => dialogue::say(&serde_json::to_string(&shield.status())?)?,
        }
    }
    shield.stop();
    Ok(())
}

/// What a shield did, a line each: the times that it shielded the drive, what was refused, and its problem.
fn describe(status: &ShieldStatus) -> Vec<String> {
    let told = status.ended.iter().chain(&status.in_force);
    let mut lines: Vec<String> = told.map(shielding).collect();
    let more = status.taken.saturating_sub(lines.len() as u64);
    if more > 0 {
        lines.insert(0, format!("{more} times before these"));
    }
    if status.refused > 0 {
        lines.push(format!("{} times refused", status.refused));
    }
    lines.extend(status.problem.iter().map(|why| format!("problem: {why}")));
    lines
}

/// One time: how long, and what the drive wrote before and during it.
fn shielding(shielding: &Shielding) -> String {
    let seconds = shielding.ended_ms.map_or("in force".to_owned(), |ended| {
        let ms = ended.saturating_sub(shielding.since_ms);
        format!("{:.1} s", ms as f64 / 1e3)
    });
    let rate = |bytes: Option<u64>| {
        bytes.map_or("–".to_owned(), |bytes| format!("{}", bytes / 1_000_000))
    };
    let why = shielding.why_ended.as_deref().unwrap_or_default();
    format!(
        "{}: {seconds}, drive {} → {} MB/s {why}",
        shielding.target,
        rate(shielding.written_before),
        rate(shielding.written_during),
    )
    .trim_end()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told() {
        let shielding = Shielding {
            target: "loop0: requests of 64 KiB".to_owned(),
            since_ms: 1000,
            ended_ms: Some(3500),
            why_ended: Some("the drive is written no longer".to_owned()),
            written_before: Some(25_000_000),
            written_during: Some(22_000_000),
            ..Shielding::default()
        };
        let status = ShieldStatus {
            in_force: vec![Shielding {
                ended_ms: None,
                why_ended: None,
                written_during: None,
                ..shielding.clone()
            }],
            ended: vec![shielding],
            taken: 3,
            refused: 2,
            problem: Some("no scheduler".to_owned()),
            ..ShieldStatus::default()
        };
        assert_eq!(
            describe(&status),
            [
                "1 times before these",
                "loop0: requests of 64 KiB: 2.5 s, drive 25 → 22 MB/s the drive is written no longer",
                "loop0: requests of 64 KiB: in force, drive 25 → – MB/s",
                "2 times refused",
                "problem: no scheduler",
            ]
        );
        assert_eq!(describe(&ShieldStatus::default()), Vec::<String>::new());
    }

    #[test]
    fn what_is_told_is_a_line() {
        for told in [Told::Launch, Told::Status] {
            let line = serde_json::to_string(&told).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Told>(&line).unwrap(), told);
        }
    }
}
