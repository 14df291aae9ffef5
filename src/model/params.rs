//! Scheduling parameters and their defaults, by the kind of drive.

use serde::{Deserialize, Serialize};

use crate::model::Device;

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

/// Thresholds of infill merge (Mobifetch §2; VanDeBogart, USENIX ATC '09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Infill {
    /// Largest hole of unneeded blocks that is read along, in 4 KiB pages.
    pub hole_pages: u64,
    /// Largest I/O distance of entries merged across a hole, in positions of the launch sequence.
    pub distance: u64,
}

impl Infill {
    /// An I/O distance that no launch sequence has: entries are merged wherever they stand in it.
    pub const ANY_DISTANCE: u64 = u32::MAX as u64;
}

/// In which order a launch is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOrder {
    /// As it accesses its blocks, but for merges and the metadata shift.
    #[default]
    Access,
    /// One sweep over the disk, metadata first. Neither the I/O distance of range merge nor the shift matters then.
    Disk,
}

/// Everything that decides how a launch sequence is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// Largest I/O distance of entries joined by range merge, in positions of the launch sequence.
    pub merge_distance: u64,
    /// Metadata shift size, in bytes; 0 leaves the order as it is.
    pub shift_bytes: u64,
    /// Infill merge, where one request costs more than a small hole.
    pub infill: Option<Infill>,
    /// The order of reads.
    #[serde(default)]
    pub order: ReadOrder,
}

impl Params {
    /// Table 2 of the paper for the drive's class; infill for exact launch sequences, whose pages
    /// are scattered.
    ///
    /// A drive without command queuing serves one request after the other, and each costs it as much as
    /// the transfer of several pages: 7 on a MicroSD card with 4.3 MB/s of random 4 KiB reads and
    /// 28.6 MB/s of 128 KiB (paper §5.3). There the number of requests decides, so that scattered pages
    /// are joined across holes of that size wherever they stand in the launch sequence.
    ///
    /// A disk with heads is read in one sweep, across the holes that cost no more than a request. The table is about flash.
    pub fn for_device(class: DriveClass, exact: bool) -> Self {
        let queued = Infill {
            hole_pages: 2,
            distance: 64,
        };
        let anywhere = |hole_pages| Infill {
            hole_pages,
            distance: Infill::ANY_DISTANCE,
        };
        let (shift_bytes, infill) = match class {
            DriveClass::CommandQueuing => (64 << 10, queued),
            DriveClass::Rotational => (64 << 10, anywhere(4)),
            DriveClass::NoCommandQueuing => (4 << 10, anywhere(7)),
        };
        Params {
            merge_distance: 8,
            shift_bytes,
            infill: exact.then_some(infill),
            order: match class {
                DriveClass::Rotational => ReadOrder::Disk,
                DriveClass::CommandQueuing | DriveClass::NoCommandQueuing => ReadOrder::Access,
            },
        }
    }
}

/// Thresholds that somebody gives in place of those of the drive. A shift or an I/O distance asks for the order of
/// accesses: a sweep has neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenParams {
    /// Of [`Params::shift_bytes`].
    pub shift_bytes: Option<u64>,
    /// Of [`Params::merge_distance`].
    pub merge_distance: Option<u64>,
    /// Of [`Infill::hole_pages`]; 0: nothing is merged across a hole.
    pub hole_pages: Option<u64>,
}

impl GivenParams {
    /// Whether no threshold is given.
    pub fn is_empty(&self) -> bool {
        *self == GivenParams::default()
    }

    /// The parameters of a drive with these thresholds.
    pub fn in_place_of(&self, params: Params) -> Params {
        let infill = match self.hole_pages {
            None => params.infill,
            Some(0) => None,
            Some(hole_pages) => Some(Infill {
                hole_pages,
                distance: params
                    .infill
                    .map_or(Infill::ANY_DISTANCE, |infill| infill.distance),
            }),
        };
        Params {
            merge_distance: self.merge_distance.unwrap_or(params.merge_distance),
            shift_bytes: self.shift_bytes.unwrap_or(params.shift_bytes),
            infill,
            order: match (self.shift_bytes, self.merge_distance) {
                (None, None) => params.order,
                _ => ReadOrder::Access,
            },
        }
    }
}

