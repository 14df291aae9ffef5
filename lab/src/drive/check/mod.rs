//! Checking a drive against its claims.

mod loads;
mod written;

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::attach::Drive;
use super::control::Overhead;
use super::fio::{self, Extent, Rate};
use super::profile::DriveProfile;
use crate::noise::noise;
use crate::processes::cpu_of;

pub(super) use loads::{Load, READS, Unit};

/// Largest deviation of a figure from the expected one, as a share of that.
pub(super) const TOLERANCE: f64 = 0.15;

/// Bytes of the scratch file of [`check_alone`].
const SCRATCH: u64 = 1 << 30;
const PIECE: usize = 1 << 20;

/// How long each read load goes on.
const READING: Extent = Extent {
    ramp: 0,
    seconds: 2,
    bytes: None,
};

/// One figure of a drive, as measured and as claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The load, such as "4 KiB random, depth 1", and how much was written.
    pub what: String,
    /// The measured figure, in requests or MB per second.
    pub measured: f64,
    /// What the profile claims, in the same unit; `None` for the host's drive.
    pub claimed: Option<f64>,
    /// The rate of this machine when the emulator bypasses the model and answers each request after the
    /// claimed latency, in the same unit; `None` if the drive is not emulated. The
    /// difference to the claim goes to wake-ups and busy processors.
    pub floor: Option<f64>,
    /// Processor time of the emulator for each request, in µs; `None` if the drive is not emulated.
    pub cpu_us: Option<f64>,
    unit: Unit,
}

impl Checked {
    /// Whether the figure is within 15 % of the claim, or of this machine's rate if that is lower.
    /// Always true for a drive without claims.
    pub fn holds(&self) -> bool {
        let Some(claimed) = self.claimed else {
            return true;
        };
        let expected = claimed.min(self.floor.unwrap_or(f64::INFINITY));
        (self.measured - expected).abs() <= TOLERANCE * expected || self.is_near(claimed)
    }

    fn is_near(&self, claimed: f64) -> bool {
        (self.measured - claimed).abs() <= TOLERANCE * claimed
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let amount = |value| amount(self.unit, value);
        write!(f, "{}: {}", self.what, amount(self.measured))?;
        if let Some(claimed) = self.claimed {
            let percent = (self.measured / claimed - 1.0) * 100.0;
            write!(f, " (claimed {}, {percent:+.0} %", amount(claimed))?;
            if let (false, Some(floor)) = (self.is_near(claimed), self.floor) {
                write!(f, "; this machine carries {} at its latency", amount(floor))?;
            }
            write!(f, ")")?;
        }
        match self.cpu_us {
            Some(cpu) => write!(f, ", emulator {cpu:.0} µs of CPU a request"),
            None => Ok(()),
        }
    }
}

/// A rate in words.
pub(super) fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Requests => format!("{}/s", thousands(value)),
        Unit::Megabytes if value < 10.0 => format!("{value:.1} MB/s"),
        Unit::Megabytes => format!("{value:.0} MB/s"),
    }
}

/// 7500 as "7,500".
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Measures a drive's reads with fio, 2 s for each load, and as long again without the model for the floor.
/// Nothing else should use the drive meanwhile. Its content stays as it is.
///
/// # Errors
/// When fio cannot be started or fails.
pub fn check(drive: &Drive) -> Result<Vec<Checked>> {
    READS
        .iter()
        .map(|load| check_load(drive, load, READING))
        .collect()
}

/// Measures a drive with a scratch file for its content, under `/var/tmp`: reads as in [`check`], then
/// writes, which destroy it. The running program must have the subcommand `flashsim`. Also returns the
/// emulator's overhead, if the drive is emulated.
///
/// # Errors
/// When there is no room, the drive cannot be attached, or fio cannot be started or fails.
pub fn check_alone(profile: &DriveProfile) -> Result<(Vec<Checked>, Option<Overhead>)> {
    attach_alone(profile, |drive| {
        let mut figures = check(drive)?;
        figures.extend(written::check(drive)?);
        Ok((figures, drive.overhead()))
    })
}

/// Attaches a drive with a scratch file for its content, does `work` with it, and leaves nothing behind.
///
/// # Errors
/// When there is no room, the drive cannot be attached, or `work` fails.
pub(super) fn attach_alone<T>(
    profile: &DriveProfile,
    work: impl FnOnce(&Drive) -> Result<T>,
) -> Result<T> {
    // Not the temporary directory: that may be in memory.
    let place = tempfile::tempdir_in("/var/tmp").context("a scratch directory in /var/tmp")?;
    let image = place.path().join("scratch");
    fill(&image).with_context(|| format!("writing {}", image.display()))?;
    let lab = std::env::current_exe().context("path of this program")?;
    let drive = Drive::attach(profile, &image, place.path(), &lab)?;
    work(&drive)
}

/// A file full of noise.
fn fill(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    for seed in 0..SCRATCH / PIECE as u64 {
        file.write_all(&noise(PIECE, seed))?;
    }
    file.sync_all()?;
    Ok(())
}

fn check_load(drive: &Drive, load: &Load, extent: Extent) -> Result<Checked> {
    let cpu = || drive.emulator().map(cpu_of).transpose();
    let before = cpu()?;
    let rate = fio::run(drive.node(), load.io, extent)?;
    let spent = before
        .zip(cpu()?)
        .map(|(before, after)| (after - before).total());
    let claimed = drive.profile().claims.as_ref().and_then(load.claim);
    let floor = match (drive.emulator(), claimed) {
        (Some(_), Some(claimed)) => {
            let latency = load.latency(claimed);
            Some(drive.with_latency(latency, load.bytes(), || {
                fio::run(drive.node(), load.io, extent)
            })?)
        }
        _ => None,
    };
    Ok(Checked {
        what: describe(load, &rate),
        measured: load.unit.amount(&rate),
        claimed,
        floor: floor.map(|rate| load.unit.amount(&rate)),
        cpu_us: spent.map(|seconds| seconds * 1e6 / rate.total_ios.max(1.0)),
        unit: load.unit,
    })
}

/// The load, and how much it has written.
fn describe(load: &Load, rate: &Rate) -> String {
    match load.io.writes() {
        true => format!("{} ({:.0} MiB)", load.what, rate.io_bytes / 1048576.0),
        false => load.what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_by_its_claim_or_by_the_rate_of_the_machine() {
        let checked = |measured, floor| Checked {
            what: READS[0].what.to_owned(),
            measured,
            claimed: Some(1000.0),
            floor: Some(floor),
            cpu_us: None,
            unit: Unit::Requests,
        };
        assert!(checked(860.0, 1000.0).holds());
        assert!(!checked(840.0, 1000.0).holds());
        assert!(checked(640.0, 700.0).holds());
        assert!(!checked(500.0, 700.0).holds());
        assert!(!checked(1200.0, 1000.0).holds());
        let text = checked(640.0, 700.0).to_string();
        assert!(text.contains("this machine carries 700/s"), "{text}");
    }
}
