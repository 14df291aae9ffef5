//! `probe`: measures drives, and keeps their models.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::format::mib;
use super::profiles::write_out;
use super::show::{drive_json, drive_line};
use super::{Failure, say};
use crate::drive::{
    KeptModel, KeptModels, KnownDrive, ProbeError, ProbedDrive, Sysfs, probe as measure,
};
use crate::profile::Store;

/// Others' share of the requests, from which on the figures are doubted, in percent.
const DISTURBED_PERCENT: u64 = 10;

/// Measures the drives below `path`, prints each in words and keeps its model.
pub fn main(state_dir: &Path, path: &Path, busy: bool, json: bool) -> Result<(), Failure> {
    let sysfs = Sysfs::default();
    let probed = measure(path, &sysfs, busy).map_err(explained)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let known = |drive: &ProbedDrive| KnownDrive {
        name: drive.name.clone(),
        claim: sysfs.claim(drive.dev),
        model: drive.model.clone(),
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
    for drive in probed.iter().filter(|drive| is_disturbed(drive)) {
        say(&format!(
            "others made {} requests to {} meanwhile: its figures may be too slow",
            drive.others.unwrap_or(0),
            drive.name
        ));
    }
    keep(state_dir, &probed, now)
}

fn keep(state_dir: &Path, probed: &[ProbedDrive], now: u64) -> Result<(), Failure> {
    Store::create(state_dir)?;
    // What cannot be used is replaced.
    let mut models = KeptModels::load(state_dir).unwrap_or_else(|error| {
        say(&error.to_string());
        KeptModels::default()
    });
    for drive in probed {
        let kept = models.keep(KeptModel {
            identities: drive.identities.clone(),
            measured: now,
            model: drive.model.clone(),
        });
        if !kept {
            say(&format!(
                "{} has no serial number and no mounted file system with a UUID: its model is not kept",
                drive.name
            ));
        }
    }
    Ok(models.save(state_dir)?)
}

/// An error, with what to do.
fn explained(error: ProbeError) -> Failure {
    let is_root = rustix::process::geteuid().is_root();
    match error {
        ProbeError::Closed { .. } if !is_root => Failure::from(format!("{error}; try with sudo")),
        error => Failure::from(error),
    }
}

fn is_disturbed(drive: &ProbedDrive) -> bool {
    let others = drive.others.unwrap_or(0);
    others * 100 > drive.reads * DISTURBED_PERCENT
}

fn probed_text(drive: &ProbedDrive, known: &KnownDrive) -> String {
    format!(
        "{}\nread      {} by {} reads in {:.1} s, through {}\n",
        drive_line(known),
        mib(drive.bytes),
        drive.reads,
        drive.time.as_secs_f64(),
        drive.through
    )
}

fn probed_json(drive: &ProbedDrive, known: &KnownDrive) -> serde_json::Value {
    let mut value = drive_json(known);
    value["identities"] = serde_json::json!(drive.identities);
    value["through"] = serde_json::json!(drive.through);
    value["reads"] = serde_json::json!(drive.reads);
    value["bytes"] = serde_json::json!(drive.bytes);
    value["seconds"] = serde_json::json!(drive.time.as_secs_f64());
    value["others"] = serde_json::json!(drive.others);
    value
}
