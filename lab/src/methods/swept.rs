//! Sweeps: schedules of which one parameter takes one value after the other (Paralfetch, Figures 4, 6, 7 and 8).

use std::fmt;

use paralfetch::model::{DriveClass, Infill, LogEntry, Params, PrefetchEntry};
use paralfetch::schedule::schedule;

use super::method::Method;
use super::plan::in_access_order;

/// A parameter of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SweptParameter {
    /// The metadata shift, in KiB, of the set as read.
    Shift,
    /// The I/O distance of range merge, in positions, of the set as read.
    Distance,
    /// The largest hole of infill merge, in 4 KiB pages, of the exact set.
    Hole,
}

/// A parameter with its value. The others have the values that the drive's class gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Swept {
    /// Which one.
    pub parameter: SweptParameter,
    /// In the unit of [`SweptParameter`].
    pub value: u64,
}

impl SweptParameter {
    /// All of them.
    pub const ALL: [SweptParameter; 3] = [
        SweptParameter::Shift,
        SweptParameter::Distance,
        SweptParameter::Hole,
    ];

    /// Name of the parameter in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            SweptParameter::Shift => "shift",
            SweptParameter::Distance => "distance",
            SweptParameter::Hole => "hole",
        }
    }

    /// The parameter of this name.
    pub fn named(name: &str) -> Option<SweptParameter> {
        let mut all = SweptParameter::ALL.into_iter();
        all.find(|parameter| parameter.name() == name)
    }

    /// The values of a sweep, rising.
    pub fn values(self) -> &'static [u64] {
        match self {
            SweptParameter::Shift => &[0, 4, 16, 64, 128, 256, 512],
            SweptParameter::Distance => &[0, 4, 8, 16, 32, 64, 1024],
            SweptParameter::Hole => &[0, 2, 4, 8, 16, 64, 256],
        }
    }
}

impl Swept {
    /// Reads a parameter and its value, such as `shift-64`.
    pub fn parse(text: &str) -> Option<Swept> {
        let (name, value) = text.rsplit_once('-')?;
        let swept = Swept {
            parameter: SweptParameter::named(name)?,
            value: value.parse().ok()?,
        };
        // `+8` is no name.
        (swept.to_string() == text).then_some(swept)
    }

    /// The method that it is a variant of.
    pub fn method(self) -> Method {
        match self.parameter {
            SweptParameter::Shift | SweptParameter::Distance => Method::ShiftMerge,
            SweptParameter::Hole => Method::Infill,
        }
    }

    /// The schedule of a launch sequence for a drive of this class.
    pub(super) fn schedule(self, log: &[LogEntry], class: DriveClass) -> Vec<PrefetchEntry> {
        let as_read = in_access_order(class, false);
        let exact = in_access_order(class, true);
        let params = match self.parameter {
            SweptParameter::Shift => Params {
                shift_bytes: self.value.saturating_mul(1024),
                ..as_read
            },
            SweptParameter::Distance => Params {
                merge_distance: self.value,
                ..as_read
            },
            SweptParameter::Hole => Params {
                infill: exact.infill.map(|infill| Infill {
                    hole_pages: self.value,
                    ..infill
                }),
                ..exact
            },
        };
        schedule(log, &params)
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.parameter.name(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn names_are_read_back() {
        for parameter in SweptParameter::ALL {
            assert!(parameter.values().is_sorted());
            for &value in parameter.values() {
                let swept = Swept { parameter, value };
                assert_eq!(Swept::parse(&swept.to_string()), Some(swept));
            }
        }
        for text in [
            "shift", "shift-", "shift-x", "shift-+8", "shift-08", "region-2", "tilt-8", "shift--8",
        ] {
            assert_eq!(Swept::parse(text), None, "{text}");
        }
    }

    #[test]
    fn defaults_give_the_methods_schedule() {
        let reads = [
            (0, 0, 2),
            (4, 3, 1),
            (0, 4, 1),
            (1, 2, 1),
            (4, 9, 1),
            (0, 2, 1),
            (2, 0, 6),
        ];
        let log = samples::learned_set(&reads, false).log;
        use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
        for class in [CommandQueuing, NoCommandQueuing, Rotational] {
            let as_read = in_access_order(class, false);
            let exact = in_access_order(class, true);
            let swept = |parameter, value| Swept { parameter, value }.schedule(&log, class);
            assert_eq!(
                swept(SweptParameter::Shift, as_read.shift_bytes / 1024),
                schedule(&log, &as_read)
            );
            assert_eq!(
                swept(SweptParameter::Distance, as_read.merge_distance),
                schedule(&log, &as_read)
            );
            let hole = exact.infill.map_or(0, |infill| infill.hole_pages);
            assert_eq!(swept(SweptParameter::Hole, hole), schedule(&log, &exact));
        }
    }
}
