//! The product's shield in a process of its own: what it holds is put back however this one ends, and
//! ending a launch's processes does not end it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::drive::Sysfs;
use paralfetch::model::DriveClass;
use paralfetch::policy::ShieldSettings;
use paralfetch::shield::{MeasureReport, Shield, ShieldOptions, ShieldStatus};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::dialogue::{self, Dialogue, READY};

/// Where its knobs' old values are recorded; a reboot empties it, as it does the knobs.
const GUARD_DIR: &str = "/run/paralfetch-lab-shield";

/// Longest wait for its start and for its answers.
const LIMIT: Duration = Duration::from_secs(30);

/// What it is told, a line each. Devices are the kernel's dev_t.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    LaunchBegins { root: i32, device: u32 },
    LaunchEnds,
    Waits { pid: i32, tid: i32, device: u32 },
    Status,
}

/// What its process is started with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ShieldJob {
    /// What it may do.
    pub settings: ShieldSettings,
    /// The drive, as stat(2) numbers it, and its class: a loop device cannot say so.
    pub drive: (u64, DriveClass),
}

/// The number of a launch: there is one at a time.
const LAUNCH: u64 = 1;

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

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.child.pid()
    }

    /// A launch begins, with this process and on this device.
    ///
    /// # Errors
    /// When the shield has ended.
    pub fn launch_begins(&mut self, root: Pid, device: u32) -> Result<()> {
        self.tell(Told::LaunchBegins {
            root: root.as_raw_nonzero().get(),
            device,
        })
    }

    /// It is over.
    ///
    /// # Errors
    /// When the shield has ended.
    pub fn launch_ends(&mut self) -> Result<()> {
        self.tell(Told::LaunchEnds)
    }

    /// A task waits for writes on this device.
    ///
    /// # Errors
    /// When the shield has ended.
    pub fn waits(&mut self, pid: u32, tid: u32, device: u32) -> Result<()> {
        self.tell(Told::Waits {
            pid: i32::try_from(pid)?,
            tid: i32::try_from(tid)?,
            device,
        })
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
        let mut keeper = Command::new(std::env::current_exe()?);
        keeper.arg("keep-knobs").arg(&guard_dir);
        let (dev, class) = self.drive;
        let shield = Shield::start(ShieldOptions {
            guard_dir,
            keeper: Some(keeper),
            settings: self.settings,
            sysfs: Sysfs::default().knowing(dev, class),
        })?;
        serve(shield)
    }
}

fn serve(shield: Shield) -> Result<()> {
    let uid = rustix::process::getuid().as_raw();
    dialogue::say(READY)?;
    let mut lost = 0;
    while let Some(line) = dialogue::hear()? {
        let taken = match serde_json::from_str(&line).context("this is nothing to tell a shield")? {
            Told::LaunchBegins { root, device } => shield.launch_begins(LAUNCH, uid, root, device),
            Told::LaunchEnds => shield.launch_ends(LAUNCH),
            Told::Waits { pid, tid, device } => shield.foreground_waits(pid, tid, uid, device),
            Told::Status => {
                dialogue::say(&serde_json::to_string(&shield.status())?)?;
                true
            }
        };
        lost += u64::from(!taken);
    }
    shield.stop();
    if lost > 0 {
        eprintln!("lab: the shield had no time for {lost} messages");
    }
    Ok(())
}

/// What a shield did, a line each: the measures, what was refused or lost, and its problem.
fn describe(status: &ShieldStatus) -> Vec<String> {
    let mut lines: Vec<String> = status
        .ended
        .iter()
        .chain(&status.in_force)
        .map(measure)
        .collect();
    let told = (status.ended.len() + status.in_force.len()) as u64;
    if status.taken > told {
        lines.insert(0, format!("{} measures before these", status.taken - told));
    }
    let counts = [(status.refused, "refused"), (status.lost, "lost")];
    lines.extend(
        counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} times {what}")),
    );
    lines.extend(status.problem.iter().map(|why| format!("problem: {why}")));
    lines
}

/// One measure: how long, and what the drive wrote before, during and after it.
fn measure(report: &MeasureReport) -> String {
    let seconds = report.ended_ms.map_or("in force".to_owned(), |ended| {
        format!(
            "{:.1} s",
            ended.saturating_sub(report.since_ms) as f64 / 1e3
        )
    });
    let rate = |bytes: Option<u64>| {
        bytes.map_or("–".to_owned(), |bytes| format!("{}", bytes / 1_000_000))
    };
    let why = report.why_ended.as_deref().unwrap_or_default();
    format!(
        "{} {}: {seconds}, drive {} → {} → {} MB/s {why}",
        report.kind,
        report.target,
        rate(report.written_before),
        rate(report.written_during),
        rate(report.written_after)
    )
    .trim_end()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use paralfetch::policy::MeasureKind;

    use super::*;

    #[test]
    fn what_was_done_is_told() {
        let report = MeasureReport {
            kind: MeasureKind::Hold,
            target: "the system".to_owned(),
            uid: Some(0),
            since_ms: 1000,
            until_ms: 6000,
            ended_ms: Some(3500),
            why_ended: Some("the launch is over".to_owned()),
            written_before: Some(25_000_000),
            written_during: Some(0),
            written_after: None,
        };
        let status = ShieldStatus {
            in_force: vec![MeasureReport {
                ended_ms: None,
                why_ended: None,
                ..report.clone()
            }],
            ended: vec![report],
            taken: 3,
            refused: 2,
            problem: Some("no systemd".to_owned()),
            ..ShieldStatus::default()
        };
        assert_eq!(
            describe(&status),
            [
                "1 measures before these",
                "hold the system: 2.5 s, drive 25 → 0 → – MB/s the launch is over",
                "hold the system: in force, drive 25 → 0 → – MB/s",
                "2 times refused",
                "problem: no systemd",
            ]
        );
        assert_eq!(describe(&ShieldStatus::default()), Vec::<String>::new());
    }

    #[test]
    fn what_is_told_is_a_line() {
        for told in [
            Told::LaunchBegins { root: 1, device: 7 },
            Told::LaunchEnds,
            Told::Waits {
                pid: 1,
                tid: 2,
                device: 7,
            },
            Told::Status,
        ] {
            let line = serde_json::to_string(&told).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Told>(&line).unwrap(), told);
        }
    }
}
