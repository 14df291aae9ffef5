//! What a drive can do, in four numbers.

use serde::{Deserialize, Serialize};

use super::DriveClass;

/// What reads from a drive cost, as a process sees it: the way through the kernel is in the figures. A probe measures
/// them; until then they are those of the drive's class ([`DriveCosts::of_class`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveCosts {
    /// What a request costs by itself, without its bytes and without a seek, in µs.
    pub request_us: f64,
    /// What a KiB of a request costs, in µs; more than 0.
    pub kib_us: f64,
    /// What being far from the request before it adds to a request, in µs: on a disk with heads a seek and the wait for the
    /// sector, on flash a look into its table of addresses.
    pub far_seek_us: f64,
    /// How many times as many small requests are served while 32 are in flight as while one is; 1: no more.
    pub depth_gain: f64,
}

/// Bounds of sound numbers: beyond 100 s for a read, and 10,000 times as many reads, something else was measured.
const MOST_US: f64 = 1e8;
const MOST_GAIN: f64 = 1e4;

impl DriveCosts {
    /// Numbers of a class. With command queuing: a SATA drive of the 860 QVO's class; without: the MicroSD card of the
    /// FAST '23 paper (§5.3); with heads: a desktop disk of 7,200 rpm.
    pub fn of_class(class: DriveClass) -> Self {
        let [request_us, kib_us, far_seek_us, depth_gain] = match class {
            DriveClass::CommandQueuing => [125.0, 2.0, 0.0, 12.0],
            DriveClass::NoCommandQueuing => [833.0, 29.0, 0.0, 1.0],
            DriveClass::Rotational => [130.0, 6.8, 12_600.0, 2.4],
        };
        DriveCosts {
            request_us,
            kib_us,
            far_seek_us,
            depth_gain,
        }
    }

    /// Whether the numbers are such as a drive can have: finite, not negative, and none so large that it means nothing.
    pub fn is_sound(&self) -> bool {
        let within = |number: f64, most| (0.0..=most).contains(&number);
        within(self.request_us, MOST_US)
            && within(self.kib_us, MOST_US)
            && self.kib_us > 0.0
            && within(self.far_seek_us, MOST_US)
            && within(self.depth_gain, MOST_GAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_classes_are_sound_and_others_are_not() {
        use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
        for class in [CommandQueuing, NoCommandQueuing, Rotational] {
            assert!(DriveCosts::of_class(class).is_sound(), "{class:?}");
        }
        let good = DriveCosts::of_class(CommandQueuing);
        let wrong: [fn(&mut DriveCosts); 6] = [
            |costs| costs.request_us = -1.0,
            |costs| costs.request_us = f64::NAN,
            |costs| costs.kib_us = 0.0,
            |costs| costs.kib_us = f64::INFINITY,
            |costs| costs.far_seek_us = 2e8,
            |costs| costs.depth_gain = 2e4,
        ];
        for change in wrong {
            let mut costs = good;
            change(&mut costs);
            assert!(!costs.is_sound(), "{costs:?}");
        }
    }
}