/// The parameters of all devices of a launch sequence. Those in force are the main drive's, which dynamic
/// scheduling tunes; devices of another class have the defaults of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceParams {
    /// By index in the device table.
    classes: Vec<DriveClass>,
    main: DriveClass,
    params: Params,
}

impl DeviceParams {
    /// For the devices of a table. `params` are those of the drives of class `main`.
    pub fn new(devices: &[Device], main: DriveClass, params: Params) -> Self {
        DeviceParams {
            classes: devices.iter().map(|device| device.class).collect(),
            main,
            params,
        }
    }

    /// One set of parameters for all devices.
    pub fn uniform(params: Params) -> Self {
        Self::new(&[], DriveClass::CommandQueuing, params)
    }

    /// The class of a device, by its index in the table.
    pub fn class(&self, device: u16) -> DriveClass {
        let class = self.classes.get(usize::from(device));
        class.copied().unwrap_or(self.main)
    }

    /// The parameters of the drives of the main class. Their order is that of the whole schedule.
    pub fn main(&self) -> Params {
        self.params
    }

    /// The parameters of drives of a class.
    pub fn of(&self, class: DriveClass) -> Params {
        match class == self.main {
            true => self.params,
            false => Params::for_device(class, self.params.infill.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_the_main_class_are_tuned_and_others_have_their_defaults() {
        let [ssd, card] = [DriveClass::CommandQueuing, DriveClass::NoCommandQueuing];
        let device = |class| Device {
            dev: 1,
            name: String::new(),
            fs: String::new(),
            fs_uuid: [0; 16],
            class,
        };
        for exact in [false, true] {
            let tuned = Params {
                shift_bytes: 80 << 10,
                ..Params::for_device(ssd, exact)
            };
            let params = DeviceParams::new(&[ssd, card, ssd].map(device), ssd, tuned);
            let of = |device| params.of(params.class(device));
            assert_eq!([of(0), of(2)], [tuned, tuned]);
            assert_eq!(of(1), Params::for_device(card, exact));
        }
    }

    #[test]
    fn given_thresholds_take_the_place_of_those_of_the_class() {
        let params = Params::for_device(DriveClass::NoCommandQueuing, true);
        let given = GivenParams::default();
        assert!(given.is_empty());
        assert_eq!(given.in_place_of(params), params);
        let given = GivenParams {
            shift_bytes: Some(0),
            merge_distance: Some(16),
            hole_pages: Some(3),
        };
        let infill = params.infill.map(|infill| Infill {
            hole_pages: 3,
            ..infill
        });
        let expected = Params {
            merge_distance: 16,
            shift_bytes: 0,
            infill,
            order: ReadOrder::Access,
        };
        assert!(!given.is_empty());
        assert_eq!(given.in_place_of(params), expected);
        let none = GivenParams {
            hole_pages: Some(0),
            ..given
        };
        assert_eq!(none.in_place_of(params).infill, None);
        // A sweep has holes, and neither a shift nor an I/O distance.
        let disk = Params::for_device(DriveClass::Rotational, true);
        assert_eq!(given.in_place_of(disk).order, ReadOrder::Access);
        let hole = GivenParams {
            hole_pages: Some(3),
            ..GivenParams::default()
        };
        assert_eq!(hole.in_place_of(disk).order, ReadOrder::Disk);
    }

    #[test]
    fn defaults_follow_table_2() {
        let any = Infill::ANY_DISTANCE;
        for (class, shift_bytes, hole_pages, distance, order) in [
            (DriveClass::CommandQueuing, 65536, 2, 64, ReadOrder::Access),
            (
                DriveClass::NoCommandQueuing,
                4096,
                7,
                any,
                ReadOrder::Access,
            ),
            // The table is about flash.
            (DriveClass::Rotational, 65536, 4, any, ReadOrder::Disk),
        ] {
            let as_read = Params {
                merge_distance: 8,
                shift_bytes,
                infill: None,
                order,
            };
            assert_eq!(Params::for_device(class, false), as_read, "{class:?}");
            let exact = Params {
                infill: Some(Infill {
                    hole_pages,
                    distance,
                }),
                ..as_read
            };
            assert_eq!(Params::for_device(class, true), exact, "{class:?}, exact");
        }
    }
}
