//! `probe`: measures drives, and keeps what their reads cost.

use std::cell::RefCell;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::format::{mib, text_of};
use super::profiles::write_out;
use super::progress::Progress;
use super::show::{drive_json, drive_line};
use super::{Failure, say};
use crate::drive::{
    KnownDrive, MeasuredDrive, MeasuredDrives, ProbeError, ProbedDrive, Sysfs, probe as measure,
};
use crate::profile::Store;

/// Measures the drives below `path`, prints each in words and keeps what its reads cost, also if one after it cannot be
/// measured.
pub fn main(state_dir: &Path, path: &Path, busy: bool, json: bool) -> Result<(), Failure> {
    let sysfs = Sysfs::default();
    let progress = RefCell::new(Progress::new());
    let tell = |drive: &str, share: f64| {
        let line = format!("measuring {drive}: {:.0} %", share * 100.0);
        progress.borrow_mut().show(&line, share);
    };
    let measured = measure(path, &sysfs, busy, tell);
    drop(progress);
    let (probed, failure) = match measured {
        Ok(probed) => (probed, None),
        Err(ProbeError::Partial {
            drive,
            measured,
            cause,
        }) => {
            let why = explained(*cause).message;
            let failure = Failure::from(format!("{drive} was not measured: {why}"));
            (measured, Some(failure))
        }
        Err(error) => return Err(explained(error)),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let known = |drive: &ProbedDrive| KnownDrive {
        name: drive.name.clone(),
        claim: sysfs.claim(drive.dev),
        costs: drive.costs,
        measured: Some(now),
    };
    let text = match json {
        true => {
            let drives = probed.iter().map(|drive| probed_json(drive, &known(drive)));
            format!("{:#}\n", serde_json::Value::from_iter(drives))
        }
        false => {
            let lines = probed.iter().map(|drive| probed_text(drive, &known(drive)));
            lines.collect()
        }
    };
    write_out(&text)?;
    for drive in probed.iter().filter(|drive| drive.is_disturbed()) {
        say(&format!(
            "others made {} requests to {} meanwhile: its figures may be too slow",
            drive.others.unwrap_or(0),
            drive.name
        ));
    }
    keep(state_dir, &probed, now)?;
    failure.map_or(Ok(()), Err)
}

fn keep(state_dir: &Path, probed: &[ProbedDrive], now: u64) -> Result<(), Failure> {
    Store::create(state_dir)?;
    // What cannot be used is replaced.
    let mut drives = MeasuredDrives::load(state_dir).unwrap_or_else(|error| {
        say(&error.to_string());
        MeasuredDrives::default()
    });
    for drive in probed {
        let kept = drives.keep(MeasuredDrive {
            identities: drive.identities.clone(),
            measured: now,
            costs: drive.costs,
        });
        if !kept {
            say(&format!(
                "{} has no serial number and no mounted file system with a UUID: what was measured is not kept",
                drive.name
            ));
        }
    }
    Ok(drives.save(state_dir)?)
}

/// An error, with what to do.
fn explained(error: ProbeError) -> Failure {
    let is_root = rustix::process::geteuid().is_root();
    let text = text_of(error.to_string().as_bytes());
    match error {
        ProbeError::Closed { .. } if !is_root => Failure::from(format!("{text}; try with sudo")),
        _ => Failure::from(text),
    }
}

fn probed_text(drive: &ProbedDrive, known: &KnownDrive) -> String {
    format!(
        "{}\nread      {} by {} reads in {:.1} s, through {}\n",
        drive_line(known),
        mib(drive.bytes),
        drive.reads,
        drive.time.as_secs_f64(),
        text_of(drive.through.as_bytes())
    )
}

fn probed_json(drive: &ProbedDrive, known: &KnownDrive) -> serde_json::Value {
    let mut value = drive_json(known);
    // What the drive is known by; empty: it cannot be recognised, and what was measured is not kept.
    value["identities"] = serde_json::json!(drive.identities);
    // What it was read through, such as `/dev/sda` or `12 files`.
    value["through"] = serde_json::json!(text_of(drive.through.as_bytes()));
    // Reads of the probe.
    value["reads"] = serde_json::json!(drive.reads);
    // Their size.
    value["bytes"] = serde_json::json!(drive.bytes);
    // How long they took, in seconds.
    value["seconds"] = serde_json::json!(drive.time.as_secs_f64());
    // Requests of others meanwhile; null: not known.
    value["others"] = serde_json::json!(drive.others);
    value
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drive::DriveClaim;
    use crate::model::{DriveClass, DriveCosts};

    #[test]
    fn hostile_paths_do_not_reach_the_terminal() {
        let path = "/a\u{9b}2J\n";
        let class = DriveClass::CommandQueuing;
        let drive = ProbedDrive {
            name: "sda".to_owned(),
            dev: 8 << 8,
            identities: Vec::new(),
            costs: DriveCosts::of_class(class),
            through: path.to_owned(),
            reads: 1,
            bytes: 4096,
            time: Duration::from_secs(1),
            others: None,
        };
        let known = KnownDrive {
            name: drive.name.clone(),
            claim: DriveClaim {
                class,
                is_virtual: false,
            },
            costs: drive.costs,
            measured: None,
        };
        let text = probed_text(&drive, &known);
        assert!(text.ends_with("through /a\u{fffd}2J\u{fffd}\n"), "{text}");
        let json = probed_json(&drive, &known);
        assert_eq!(json["through"], "/a\u{fffd}2J\u{fffd}");
        let failure = explained(ProbeError::NoDrive(path.into()));
        assert!(failure.message.starts_with("/a\u{fffd}2J\u{fffd} is on"));
    }
}
