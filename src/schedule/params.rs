//! Scheduling parameters and their defaults.

use serde::{Deserialize, Serialize};

use crate::device::Class;

/// Thresholds of infill merge (Mobifetch §2; VanDeBogart, USENIX ATC '09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Infill {
    /// Largest hole of unneeded blocks that is read along, in 4 KiB pages.
    pub hole_pages: u64,
    /// Largest I/O distance of entries merged across a hole, in positions of the launch sequence.
    pub distance: u64,
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
}

impl Params {
    /// Table 2 of the paper for the drive's class; infill for exact launch sequences, whose pages
    /// are scattered.
    pub fn for_device(class: Class, exact: bool) -> Self {
        let shift_bytes = match class {
            Class::CommandQueuing | Class::Rotational => 64 << 10,
            Class::NoCommandQueuing => 4 << 10,
        };
        Params {
            merge_distance: 8,
            shift_bytes,
            infill: exact.then_some(Infill {
                hole_pages: 2,
                distance: 64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_table_2() {
        for (class, shift_bytes) in [
            (Class::CommandQueuing, 65536),
            (Class::NoCommandQueuing, 4096),
            // Not in the table, which is about flash: such disks queue commands.
            (Class::Rotational, 65536),
        ] {
            let as_read = Params {
                merge_distance: 8,
                shift_bytes,
                infill: None,
            };
            assert_eq!(Params::for_device(class, false), as_read, "{class:?}");
            let exact = Params {
                infill: Some(Infill {
                    hole_pages: 2,
                    distance: 64,
                }),
                ..as_read
            };
            assert_eq!(Params::for_device(class, true), exact, "{class:?}, exact");
        }
    }
}
