//! What kind of drive a block device is, as far as scheduling cares.

use serde::{Deserialize, Serialize};

/// Class of drive, after Table 2 of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveClass {
    /// Flash with command queuing: NCQ, NVMe queues, eMMC CMDQ, SD A2.
    CommandQueuing,
    /// Flash that serves one command at a time.
    NoCommandQueuing,
    /// A disk with heads.
    Rotational,
}
