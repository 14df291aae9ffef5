//! The one scheduling parameter that dynamic scheduling raises (paper §3.3, Table 2).

use serde::{Deserialize, Serialize};

use crate::model::{DriveClass, Infill, Params};

/// How dynamic scheduling goes from one level to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuningRules {
    /// Context switches, in percent of the read requests of a cold launch without prefetching, up to which prefetching is
    /// in time.
    pub in_time_percent: u64,
    /// Step of the metadata shift, in bytes.
    pub shift_step: u64,
    /// Largest shift that is tried, in bytes.
    pub max_shift: u64,
    /// Step of the I/O distance, in positions of the launch sequence.
    pub distance_step: u64,
    /// Largest I/O distance that is tried.
    pub max_distance: u64,
    /// Step of infill's hole, in 4 KiB pages.
    pub hole_step: u64,
    /// Largest hole that is tried, in 4 KiB pages.
    pub max_hole: u64,
}

impl Default for TuningRules {
    fn default() -> Self {
        TuningRules {
            // Paper §3.3, as the steps of the shift and the I/O distance.
            in_time_percent: 5,
            shift_step: 16 << 10,
            // The paper names no bound; at 256 KiB, used for all its apps alike, their launches became 3.8 % longer on
            // average (§5). Twelve steps from the default.
            max_shift: 256 << 10,
            distance_step: 4,
            // The paper names no bound. Entries so far apart are merged on drives with command queuing, across holes,
            // without loss (`Params::for_device`); fourteen steps from the default.
            max_distance: 64,
            hole_step: 2,
            // Reading it takes the time of two random reads on the paper's MicroSD card (§5.3). With it, a scattered
            // page makes a request of 64 KiB at most.
            max_hole: 15,
        }
    }
}

/// The parameter that dynamic scheduling may raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TunedParameter {
    /// The metadata shift, on drives with command queuing.
    Shift,
    /// The I/O distance, on drives without.
    Distance,
    /// The hole of infill merge, on drives without command queuing whose entries are merged at
    /// [`Infill::ANY_DISTANCE`] already. There a larger I/O distance would change nothing. A larger hole also
    /// makes fewer requests, at the price of unneeded pages that are read along.
    Hole,
}

impl TunedParameter {
    /// The tuned parameter for a class of drive and a schedule with these parameters; `None` for disks with
    /// heads, for which the original has no threshold to raise.
    pub fn of(class: DriveClass, params: &Params) -> Option<Self> {
        match (class, params.infill) {
            (DriveClass::Rotational, _) => None,
            (DriveClass::CommandQueuing, _) => Some(TunedParameter::Shift),
            (DriveClass::NoCommandQueuing, Some(infill))
                if infill.distance == Infill::ANY_DISTANCE =>
            {
                Some(TunedParameter::Hole)
            }
            (DriveClass::NoCommandQueuing, _) => Some(TunedParameter::Distance),
        }
    }

    /// The parameters with the tuned one a step higher; `None` if that is beyond its range.
    pub fn raise(self, params: &Params, rules: &TuningRules) -> Option<Params> {
        let up = |value: u64, step: u64, most: u64| {
            value.checked_add(step).filter(|&raised| raised <= most)
        };
        let mut raised = *params;
        match self {
            TunedParameter::Shift => {
                raised.shift_bytes = up(params.shift_bytes, rules.shift_step, rules.max_shift)?
            }
            TunedParameter::Distance => {
                raised.merge_distance = up(
                    params.merge_distance,
                    rules.distance_step,
                    rules.max_distance,
                )?;
                // Infill merge joins what is contiguous, too, so that the larger distance decides.
                if let Some(infill) = &mut raised.infill {
                    infill.distance = up(infill.distance, rules.distance_step, rules.max_distance)?;
                }
            }
            TunedParameter::Hole => {
                let infill = params.infill?;
                raised.infill = Some(Infill {
                    hole_pages: up(infill.hole_pages, rules.hole_step, rules.max_hole)?,
                    ..infill
                });
            }
        }
        Some(raised)
    }

    /// Whether a schedule with another value can be made from a schedule's entries alone, in both directions,
    /// by `schedule::reorder`. Otherwise `schedule::resequence` needs disk positions, and the launch sequence
    /// to go back.
    pub fn is_order_only(self) -> bool {
        self == TunedParameter::Shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ReadOrder;

    /// How far the levels go from the defaults of a class on, and that nothing else changes.
    #[test]
    fn each_class_of_drive_raises_its_parameter_step_by_step() {
        use DriveClass::{CommandQueuing, NoCommandQueuing};
        let shift: fn(&mut Params) -> &mut u64 = |params| &mut params.shift_bytes;
        let distance: fn(&mut Params) -> &mut u64 = |params| &mut params.merge_distance;
        let hole: fn(&mut Params) -> &mut u64 =
            |params| &mut params.infill.as_mut().expect("touched pages").hole_pages;
        for (class, touched, value, expected) in [
            (
                CommandQueuing,
                false,
                shift,
                (64 << 10..=256 << 10).step_by(16 << 10),
            ),
            (
                CommandQueuing,
                true,
                shift,
                (64 << 10..=256 << 10).step_by(16 << 10),
            ),
            (NoCommandQueuing, false, distance, (8..=64).step_by(4)),
            (NoCommandQueuing, true, hole, (7..=15).step_by(2)),
        ] {
            let first = Params::for_device(class, touched);
            let tuned = TunedParameter::of(class, &first).expect("flash");
            let rules = TuningRules::default();
            let levels = std::iter::successors(Some(first), |params| tuned.raise(params, &rules));
            let expected = expected.map(|number| {
                let mut params = first;
                *value(&mut params) = number;
                params
            });
            assert!(levels.eq(expected), "{class:?} {touched}");
        }
        let params = Params::for_device(DriveClass::Rotational, true);
        assert_eq!(TunedParameter::of(DriveClass::Rotational, &params), None);
    }

    #[test]
    fn a_bounded_infill_goes_along_with_the_distance() {
        let params = Params {
            merge_distance: 8,
            shift_bytes: 4096,
            infill: Some(Infill {
                hole_pages: 2,
                distance: 56,
            }),
            order: ReadOrder::Access,
        };
        assert_eq!(
            TunedParameter::of(DriveClass::NoCommandQueuing, &params),
            Some(TunedParameter::Distance)
        );
        let levels = std::iter::successors(Some(params), |params| {
            TunedParameter::Distance.raise(params, &TuningRules::default())
        });
        let distances =
            levels.map(|level| (level.merge_distance, level.infill.map_or(0, |i| i.distance)));
        assert!(distances.eq([(8, 56), (12, 60), (16, 64)]));
    }

    #[test]
    fn the_shift_alone_leaves_each_entry_as_it_is() {
        let all = [
            TunedParameter::Shift,
            TunedParameter::Distance,
            TunedParameter::Hole,
        ];
        assert_eq!(all.map(TunedParameter::is_order_only), [true, false, false]);
    }

    #[test]
    fn a_parameter_at_the_end_of_its_range_is_not_raised() {
        let params = Params {
            merge_distance: u64::MAX,
            shift_bytes: u64::MAX,
            infill: None,
            order: ReadOrder::Access,
        };
        for tuned in [
            TunedParameter::Shift,
            TunedParameter::Distance,
            TunedParameter::Hole,
        ] {
            assert_eq!(
                tuned.raise(&params, &TuningRules::default()),
                None,
                "{tuned:?}"
            );
        }
    }
}
