//! Measuring what a drive writes.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::loads::{Load, SUSTAINED, WRITES};
use super::{Checked, check_load};
use crate::drive::attach::Drive;
use crate::drive::fio::{self, Extent};
use crate::drive::profile::{Flash, Slc};

/// Seconds of each load at most.
const SECONDS: u32 = 4;

/// Bytes of each load at most, where no SLC cache sets the bound.
const BYTES: u64 = 128 << 20;

/// Seconds that filling the SLC cache may take.
const FILLING: u32 = 60;

/// Writes to a drive, whose content is lost. An emulated one is discarded first, as data sheets speak of
/// empty drives. Where there is an SLC cache, each load begins on an empty one, which a pause leaves behind,
/// and fills half of it at most; then the cache is filled, and what goes beyond it is measured.
pub(super) fn check(drive: &Drive) -> Result<Vec<Checked>> {
    if drive.emulator().is_some() {
        discard(drive.node())?;
    }
    let flash = drive.profile().flash.as_ref();
    let slc = flash.and_then(|flash| Some((flash, flash.slc.as_ref()?)));
    let extent = Extent {
        ramp: 0,
        seconds: SECONDS,
        bytes: Some(slc.map_or(BYTES, |(_, slc)| slc.bytes / 2)),
    };
    let empty_cache = || {
        if let Some((flash, slc)) = slc {
            thread::sleep(time_to_empty(flash, slc));
        }
    };
    let mut figures = Vec::new();
    for load in &WRITES {
        empty_cache();
        figures.push(check_load(drive, load, extent)?);
    }
    if let Some((_, slc)) = slc {
        fill(drive, &SUSTAINED, slc)?;
        // What was emptied while fio started is filled again in the first second.
        let beyond = Extent {
            ramp: 1,
            seconds: SECONDS,
            bytes: None,
        };
        figures.push(check_load(drive, &SUSTAINED, beyond)?);
    }
    Ok(figures)
}

/// How long an SLC cache takes to be emptied, however full it is.
fn time_to_empty(flash: &Flash, slc: &Slc) -> Duration {
    let moves = slc.bytes.div_ceil(flash.round_bytes()) + 1;
    let each = (flash.read_us + flash.program_us) / 1e6;
    Duration::from_secs_f64(slc.idle_ms / 1e3 + moves as f64 * each)
}

/// Writes as much as the cache takes.
fn fill(drive: &Drive, load: &Load, slc: &Slc) -> Result<()> {
    let extent = Extent {
        ramp: 0,
        seconds: FILLING,
        bytes: Some(slc.bytes),
    };
    let filled = fio::run(drive.node(), load.io, extent)?;
    ensure!(
        filled.io_bytes >= slc.bytes as f64,
        "the SLC cache of {} MiB was not full after {FILLING} s",
        slc.bytes >> 20
    );
    Ok(())
}

/// Has the drive forget all its data.
fn discard(node: &Path) -> Result<()> {
    let output = Command::new("blkdiscard")
        .arg("--force")
        .arg(node)
        .output()
        .context("starting blkdiscard (Debian package util-linux)")?;
    ensure!(
        output.status.success(),
        "blkdiscard failed on {}: {}",
        node.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::profile::built_in;

    #[test]
    fn the_pause_is_as_long_as_the_model_needs() {
        for drive in built_in().unwrap() {
            let Some(flash) = drive.flash else { continue };
            let Some(slc) = &flash.slc else { continue };
            let time = time_to_empty(&flash, slc).as_secs_f64();
            let rate = flash.round_bytes() as f64 / ((flash.read_us + flash.program_us) / 1e6);
            let expected = slc.idle_ms / 1e3 + slc.bytes as f64 / rate;
            assert!((expected..expected + 0.1).contains(&time), "{time}");
            assert!(time < 10.0, "{}: a check would take long", drive.name);
        }
    }
}
