//! The product's own probe of a drive, held against fio(1).

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use paralfetch::drive::{ProbedDrive, Sysfs, probe};
use paralfetch::model::{DriveCosts, median};

use super::check::{Load, READS, TOLERANCE, Unit, amount, attach_alone};
use super::fio::{self, Extent};
use super::profile::DriveProfile;

/// A figure of a drive, by the probe's numbers and by fio.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbedFigure {
    /// The load, such as "4 KiB random, depth 1".
    pub what: &'static str,
    /// What the numbers say, in requests or MB a second.
    pub probed: f64,
    /// What fio measured, in the same unit.
    pub measured: f64,
    unit: Unit,
}

impl ProbedFigure {
    /// How much the probe is above fio, as a share of fio's figure.
    pub fn deviation(&self) -> f64 {
        self.probed / self.measured - 1.0
    }

    /// Whether the probe is within 15 % of fio.
    pub fn holds(&self) -> bool {
        self.deviation().abs() <= TOLERANCE
    }
}

impl fmt::Display for ProbedFigure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{:<28} {:>12} {:>12} {:>+6.0} %",
            self.what,
            amount(self.unit, self.probed),
            amount(self.unit, self.measured),
            self.deviation() * 100.0
        )
    }
}

/// Turns of probe and fio: the machine is busy with other things now and then.
const TURNS: usize = 5;

/// How long fio reads in each.
const READING: Extent = Extent {
    ramp: 0,
    seconds: 1,
    bytes: None,
};

/// Attaches a drive with a scratch file for its content, has the product probe it and measures the same with fio, in turns. The
/// figures are medians, the probed drive is that of the last turn.
pub fn probe_alone(profile: &DriveProfile) -> Result<(ProbedDrive, Vec<ProbedFigure>)> {
    attach_alone(profile, |drive| {
        let mut turns = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            // The emulator has just been started: its drive is idle, and what others do on the host's own is in fio's
            // figures too.
            let mut probed = probe(drive.node(), &Sysfs::default(), true, |_, _| ())
                .with_context(|| format!("probing {}", drive.node().display()))?;
            ensure!(probed.len() == 1, "{} drives are below", probed.len());
            let probed = probed.remove(0);
            // What the probe has read: the drive's node, or the file behind a loop device, which costs time of its own.
            let through = Path::new(&probed.through);
            let rates = loads()
                .map(|load| Ok(load.unit.amount(&fio::run(through, load.io, READING)?)))
                .collect::<Result<Vec<f64>>>()?;
            turns.push((probed, rates));
        }
        let figures = loads().enumerate().map(|(index, load)| {
            let us = turns
                .iter()
                .map(|(probed, _)| far_read_us(load, &probed.costs));
            let rates = turns.iter().map(|(_, rates)| rates[index]);
            ProbedFigure {
                what: load.what,
                probed: load.unit.per_second(median_of(us), load.bytes()),
                measured: median_of(rates),
                unit: load.unit,
            }
        });
        let figures = figures.collect();
        let last = turns.pop().context("there was no turn")?;
        Ok((last.0, figures))
    })
}

fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// The loads whose time the numbers tell: single reads at random positions.
fn loads() -> impl Iterator<Item = &'static Load> {
    let is_told = |load: &&Load| load.io.rw == "randread" && load.io.depth == 1;
    READS.iter().filter(is_told)
}

/// What a read takes that is alone in flight and far from the one before, in µs.
fn far_read_us(load: &Load, costs: &DriveCosts) -> f64 {
    costs.request_us + load.bytes() as f64 / 1024.0 * costs.kib_us + costs.far_seek_us
}

#[cfg(test)]
mod tests {
    use paralfetch::model::DriveClass;

    use super::*;

    #[test]
    fn figures_are_in_the_units_of_fio() {
        let card = DriveCosts::of_class(DriveClass::NoCommandQueuing);
        let rates: Vec<f64> = loads()
            .map(|load| load.unit.per_second(far_read_us(load, &card), load.bytes()))
            .collect();
        assert!((rates[0] - 1e6 / 949.0).abs() < 1e-6, "{rates:?}");
        assert!((27.0..30.0).contains(&rates[1]), "{rates:?}");
        let figure = |probed| ProbedFigure {
            what: READS[0].what,
            probed,
            measured: 1000.0,
            unit: Unit::Requests,
        };
        assert!(figure(1150.0).holds() && figure(851.0).holds());
        assert!(!figure(1160.0).holds() && !figure(840.0).holds());
        assert!(figure(900.0).to_string().ends_with("-10 %"));
    }
}
