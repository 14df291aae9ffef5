//! Prediction: which apps a user launches in the next hours, and which of them are worth reading ahead before the click.
//!
//! [`probabilities`] says from the user's launches how likely each app is, [`worthwhile`] chooses among the apps what to
//! read within a budget, and [`Worth`] whether what was read so far was used. All are functions over plain data; the caller
//! numbers the apps. `lab predict` measures how often they are right.

mod choice;
mod probability;
mod worth;

pub use choice::{Candidate, worthwhile};
pub use probability::{Evidence, HORIZON_S, PastLaunch, probabilities, probabilities_by};
pub use worth::Worth;
