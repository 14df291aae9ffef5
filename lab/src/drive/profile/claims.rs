//! The figures that a drive is held against.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::number;

/// What fio should measure on the drive. Random places are over the whole drive; writes begin on a drive
/// that was discarded as a whole and has rested, as those of data sheets do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// 4 KiB random reads at depth 1, requests a second.
    pub random_4k_depth_1: f64,
    /// 4 KiB random reads at depth 8, requests a second.
    pub random_4k_depth_8: f64,
    /// 4 KiB random reads at depth 32, requests a second.
    pub random_4k_depth_32: f64,
    /// 128 KiB random reads at depth 1, MB/s.
    pub random_128k_mb_s: f64,
    /// 128 KiB sequential reads at depth 8, MB/s.
    pub sequential_mb_s: f64,
    /// 4 KiB random writes at depth 1, requests a second; into the SLC cache if there is one.
    pub write_4k_depth_1: f64,
    /// 4 KiB random writes at depth 32, requests a second; into the SLC cache if there is one.
    pub write_4k_depth_32: f64,
    /// 128 KiB sequential writes at depth 8, MB/s; into the SLC cache if there is one.
    pub write_sequential_mb_s: f64,
    /// 128 KiB sequential writes once the SLC cache is full, MB/s. Absent exactly where there is none.
    pub write_sustained_mb_s: Option<f64>,
}

impl Claims {
    pub(super) fn validate(&self, has_slc: bool) -> Result<()> {
        number("random_4k_depth_1", self.random_4k_depth_1, 1.0, 1e8)?;
        number("random_4k_depth_8", self.random_4k_depth_8, 1.0, 1e8)?;
        number("random_4k_depth_32", self.random_4k_depth_32, 1.0, 1e8)?;
        number("random_128k_mb_s", self.random_128k_mb_s, 0.01, 1e6)?;
        number("sequential_mb_s", self.sequential_mb_s, 0.01, 1e6)?;
        number("write_4k_depth_1", self.write_4k_depth_1, 1.0, 1e8)?;
        number("write_4k_depth_32", self.write_4k_depth_32, 1.0, 1e8)?;
        number(
            "write_sequential_mb_s",
            self.write_sequential_mb_s,
            0.01,
            1e6,
        )?;
        ensure!(
            self.write_sustained_mb_s.is_some() == has_slc,
            "'write_sustained_mb_s' is for a drive with an SLC cache, which must have it"
        );
        match self.write_sustained_mb_s {
            Some(rate) => number("write_sustained_mb_s", rate, 0.01, 1e6),
            None => Ok(()),
        }
    }
}
