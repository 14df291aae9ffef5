//! Numbers within bounds: deserialisers whose errors say what the bounds are.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// A whole number from `LOW` to `HIGH`.
pub(super) fn whole<'de, D, const LOW: u64, const HIGH: u64>(value: D) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
{
    value.deserialize_u64(Whole {
        low: LOW,
        high: HIGH,
    })
}

/// A number of percent, with or without a fraction.
pub(super) fn percent<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    value.deserialize_f64(Percent)
}

struct Whole {
    low: u64,
    high: u64,
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.low, self.high)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        if (self.low..=self.high).contains(&value) {
            Ok(value)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(value), &self))
        }
    }
}

struct Percent;

impl Visitor<'_> for Percent {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0 to 100")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        // NaN lies in no range.
        if (0.0..=100.0).contains(&value) {
            Ok(value)
        } else {
            Err(E::invalid_value(Unexpected::Float(value), &self))
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }
}
